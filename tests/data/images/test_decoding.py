import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

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
