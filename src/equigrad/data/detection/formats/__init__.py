"""Annotation files: COCO and LVIS JSON, OpenImages CSV, and conversion of Pascal VOC and YOLO folders."""
