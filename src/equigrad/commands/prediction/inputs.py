"""What `equigrad predict` reads, and the names of what it writes for it."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.images.folders import archived_images, image_files
from equigrad.data.images.stores import ImageStore
from equigrad.data.video import VIDEO_SUFFIXES


@dataclass(frozen=True)
class Input:
    """An image or a video.

    Args:
        path: the file, such as `photos.zip/a.jpg` for one in an archive.
        name: its name in results: its path below the folder or archive that was given, else the name of the file.
        archived: the archive and the name of the image in it; None if it is in none.
    """

    path: Path
    name: PurePosixPath
    archived: tuple[ImageStore, str] | None = None

    @property
    def is_video(self) -> bool:
        """Whether it has frames."""
        return self.path.suffix.lower() in VIDEO_SUFFIXES


def inputs_of(given: Sequence[Path]) -> list[Input]:
    """The files that are given and the images below the given folders and archives, each once, by different names."""
    paths: dict[str, Input] = {}
    for one in given:
        for found in _inputs(one):
            paths.setdefault(os.path.abspath(found.path), found)
    inputs = list(paths.values())
    if len({one.name for one in inputs}) == len(inputs):
        return inputs
    # Equal names in several folders: all of them start at the folder that is common to all files.
    common = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [
        replace(one, name=PurePosixPath(Path(os.path.relpath(path, common)).as_posix())) for path, one in paths.items()
    ]


def _inputs(given: Path) -> Iterator[Input]:
    found = archived_images(given)
    if found is None:
        for file in image_files(given):
            name = file.relative_to(given) if given.is_dir() else Path(file.name)
            yield Input(file, PurePosixPath(name.as_posix()))
        return
    store, names = found
    for stored in names:
        one = Input(store.root / stored, PurePosixPath(stored), (store, stored))
        if one.is_video:
            raise ValueError(f"{one.path}: a video in an archive is not read; unpack it")
        # The archive may come from anybody: `inside` has refused names that would leave the output folder.
        yield one if store.root == given else replace(one, name=PurePosixPath(one.name.name))


def pictures_of(inputs: Sequence[Input], output: Path) -> list[Path]:
    """The picture or video of each input, below the output folder as the input is below its own.

    If two would be the same, as of images that differ in their suffix, or one would replace an image that is read, all
    of them keep the suffix of their image before the new one. ValueError if that does not help.
    """
    read = {os.path.realpath(one.path) for one in inputs}
    suffixes = [".mp4" if one.is_video else ".png" for one in inputs]
    named = list(zip((output / one.name for one in inputs), suffixes, strict=True))
    for targets in (
        [target.with_suffix(suffix) for target, suffix in named],
        [target.with_name(target.name + suffix) for target, suffix in named],
    ):
        replaced = [target for target in targets if os.path.realpath(target) in read]
        if len(set(targets)) == len(targets) and not replaced:
            return targets
    raise ValueError(f"{replaced[0]}: the picture would overwrite an input image; choose another --output FOLDER")


def check_new(files: Sequence[Path], *, force: bool) -> None:
    """FileExistsError if one of the files is there already, unless forced."""
    existing = [file for file in files if file.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise FileExistsError(f"{existing[0]}{more}: exists already; --force replaces, --output writes elsewhere")


class ImageIds:
    """Ids of images in the standard result format.

    Args:
        annotations: a COCO file with the images; None makes their names the ids.
    """

    def __init__(self, annotations: Path | None) -> None:
        self.annotations = annotations
        self.by_path: dict[str, int | str] = {}
        if annotations is not None:
            data = read_coco(annotations)
            self.by_path = dict(zip(data.file_names, data.image_ids.tolist(), strict=True))
        files = [PurePosixPath(path).name for path in self.by_path]
        times = Counter(files)
        pairs = zip(files, self.by_path.values(), strict=True)
        self.by_file = {file: image_id for file, image_id in pairs if times[file] == 1}

    def of(self, one: Input) -> int | str:
        """The id that the annotations give to the path or, if only one image has it, to the name of the file."""
        if self.annotations is None:
            return str(one.name)
        found = self.by_path.get(str(one.name), self.by_file.get(one.name.name))
        if found is None:
            raise ValueError(f"{self.annotations}: images: none has the file_name {one.name}, which is {one.path}")
        return found
