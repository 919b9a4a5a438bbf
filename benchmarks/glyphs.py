"""Images per second of the glyph data, on one core.

python benchmarks/glyphs.py
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from equigrad.data.frequency import load_frequencies, pick_categories, scale_counts
from equigrad.data.glyphs.drawing import choose_glyphs
from equigrad.data.glyphs.files import write_classification, write_detection, write_segmentation
from equigrad.data.glyphs.layout import GlyphData, SplitScenes, glyph_images
from equigrad.data.glyphs.scenes import PORTRAIT, SCENE

COUNTS = scale_counts(pick_categories(load_frequencies("lvis_v1").instance_counts, 100), 2000)
DATA = GlyphData(COUNTS, eval_count=0, glyphs_per_image=(3, 7))
NUM_SCENES = len(DATA.scenes("train"))


def report(what: str, num_images: int, work: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what:<52} {num_images / wall:7.0f} images/s  ({num_images / cpu:.0f} per CPU second)")


def render_all() -> None:
    scenes = SplitScenes(DATA.glyphs(), DATA.scenes("train"), SCENE, "train", seed=0)
    for index in range(len(scenes)):
        scenes[index]


def main() -> None:
    for num_categories in (100, 1203):
        start = time.process_time()
        choose_glyphs(num_categories, 3)
        print(f"choosing {num_categories} categories: {time.process_time() - start:.1f} CPU seconds, once per process")
    jpg = replace(DATA, image_format="jpg")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        report("scenes of 3-7 glyphs, 128 px: drawing", NUM_SCENES, render_all)
        report("  + LVIS masks, boxes, PNG", NUM_SCENES, lambda: write_detection(root / "png", DATA))
        report("  + LVIS masks, boxes, JPEG", NUM_SCENES, lambda: write_detection(root / "jpg", jpg))
        report("  + label maps, PNG", NUM_SCENES, lambda: write_segmentation(root / "maps", DATA))
        report("one glyph, 64 px: PNG and list", 2000, lambda: write_classification(root / "list", DATA))
        for size in (64, 32):
            style = replace(PORTRAIT, image_size=size)
            report(
                f"one glyph, {size} px: in memory", 2000, lambda style=style: glyph_images(DATA, "train", style=style)
            )


if __name__ == "__main__":
    main()
