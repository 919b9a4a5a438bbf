from PIL import Image

from equigrad.analysis.pictures.grid import picture_grid


def test_rows_stand_below_each_other_with_all_pictures_at_one_height():
    red, blue = Image.new("RGB", (100, 100), "red"), Image.new("RGB", (50, 100), "blue")
    grid = picture_grid({"focal loss": [red, blue], "EFL": [blue, red]}, cell_height=200)
    assert grid.size == (200 + 8 + 100, 2 * (28 + 200 + 8) - 8)
    assert grid.getpixel((100, 100)) == (255, 0, 0)
    assert grid.getpixel((50, 236 + 100)) == (0, 0, 255)


def test_a_long_heading_does_not_make_the_grid_wider():
    picture = Image.new("RGB", (40, 40), "red")
    assert picture_grid({"a very long name of a run " * 20: [picture]}, cell_height=40).width == 40
