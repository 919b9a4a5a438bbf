"""One-stage detectors: RetinaNet, FCOS, ATSS, PAA, YOLOX.

Their builders have the names of their modules, so `equigrad.models.detection` exports them and this package does not.
"""
