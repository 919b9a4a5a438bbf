from equigrad.data.images.readers import read_image_list
from images_on_disk import write_images, write_list


def test_a_subset_keeps_categories_and_is_written_and_read_back(tmp_path):
    paths = write_images(tmp_path / "images", {"big cat": 3, "dog": 2})
    images = read_image_list(write_list(tmp_path / "train.txt", paths), tmp_path / "images")
    subset = images.subset([4, 0])
    assert subset.category_counts.tolist() == [1, 1]
    back = read_image_list(subset.write(tmp_path / "lists" / "subset.txt"), tmp_path / "images")
    assert back.paths == subset.paths == ("dog/1.png", "big cat/0.png")
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["subset.txt"]
