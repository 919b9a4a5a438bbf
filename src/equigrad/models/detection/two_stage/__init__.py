"""Two-stage detectors: Faster and Mask R-CNN."""
