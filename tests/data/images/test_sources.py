import io

import numpy as np
import pytest
import torch
from PIL import Image

from equigrad.data.images.sources import image_sources, is_one_image
from equigrad.data.images.stores import read_image
from images_on_disk import write_images, zip_folder

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def pixels_of(*given):
    return [np.array(source.read()) for source in image_sources(given)]


def test_the_same_pixels_come_from_every_kind_of_image(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    channels_first = torch.from_numpy(PIXELS).permute(2, 0, 1)
    given = [tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(PIXELS), PIXELS, channels_first]
    given += [channels_first.float() / 255, PIXELS[:, ::-1][:, ::-1]]
    for found in pixels_of(*given):
        np.testing.assert_array_equal(found, PIXELS)


def test_a_file_is_read_when_it_is_needed_and_its_path_is_known(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    (source,) = image_sources([tmp_path / "a.png"])
    assert source.path == tmp_path / "a.png"
    (tmp_path / "a.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.png: no such image"):
        source.read()


def test_a_folder_gives_the_images_below_it_in_order(tmp_path):
    write_images(tmp_path, {"b": 2, "a": 1})
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "folder.png").mkdir()
    names = [source.path.relative_to(tmp_path).as_posix() for source in image_sources([tmp_path])]
    assert names == ["a/0.png", "b/0.png", "b/1.png"]
    assert len(list(image_sources([tmp_path, PIXELS]))) == 4


def test_an_archive_and_a_folder_in_it_give_their_images_and_a_path_in_it_gives_one(tmp_path):
    write_images(tmp_path / "all", {"b": 2, "a": 1})
    archive = zip_folder(tmp_path / "all", tmp_path / "all.zip")
    for given, names in ((archive, ["a/0.png", "b/0.png", "b/1.png"]), (archive / "b", ["b/0.png", "b/1.png"])):
        found = list(image_sources([given]))
        assert [source.path.relative_to(archive).as_posix() for source in found] == names
        assert not is_one_image(given)
    (source,) = image_sources([archive / "b" / "1.png"])
    np.testing.assert_array_equal(source.read(), read_image(tmp_path / "all" / "b" / "1.png"))
    assert is_one_image(str(archive / "b" / "1.png"))
    with pytest.raises(FileNotFoundError, match=r"all\.zip/b/9\.png: no such image in the archive"):
        list(image_sources([archive / "b" / "9.png"]))
    with pytest.raises(FileNotFoundError, match=r"all\.zip/c: no such folder in the archive; it has a, b"):
        list(image_sources([archive / "c"]))


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected images in the folder, found none"):
        list(image_sources([tmp_path]))


def test_one_image_is_told_from_several(tmp_path):
    one = ["photo.jpg", tmp_path / "photo.jpg", Image.fromarray(PIXELS), PIXELS, PIXELS[..., 0], torch.zeros(3, 4, 5)]
    several = [tmp_path, [PIXELS], (image for image in [PIXELS]), PIXELS[None], torch.zeros(2, 3, 4, 5)]
    assert all(map(is_one_image, one))
    assert not any(map(is_one_image, several))


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_arrays_in_grey_and_with_alpha_are_read_like_such_images(mode):
    image = Image.fromarray(PIXELS).convert(mode)
    assert np.array_equal(pixels_of(np.array(image)), pixels_of(image))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (PIXELS.astype(float), r"array \(H, W, 3\), .* of uint8 or a tensor, got \(5, 7, 3\) of float64"),
        (PIXELS[..., :2], r"got \(5, 7, 2\) of uint8"),
        (PIXELS[0, :, 0], r"got \(7,\) of uint8"),
        (PIXELS[:0], "must have pixels"),
        (torch.zeros(5, 7, 3), r"a tensor must be \(3, H, W\), got \(5, 7, 3\)"),
        (torch.zeros(3, 5, 7) - 2, r"floats must be in \[0, 1\], got -2 to -2"),
        (torch.full((3, 5, 7), torch.nan), r"floats must be in \[0, 1\]"),
        (torch.zeros(3, 5, 7, dtype=torch.int64), "got .* of int64"),
        (None, "got NoneType"),
        (np.zeros((3, 5, 7), np.uint8), r"channels last, got \(3, 5, 7\) of uint8; give array.transpose\(1, 2, 0\)"),
        ("https://a.example/b.jpg", "https://a.example/b.jpg: images are not read from addresses; download it"),
    ],
)
def test_what_is_no_image_is_refused_with_what_it_is(image, message):
    with pytest.raises(ValueError, match=message):
        pixels_of(image)


def saved(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


ROTATED = Image.Exif()
ROTATED[0x0112] = 6  # a camera that was held upright
RGB = Image.fromarray(PIXELS)
UNUSUAL = {
    "cmyk.jpg": saved(RGB.convert("CMYK"), format="JPEG", quality=100),
    "rotated.jpg": saved(RGB, format="JPEG", exif=ROTATED),
    "grey.png": saved(RGB.convert("L"), format="PNG"),
    "alpha.png": saved(RGB.convert("RGBA"), format="PNG"),
    "grey_alpha.png": saved(RGB.convert("LA"), format="PNG"),
    "palette.png": saved(RGB.convert("P"), format="PNG"),
    "two_colours.png": saved(RGB.convert("1"), format="PNG"),
    "sixteen_bits.png": saved(Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257), format="PNG"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_files_and_the_same_images_in_memory_are_seen_as_in_training(name, tmp_path):
    (tmp_path / name).write_bytes(UNUSUAL[name])
    trained_on = np.array(read_image(tmp_path / name))
    assert trained_on.shape == ((7, 5, 3) if name == "rotated.jpg" else PIXELS.shape)
    with Image.open(tmp_path / name) as opened:
        from_file, from_memory = pixels_of(tmp_path / name, opened)
    np.testing.assert_array_equal(from_file, trained_on)
    np.testing.assert_array_equal(from_memory, trained_on)
