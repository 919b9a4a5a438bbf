import io
import zipfile

import pytest
from PIL import Image

from equigrad.data.images.sizes import file_image_size, image_size, stored_image_size
from equigrad.data.images.stores import MemoryStore, open_store


def png(width, height):
    stream = io.BytesIO()
    Image.new("RGB", (width, height)).save(stream, "png")
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.png").write_bytes(png(5, 3))
    return tmp_path


def test_height_comes_before_width(folder):
    assert image_size(folder / "a.png") == (3, 5)
    assert image_size(io.BytesIO(png(7, 2))) == (2, 7)
    assert file_image_size(folder / "a.png") == (3, 5)


def test_a_folder_an_archive_and_memory_give_the_same_size(folder):
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        archive.write(folder / "a.png", "a.png")
    for store in (open_store(folder), open_store(folder / "images.zip"), MemoryStore({"a.png": png(5, 3)}, folder)):
        assert stored_image_size(store, "a.png") == (3, 5)


def test_only_the_header_is_read(folder):
    (folder / "cut.png").write_bytes(png(300, 200)[:64])
    assert image_size(folder / "cut.png") == (200, 300)


def test_a_very_large_image_does_not_warn(folder, monkeypatch, recwarn):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # 15 pixels: warned about, and refused from 20 on
    assert image_size(folder / "a.png") == (3, 5)
    assert not recwarn.list
    (folder / "b.png").write_bytes(png(5, 5))
    with pytest.raises(OSError, match="cannot read the image"):
        image_size(folder / "b.png")


def test_what_is_no_image_is_named(folder):
    (folder / "text.png").write_text("no image")
    with pytest.raises(OSError, match=r"^cannot read the image"):
        image_size(folder / "text.png")
    with pytest.raises(OSError, match=r"text\.png: cannot read the image"):
        file_image_size(folder / "text.png")
    with pytest.raises(OSError, match=r"text\.png: cannot read the image"):
        stored_image_size(open_store(folder), "text.png")


def test_a_missing_image_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"gone\.png: no such image"):
        stored_image_size(open_store(folder), "gone.png")
