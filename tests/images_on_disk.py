"""Small image files for the tests of readers."""

import zipfile

import numpy as np
from PIL import Image


def write_images(folder, counts, *, size=8, seed=0, suffix="png"):
    """`folder/<name>/<number>.<suffix>`, random pixels; the relative paths by category name."""
    rng = np.random.default_rng(seed)
    paths = {}
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        paths[name] = [f"{name}/{number}.{suffix}" for number in range(count)]
        for path in paths[name]:
            Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(folder / path)
    return paths


def write_list(file, paths):
    """Lines `path label` with the labels in the order of the names."""
    lines = [f"{path} {label}\n" for label, name in enumerate(paths) for path in paths[name]]
    file.write_text("".join(lines))
    return file


def zip_folder(folder, file):
    """An archive of the files below a folder."""
    paths = sorted(folder.rglob("*.*"))  # before the archive is there: packing itself it would grow without end
    with zipfile.ZipFile(file, "w") as archive:
        for path in paths:
            archive.write(path, path.relative_to(folder).as_posix())
    return file
