"""Eight drawn images in the layout that Ultralytics reads."""

import json
import shutil
from dataclasses import replace

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.yolo_writing import write_yolo
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.glyphs.scenes import SCENE


def write_scenes(folder):
    """`data.yaml` of eight scenes, and `same.yaml` of the first of them eight times, as one object."""
    style = replace(SCENE, image_size=64)
    write_detection(folder / "lvis", GlyphData([24, 5, 3], glyphs_per_image=(4, 4)), style=style)
    scenes = read_coco(folder / "lvis" / "annotations" / "lvis_train.json")
    write_yolo(scenes, folder / "data", folder / "lvis" / "images", with_masks=False)
    first, *_ = (folder / "data" / "images" / "train").iterdir()
    for kind in ("images", "labels"):
        (folder / "same" / kind).mkdir(parents=True)
    for number in range(8):
        shutil.copy(first, folder / "same" / "images" / f"{number}.png")
        # Large: the sum of the soft targets, which are overlaps, must be above 1, as in a usual batch.
        (folder / "same" / "labels" / f"{number}.txt").write_text("1 0.5 0.5 0.9 0.9")
    for name in ("data", "same"):
        settings = {"path": str(folder / name), "train": "images", "val": "images", "names": list("abc")}
        (folder / f"{name}.yaml").write_text(json.dumps(settings))
    return folder
