import io

from PIL import Image

from equigrad.analysis.pictures.thumbnails import thumbnail


def size_of(picture):
    shown = Image.open(io.BytesIO(picture))
    assert shown.format == "JPEG"
    return shown.size


def test_large_images_shrink_and_small_ones_grow_by_a_whole_factor():
    assert size_of(thumbnail(Image.new("RGB", (1000, 500)), 128)) == (128, 64)
    assert size_of(thumbnail(Image.new("L", (32, 30)), 128)) == (128, 120)
