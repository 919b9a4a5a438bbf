import io
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

from equigrad.data.images.stores import ArrayStore, FolderStore, MemoryStore, open_store, store_exists
from images_on_disk import write_images, zip_folder


@pytest.fixture
def folder(tmp_path):
    write_images(tmp_path / "images", {"cat": 2, "dog": 1})
    return tmp_path / "images"


@pytest.fixture
def archive(folder, tmp_path):
    return zip_folder(folder, tmp_path / "images.zip")


def test_an_archive_reads_like_the_folder(folder, archive):
    from_folder, from_zip = open_store(folder), open_store(archive)
    first, second = from_folder.read("cat/1.png"), from_zip.read("cat/1.png")
    assert first.mode == "RGB"
    assert np.array_equal(np.asarray(first), np.asarray(second))
    assert from_folder.content("cat/1.png") == from_zip.content("cat/1.png")
    assert from_folder.size("cat/1.png") == from_zip.size("cat/1.png")


def test_an_archive_is_opened_anew_after_pickling(archive):
    store = open_store(archive)
    store.read("cat/0.png")
    assert pickle.loads(pickle.dumps(store)).read("cat/0.png").size == (8, 8)


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_a_missing_image_is_named(kind, request):
    store = open_store(request.getfixturevalue(kind))
    assert store.size("cat/9.png") is None
    with pytest.raises(FileNotFoundError, match=r"cat/9\.png: no such image"):
        store.read("cat/9.png")


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_image_is_named(folder, damage):
    file = folder / "dog" / "0.png"
    content = file.read_bytes()
    file.write_bytes({"cut": content[: len(content) // 2], "text": b"<html>not found</html>", "empty": b""}[damage])
    with pytest.raises(OSError, match=r"dog/0\.png: cannot read the image"):
        open_store(folder).read("dog/0.png")


def test_a_damaged_member_of_an_archive_is_named(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "png")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/0.png", stream.getvalue())
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[60] ^= 255
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(OSError, match=r"a\.zip/x/0\.png: cannot read"):
        open_store(tmp_path / "a.zip").read("x/0.png")


def test_a_file_that_is_no_archive_is_named(tmp_path):
    (tmp_path / "images.zip").write_text("no")
    with pytest.raises(OSError, match=r"images\.zip: not a zip archive"):
        open_store(tmp_path / "images.zip").read("x")


def test_grey_and_palette_images_become_rgb(tmp_path):
    Image.new("L", (4, 4), 7).save(tmp_path / "grey.png")
    Image.new("RGBA", (4, 4)).save(tmp_path / "transparent.png")
    store = open_store(tmp_path)
    assert store.read("grey.png").getpixel((0, 0)) == (7, 7, 7)
    assert store.read("transparent.png").mode == "RGB"


def test_arrays_are_read_by_index(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    store = open_store(tmp_path / "images.npz")
    assert np.array_equal(np.asarray(store.read("2")), images[2])
    assert store.size("3") is None
    with pytest.raises(FileNotFoundError, match=r"images\.npz\[3\]"):
        store.read("3")


def test_files_in_memory_read_like_files_in_a_folder(folder):
    on_disk = open_store(folder)
    paths = ["cat/0.png", "cat/1.png", "dog/0.png"]
    store = MemoryStore({path: on_disk.content(path) for path in paths}, folder)
    for path in paths:
        assert np.array_equal(np.asarray(store.read(path)), np.asarray(on_disk.read(path)))
        assert store.size(path) == on_disk.size(path)
    assert store.size("cat/9.png") is None
    with pytest.raises(FileNotFoundError, match=r"images\[cat/9\.png\]: no such image, there are 3"):
        store.read("cat/9.png")


def test_damaged_files_in_memory_are_named_and_other_files_have_another_fingerprint(tmp_path):
    store = MemoryStore({"a.png": b"no image"}, tmp_path)
    with pytest.raises(OSError, match=r"\[a\.png\]: cannot read the image"):
        store.read("a.png")
    assert store.fingerprint() != MemoryStore({"a.png": b"another"}, tmp_path).fingerprint()


def test_arrays_of_another_shape_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\(N, H, W, 3\) uint8"):
        ArrayStore(np.zeros((3, 3, 8, 8), dtype=np.uint8), tmp_path)


def test_a_pickled_array_is_not_executed(tmp_path):
    np.savez(tmp_path / "evil.npz", images=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match=r"images\.npy: expected numbers or text, got object"):
        open_store(tmp_path / "evil.npz")


def test_other_places_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        open_store(tmp_path / "absent")
    (tmp_path / "images.tar").write_text("")
    with pytest.raises(ValueError, match=r"a folder, a \.zip or a \.npz"):
        open_store(tmp_path / "images.tar")


def test_a_folder_of_an_archive_reads_like_the_folder(folder, archive):
    store = open_store(archive / "cat")
    assert store.content("1.png") == (folder / "cat" / "1.png").read_bytes()
    assert store.size("1.png") == (folder / "cat" / "1.png").stat().st_size
    assert sorted(store.paths()) == ["0.png", "1.png"]
    assert store.name("1.png") == f"{archive}/cat/1.png"
    assert store.size("0.jpg") is None
    assert pickle.loads(pickle.dumps(store)).read("1.png").size == (8, 8)


def test_a_folder_that_an_archive_does_not_have_is_named_with_those_it_has(archive):
    with pytest.raises(FileNotFoundError, match=r"images\.zip/eel: no such folder in the archive; it has cat, dog"):
        open_store(archive / "eel")


@pytest.mark.parametrize("path", ["images.zip", "images.zip/cat", "images.zip/cat/deeper"])
def test_what_is_in_an_archive_exists(archive, path):
    assert store_exists(archive.parent / path)
    assert not store_exists(archive.parent / "nowhere" / path)


@pytest.mark.parametrize(
    ("min_side", "size"), [(None, (64, 48)), (48, (64, 48)), (24, (32, 24)), (6, (8, 6)), (1, (8, 6))]
)
def test_a_jpeg_may_be_decoded_at_a_part_of_its_size_that_keeps_both_sides_long_enough(min_side, size, tmp_path):
    for name in ("a.jpg", "a.png"):
        Image.new("RGB", (64, 48), (9, 99, 199)).save(tmp_path / name)
    store = FolderStore(tmp_path)
    assert store.read("a.jpg", min_side).size == size
    assert store.read("a.png", min_side).size == (64, 48)
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:200])
    with pytest.raises(OSError, match=r"cut\.jpg: cannot read the image"):
        store.read("cut.jpg", min_side)


def test_a_photograph_is_that_of_pillow_and_outlives_its_file(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 36, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.jpg")
    with Image.open(tmp_path / "photo.jpg") as opened:
        expected = opened.convert("RGB")
    read = FolderStore(tmp_path).read("photo.jpg")
    (tmp_path / "photo.jpg").unlink()
    assert read.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(read), np.asarray(expected))
    read.paste((0, 0, 0), (0, 0, 4, 4))
    np.testing.assert_array_equal(np.asarray(read.copy())[4:], np.asarray(expected)[4:])
