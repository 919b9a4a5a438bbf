"""One-stage detectors: RetinaNet, FCOS, ATSS, PAA, YOLOX."""
