"""Checks of segmentation data before a long training: each kind of fault, how often it occurs, the first case."""

from collections import Counter

import numpy as np

from equigrad.data.findings import Finding, Severity
from equigrad.data.frequency import Counts
from equigrad.data.images.checks import check_coverage, check_overlap
from equigrad.data.images.lists import ImageList
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.segmentation.category_pixels import CategoryPixels, LabelReading, Progress, scan_label_maps
from equigrad.data.segmentation.data import SegmentationData
from equigrad.data.segmentation.label_maps import check_sizes
from equigrad.terminal import printable


def check_label_maps(
    data: SegmentationData, *, decode: bool = False, num_workers: int = 0, progress: Progress | None = None
) -> list[Finding]:
    """Find unusable label maps, images of another size than their label map, and categories without pixels.

    Args:
        data: images and label maps.
        decode: also decode every image, which finds truncated ones; else only headers are read.
        num_workers: number of processes that read label maps.
        progress: called after each label map.
    """
    return _faults(data, scan_label_maps(data, num_workers=num_workers, progress=progress), decode)


def _faults(data: SegmentationData, readings: list[LabelReading], decode: bool) -> list[Finding]:
    unlabelled = [
        data.label_name(index)
        for index, reading in enumerate(readings)
        if not reading.fault and not reading.pixels[:-1].any()
    ]
    cases: list[tuple[Severity, str, list[str]]] = [
        ("error", "label maps that cannot be used", [reading.fault for reading in readings if reading.fault]),
        ("error", "images that cannot be used, or of another size", _wrong_images(data, readings, decode)),
        ("error", "pixels of a single category, so there is nothing to distinguish", _single_category(data, readings)),
        ("note", "images without any labelled pixel", unlabelled),
        ("note", "categories without pixels", _absent(data, readings)),
        ("note", "images listed more than once", [name for name, count in Counter(data.names).items() if count > 1]),
    ]
    return [Finding.of(severity, f"{data.source}: {kind}", found) for severity, kind, found in cases if found]


def check_segmentation(
    train: SegmentationData,
    test: SegmentationData | None = None,
    *,
    by_content: bool = True,
    decode: bool = False,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> list[Finding]:
    """Run all checks on a training set and, if given, its test set; `by_content` also finds renamed copies."""
    trained = scan_label_maps(train, num_workers=num_workers, progress=progress)
    findings = _faults(train, trained, decode)
    if test is None:
        return findings
    tested = scan_label_maps(test, num_workers=num_workers, progress=progress)
    findings += _faults(test, tested, decode)
    if train.class_names != test.class_names:
        names = f"{train.num_classes} and {test.num_classes} categories"
        findings.append(Finding("error", f"{test.source}: other category names than in training", 1, names))
    else:
        present = np.flatnonzero(_pixel_counts(tested))
        findings += check_coverage(test.source, train.class_names, _pixel_counts(trained), present, "pixels")
    findings += check_overlap(_images(train), _images(test), by_content=by_content)
    return findings


def describe(data: SegmentationData, pixels: CategoryPixels) -> str:
    """A text table with pixels and images of each category, most frequent first."""
    counts, images = pixels.pixel_counts, pixels.image_counts
    labelled, ignored = int(counts.sum()), int(pixels.ignored.sum())
    order = np.argsort(-counts, kind="stable")
    present = order[counts[order] > 0]
    categories = f"{data.num_classes} categories, {len(present)} of them present"
    lines = [
        f"{printable(data.source)}: {len(data):,} images, {categories}",
        f"ignored pixels: {ignored / max(labelled + ignored, 1):.1%}",
    ]
    if len(present):
        imbalance = counts[present[0]] / counts[present[-1]]
        lines.append(f"pixels of the most frequent category over those of the rarest: {imbalance:,.0f}")
    lines.append(f"{'category':28}{'pixels':>14}{'share':>9}{'images':>9}")
    lines += [
        f"{printable(data.class_names[label])[:27]:28}"
        f"{counts[label]:14,}{counts[label] / max(labelled, 1):9.3%}{images[label]:9,}"
        for label in order
    ]
    return "\n".join(lines)


def _images(data: SegmentationData) -> ImageList:
    """The images without their label maps."""
    return ImageList(data.store, data.paths, np.zeros(len(data), dtype=np.int64), data.class_names, data.source)


def _wrong_images(data: SegmentationData, readings: list[LabelReading], decode: bool) -> list[str]:
    faults = []
    for index, reading in enumerate(readings):
        try:
            if decode:
                data.read_image(index)
            size = stored_image_size(data.store, data.paths[index], reading.size)
            if not reading.fault:
                check_sizes(data.image_name(index), size, data.label_name(index), reading.size)
        except (ValueError, OSError) as error:
            faults.append(str(error))
    return faults


def _absent(data: SegmentationData, readings: list[LabelReading]) -> list[str]:
    return [f"{data.class_names[label]} (label {label})" for label in np.flatnonzero(_pixel_counts(readings) == 0)]


def _single_category(data: SegmentationData, readings: list[LabelReading]) -> list[str]:
    present = np.flatnonzero(_pixel_counts(readings))
    if len(present) != 1 or any(reading.fault for reading in readings):
        return []
    pixels = np.sum([reading.pixels for reading in readings], axis=0)
    case = data.class_names[present[0]]
    if not pixels[-1]:
        return [case]
    values = ", ".join(map(str, data.values.ignored))
    return [
        f"{case}; {pixels[-1] / pixels.sum():.1%} of the pixels have the value {values}, which is ignored: if that is "
        "a category, write its number instead"
    ]


def _pixel_counts(readings: list[LabelReading]) -> Counts:
    """Pixels of each category, (C,)."""
    counts: Counts = np.sum([reading.pixels for reading in readings], axis=0)[:-1]
    return counts
