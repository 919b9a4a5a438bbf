"""Small segmentation sets for the tests of readers."""

import numpy as np
from PIL import Image

NAMES = ["road", "sky", "tram"]


def write_pair(folder, name, labels, *, images="images", maps="labels", seed=0):
    """An image with random pixels and its label map, of the values given."""
    labels = np.asarray(labels)
    for kind in (images, maps):
        (folder / kind / name).parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*labels.shape, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / images / f"{name}.png")
    Image.fromarray(labels.astype(np.uint8)).save(folder / maps / f"{name}.png")


def write_set(folder, label_maps, **settings):
    """Pairs `images/<name>.png`, `labels/<name>.png` and `classes.txt`."""
    for seed, (name, labels) in enumerate(label_maps.items()):
        write_pair(folder, name, labels, seed=seed, **settings)
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))
    return folder
