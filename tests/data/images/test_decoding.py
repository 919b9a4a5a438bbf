import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from equigrad.data.images.decoding import FORMATS, MAX_FILE_BYTES, opened_image, to_rgb
from equigrad.data.images.lists import SUFFIXES
from equigrad.data.images.sizes import file_image_size
from equigrad.data.images.stores import read_image
from hostile_files import refusal


def png(width, height):
    """The start of a PNG file that claims a size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return start + struct.pack(">I", 9) + b"IDAT" + bytes(13)


@pytest.mark.parametrize("read", [read_image, file_image_size])
def test_an_image_that_claims_enormous_sides_is_refused(tmp_path, read):
    file = tmp_path / "bomb.png"
    file.write_bytes(png(100_000, 100_000))
    text = refusal(read, file)
    assert text.startswith(f"{file}: cannot read the image (Image size (10000000000 pixels) exceeds limit")


def test_a_large_image_without_pixels_is_refused(tmp_path):
    file = tmp_path / "cut.png"
    file.write_bytes(png(12_000, 10_000))
    assert refusal(read_image, file).startswith(f"{file}: cannot read the image (")


@pytest.mark.parametrize("read", [read_image, file_image_size])
def test_a_file_that_is_too_large_for_an_image_is_refused(tmp_path, read):
    file = tmp_path / "a.webp"  # a format that Pillow reads as a whole
    file.write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    os.truncate(file, 3 << 30)
    assert f"at most {MAX_FILE_BYTES:,} bytes, got 3,221,225,472" in refusal(read, file)


@pytest.mark.parametrize("start", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\xd7\xcd\xc6\x9a\x00\x00"])
def test_formats_for_which_other_programs_would_be_started_are_not_opened(tmp_path, start):
    file = tmp_path / "photo.jpg"
    file.write_bytes(start + b"%%EndComments\n" * 99)
    assert refusal(read_image, file) == f"{file}: cannot read the image (not one of {', '.join(FORMATS)})"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_known_suffix_has_a_format(suffix):
    stream = io.BytesIO()
    known = Image.registered_extensions()[suffix]
    Image.new("L", (3, 2)).save(stream, known)
    with opened_image(stream) as image:
        assert image.size == (3, 2)


def test_a_pipe_or_a_device_is_no_image(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    os.symlink("/dev/zero", tmp_path / "zero.png")
    for name in ("pipe.png", "zero.png"):
        assert refusal(read_image, tmp_path / name) == f"{tmp_path / name}: no such image"


def test_sixteen_bits_become_eight_and_are_not_clipped():
    grey = np.array([[0, 255, 256, 0x1234, 0xFFFF]], dtype=np.uint16)
    assert np.array(to_rgb(Image.fromarray(grey)))[0].tolist() == [[value >> 8] * 3 for value in grey[0].tolist()]


def test_eight_bits_stay_as_they_are():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    np.testing.assert_array_equal(to_rgb(Image.fromarray(pixels)), pixels)


PHOTOGRAPH = Image.fromarray(np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3))


def turned_file(folder, orientation, suffix="png"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = folder / f"{orientation}.{suffix}"
    PHOTOGRAPH.save(file, exif=exif)
    return file


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_upright_as_viewers_show_it(tmp_path, orientation):
    file = turned_file(tmp_path, orientation)
    with Image.open(file) as opened:
        expected = np.array(ImageOps.exif_transpose(opened))
    np.testing.assert_array_equal(read_image(file), expected)
    assert file_image_size(file) == expected.shape[:2]


@pytest.mark.parametrize("suffix", ["jpg", "tif", "webp"])
def test_formats_of_phones_and_browsers_are_turned(tmp_path, suffix):
    assert read_image(turned_file(tmp_path, 6, suffix)).size == (5, 7)


def test_a_photograph_with_annotations_of_its_stored_pixels_is_left_as_it_is(tmp_path):
    file = turned_file(tmp_path, 6)
    assert read_image(file, stated=(5, 7)).size == (7, 5)
    assert file_image_size(file, (5, 7)) == (5, 7)
    assert read_image(file, stated=(7, 5)).size == (5, 7)
    upside_down = turned_file(tmp_path, 3)
    np.testing.assert_array_equal(read_image(upside_down, stated=(5, 7)), np.array(PHOTOGRAPH)[::-1, ::-1])


def test_damaged_metadata_does_not_lose_an_image(tmp_path):
    PHOTOGRAPH.save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\0\0\xff\xff broken")
    assert read_image(tmp_path / "a.jpg").size == (7, 5)
