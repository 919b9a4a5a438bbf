"""Images per second of the glyph data, on one core.

python benchmarks/glyphs.py
python benchmarks/glyphs.py --objects 200 --categories 20
"""

import argparse
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


def glyph_data(num_categories: int, num_objects: int) -> GlyphData:
    """Objects with LVIS's profile."""
    counts = pick_categories(load_frequencies("lvis_v1").instance_counts, num_categories)
    return GlyphData(scale_counts(counts, num_objects), eval_count=0, glyphs_per_image=(3, 7))


def report(what: str, num_images: int, work: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what:<52} {num_images / wall:7.0f} images/s  ({num_images / cpu:.0f} per CPU second)")


def render_all(data: GlyphData) -> None:
    scenes = SplitScenes(data.glyphs(), data.scenes("train"), SCENE, "train", seed=0)
    for index in range(len(scenes)):
        scenes[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--categories", type=int, default=100)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--choose", type=int, nargs="+", default=[100, 1203], help="numbers of categories to choose")
    arguments = parser.parse_args()
    for num_categories in arguments.choose:
        start = time.process_time()
        choose_glyphs(num_categories, 3)
        print(f"choosing {num_categories} categories: {time.process_time() - start:.1f} CPU seconds, once per process")
    data = glyph_data(arguments.categories, arguments.objects)
    jpg, num_scenes = replace(data, image_format="jpg"), len(data.scenes("train"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        report("scenes of 3-7 glyphs, 128 px: drawing", num_scenes, lambda: render_all(data))
        report("  + LVIS masks, boxes, PNG", num_scenes, lambda: write_detection(root / "png", data))
        report("  + LVIS masks, boxes, JPEG", num_scenes, lambda: write_detection(root / "jpg", jpg))
        report("  + label maps, PNG", num_scenes, lambda: write_segmentation(root / "maps", data))
        report("one glyph, 64 px: PNG and list", arguments.objects, lambda: write_classification(root / "list", data))
        for size in (64, 32):
            style = replace(PORTRAIT, image_size=size)
            drawn = f"one glyph, {size} px: in memory"
            report(drawn, arguments.objects, lambda style=style: glyph_images(data, "train", style=style))


if __name__ == "__main__":
    main()
