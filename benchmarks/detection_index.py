"""Time and memory to index an annotation file of LVIS's training size, against `pycocotools` and `lvis`.

python benchmarks/detection_index.py --annotations 20000

Without `--annotations` the file has LVIS's 1.27 million annotations and 0.95 GB; pycocotools then needs 6.3 GB.
Every reader runs in a process of its own; what importing it alone takes is measured in the same way and subtracted
from the time, not from the memory.

    python benchmarks/detection_index.py --starts lvis openimages

measures the start of a training instead, with both data sets and the sampler: without an index, the first start, which
makes it, and a later start, beside what importing torch, torchvision and Lightning takes. OpenImages has 12 million
boxes on 1.74 million image files, whose headers are read. `--share 0.01` makes the files smaller. A start on its own
has MB above what importing takes; the pages of the index that it touches count, although all processes of a machine
share them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from made_openimages import write_openimages
from PIL import Image

from equigrad.data.frequency import Frequencies, load_frequencies

LVIS_ANNOTATIONS, LVIS_IMAGES = 1_270_141, 100_170
LVIS_TEST_ANNOTATIONS = 244_707
OPENIMAGES_BOXES, OPENIMAGES_IMAGES = 12_195_144, 1_743_042
PEERS = ("pycocotools", "lvis")


def write_annotations(file: Path, num_annotations: int, seed: int = 0) -> None:
    """LVIS's fields and category frequencies, polygons nearly as long (750 bytes an annotation), in random order."""
    rng = np.random.default_rng(seed)
    frequencies = load_frequencies("lvis_v1")
    num_images = max(1, round(num_annotations * LVIS_IMAGES / LVIS_ANNOTATIONS))
    weights = frequencies.instance_counts / frequencies.instance_counts.sum()
    labels = rng.choice(len(frequencies), num_annotations, p=weights) + 1
    images = rng.integers(num_images, size=num_annotations) + 1
    shapes = [polygon_fields(rng) for _ in range(5000)]
    picks = rng.integers(len(shapes), size=num_annotations)
    with file.open("w") as stream:
        stream.write('{"info": {"description": "made"}, "annotations": [')
        for index in range(num_annotations):
            comma = ", " if index else ""
            stream.write(
                f'{comma}{{{shapes[picks[index]]}, "id": {index + 1}, '
                f'"image_id": {images[index]}, "category_id": {labels[index]}}}'
            )
        stream.write('], "images": ' + json.dumps([image_record(index + 1, rng) for index in range(num_images)]))
        stream.write(', "categories": ' + json.dumps(category_records(frequencies)) + "}")


def polygon_fields(rng: np.random.Generator) -> str:
    """Area, segmentation and box of a star-shaped outline with many or few corners."""
    num_points = int(np.clip(rng.lognormal(3.25, 0.9), 4, 400))
    angles = np.sort(rng.random(num_points)) * 2 * np.pi
    radius = rng.lognormal(3.0, 0.8) * (1 + 0.2 * rng.standard_normal(num_points))
    x = np.clip(rng.uniform(0, 640) + radius * np.cos(angles), 0, 640).round(2)
    y = np.clip(rng.uniform(0, 480) + radius * np.sin(angles), 0, 480).round(2)
    box = [x.min(), y.min(), (x.max() - x.min()).round(2), (y.max() - y.min()).round(2)]
    polygon = np.stack([x, y], 1).ravel().tolist()
    area = round(float(box[2] * box[3] * 0.7), 2)
    return f'"area": {area}, "segmentation": {[polygon]}, "bbox": {[float(value) for value in box]}'


def image_record(image_id: int, rng: np.random.Generator) -> dict[str, object]:
    absent, partial = rng.integers(1, 1204, size=8).tolist(), rng.integers(1, 1204, size=1).tolist()
    return {
        "date_captured": "2013-11-18 09:22:25",
        "neg_category_ids": absent,
        "not_exhaustive_category_ids": partial,
        "license": 1,
        "height": 480,
        "width": 640,
        "flickr_url": f"http://farm6.staticflickr.com/5523/{image_id:011d}_aaaaaaaaaa_z.jpg",
        "coco_url": f"http://images.cocodataset.org/train2017/{image_id:012d}.jpg",
        "id": image_id,
    }


def category_records(frequencies: Frequencies) -> list[dict[str, object]]:
    return [
        {"id": index + 1, "name": name, "frequency": "r" if count <= 10 else "c" if count <= 100 else "f"}
        | {"image_count": int(count), "synset": f"{name}.n.01", "synonyms": [name], "def": "made"}
        for index, (name, count) in enumerate(zip(frequencies.names, frequencies.image_counts, strict=True))
    ]


def import_only(reader: str) -> None:
    if reader == "equigrad":
        import equigrad.data.detection.formats.coco_json  # noqa: F401
    elif reader == "pycocotools":
        import pycocotools.coco  # noqa: F401
    elif reader == "lvis":
        lvis_package()


def index_file(reader: str, file: Path) -> object:
    """What a user of each reader writes; the result is kept alive until the memory is measured."""
    if reader == "equigrad":
        from equigrad.data.detection.formats.coco_json import read_coco

        return read_coco(file)
    if reader == "pycocotools":
        from pycocotools.coco import COCO

        return COCO(str(file))
    return lvis_index(file)


def lvis_package() -> Callable[[str], object] | None:
    """The class that reads files, where the package is installed."""
    np.float = float  # noqa: NPY001 - the package was written for numpy 1
    try:
        from lvis import LVIS
    except ImportError:
        return None
    return LVIS


def lvis_index(file: Path) -> object:
    """What `lvis.LVIS(file)` keeps, made by the same steps where there is no such package."""
    reader = lvis_package()
    if reader is not None:
        return reader(str(file))
    content = json.loads(file.read_text())
    by_image, by_category = defaultdict(list), defaultdict(list)
    for annotation in content["annotations"]:
        by_image[annotation["image_id"]].append(annotation)
        by_category[annotation["category_id"]].append(annotation["image_id"])
    names = ("annotations", "images", "categories")
    tables = [{record["id"]: record for record in content[name]} for name in names]
    return content, by_image, by_category, tables


def measure(reader: str, file: Path | None) -> tuple[float, float]:
    """CPU seconds and peak megabytes of a fresh process that imports a reader and, given a file, reads it."""
    line = [sys.executable, __file__, "--reader", reader, *(["--file", str(file)] if file else [])]
    shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    seconds, megabytes = shown.splitlines()[-1].split()
    return float(seconds), float(megabytes)


def run_reader(reader: str, file: Path | None) -> None:
    import_only(reader)
    kept = index_file(reader, file) if file else None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.process_time(), peak)
    del kept


def make_data(name: str, folder: Path, share: float) -> None:
    """Files of LVIS's or OpenImages' size, or of a share of it."""
    if name == "openimages":
        write_openimages(folder, round(share * OPENIMAGES_IMAGES), round(share * OPENIMAGES_BOXES))
        return
    (folder / "images").mkdir(parents=True)
    write_annotations(folder / "train.json", round(share * LVIS_ANNOTATIONS))
    write_annotations(folder / "test.json", round(share * LVIS_TEST_ANNOTATIONS), seed=1)
    Image.new("RGB", (640, 480)).save(folder / "images" / "000000000001.jpg")  # a start looks for the first one only


def run_start(name: str, folder: Path) -> None:
    """What a training does before its first step: both data sets, the counts of the categories and the sampler."""
    begin = clocks()
    import torch

    from equigrad.engine import launch
    from equigrad.sampling import RepeatFactorSampler, ShuffledSampler
    from equigrad.sampling.presence import CategoryPresence
    from equigrad.tasks.categories import TrainedCategories
    from equigrad.tasks.detection.data import CocoFiles, OpenImages

    launch(seed=0)  # imports Lightning
    imported, start = peak_megabytes(), clocks()
    if name == "openimages":
        sets = OpenImages(folder / "annotations", folder / "images").load(with_masks=False)
        sampler: object = ShuffledSampler(len(sets.train))
    else:
        sets = CocoFiles(folder / "train.json", folder / "test.json", folder / "images").load(with_masks=True)
        pairs = (torch.tensor(column, dtype=torch.int64) for column in sets.train.presence)
        presence = CategoryPresence(*pairs, len(sets.train), sets.train.data.num_classes)
        sampler = RepeatFactorSampler(presence)
    categories = TrainedCategories.of(sets.train.data)
    print(*(clocks() - start), *(start - begin), peak_megabytes() - imported, own_megabytes())
    del sets, sampler, categories


def clocks() -> np.ndarray:
    """Seconds that have passed, and CPU seconds of this process."""
    return np.array([time.monotonic(), time.process_time()])


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def own_megabytes() -> float:
    """Memory of this process that no other shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1024


def print_starts(name: str, share: float, num_later: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, name)
        make_data(name, folder, share)
        print(f"| {name}, start | s | CPU s | imports, s | CPU s | peak MB above imports | own MB, imports included |")
        print("|---" * 7 + "|")
        cache = str(Path(made, "cache"))
        for label, setting in (("without an index", ""), ("first", cache), *[("later", cache)] * num_later):
            line = [sys.executable, __file__, "--start", name, "--file", str(folder)]
            environment = {**os.environ, "EQUIGRAD_CACHE": setting}
            shown = subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout
            *seconds, megabytes, own = map(float, shown.splitlines()[-1].split())
            shown = " | ".join(f"{value:.2f}" for value in seconds)
            print(f"| {label} | {shown} | {megabytes:,.0f} | {own:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", type=int, default=LVIS_ANNOTATIONS)
    parser.add_argument("--file", type=Path, help="read this file instead of a made one")
    parser.add_argument("--against", nargs="*", choices=PEERS, default=PEERS, help="readers to compare with")
    parser.add_argument("--starts", nargs="+", choices=("lvis", "openimages"), help="measure starts of a training")
    parser.add_argument("--share", type=float, default=1.0, help="of the size of the real files, for --starts")
    parser.add_argument("--later", type=int, default=2, help="starts with an index that is there, for --starts")
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    parser.add_argument("--start", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.start:
        run_start(arguments.start, arguments.file)
        return
    if arguments.starts:
        for name in arguments.starts:
            print_starts(name, arguments.share, arguments.later)
        return
    if arguments.reader:
        run_reader(arguments.reader, arguments.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.file or Path(folder, "lvis_train.json")
        if not arguments.file:
            write_annotations(file, arguments.annotations)
        print_table(file, arguments.against)


def print_table(file: Path, peers: Sequence[str]) -> None:
    rows = {}
    for reader in ("equigrad", *peers):
        base, _ = measure(reader, None)
        seconds, megabytes = measure(reader, file)
        rows[reader] = (seconds - base, megabytes)
    ours = rows["equigrad"]
    print(f"{file.stat().st_size / 1e6:,.0f} MB of JSON\n")
    print("| reader | CPU seconds | peak MB | equigrad / it, time | equigrad / it, memory |\n|---|---|---|---|---|")
    for reader, (seconds, megabytes) in rows.items():
        ratios = f"{ours[0] / seconds:.2f} | {ours[1] / megabytes:.2f}"
        print(f"| {reader} | {seconds:.1f} | {megabytes:,.0f} | {ratios} |")


if __name__ == "__main__":
    main()
