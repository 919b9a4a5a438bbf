"""Average precision by the rules of LVIS, COCO and OpenImages."""
