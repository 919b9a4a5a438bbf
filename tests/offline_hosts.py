"""Host libraries stay offline and write nothing into the home folder; import this before them."""

import os
import tempfile

_settings = tempfile.TemporaryDirectory(prefix="equigrad-hosts-")

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    YOLO_OFFLINE="1",
    YOLO_AUTOINSTALL="false",
    YOLO_VERBOSE="false",
    YOLO_CONFIG_DIR=_settings.name,
)
