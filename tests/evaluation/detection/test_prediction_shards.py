import numpy as np
import pycocotools.mask as mask_api
import pytest

from equigrad.evaluation.detection.prediction_shards import PredictionWriter, finished_images, read_shards
from evaluation.detection_files import annotations_of, federated

MASK = mask_api.encode(np.eye(100, 200, dtype=np.uint8, order="F"))["counts"]


@pytest.fixture
def annotations(tmp_path):
    return annotations_of(tmp_path, federated({number: ([], []) for number in (5, 3, 8)}, [(3, 1, [0, 0, 9, 9])]))


def fill(writer, *images, num=2, mask=None):
    for image in images:
        boxes = np.full((num, 4), image / 10)
        writer.add(image, [1, 3][:num], boxes, np.arange(num) / 8, None if mask is None else [mask] * num)


def test_what_ranks_write_is_read_together(tmp_path, annotations):
    for rank, images in enumerate([(5, 8), (3,)]):
        writer = PredictionWriter(tmp_path / "shards", rank)
        fill(writer, *images)
        writer.close()
    predictions = read_shards(tmp_path / "shards", annotations)
    assert predictions.images.tolist() == [0, 0, 2, 2, 1, 1]
    assert predictions.labels.tolist() == [0, 2] * 3
    assert predictions.scores.tolist() == [0, 0.125] * 3
    assert predictions.boxes[:, 0].tolist() == np.float32([0.5, 0.5, 0.8, 0.8, 0.3, 0.3]).astype(float).tolist()


def test_shards_are_written_as_soon_as_they_are_full_and_never_half(tmp_path, annotations):
    writer = PredictionWriter(tmp_path / "shards", detections_per_shard=4)
    fill(writer, 5, 3, 8)
    names = [file.name for file in (tmp_path / "shards").iterdir()]
    assert names == ["predictions-0000-00000.npz"]
    assert finished_images(tmp_path / "shards").tolist() == [3, 5]


def test_a_later_writer_goes_on_where_an_earlier_one_stopped(tmp_path, annotations):
    for image in (5, 3):
        writer = PredictionWriter(tmp_path / "shards")
        fill(writer, image)
        writer.close()
    assert read_shards(tmp_path / "shards", annotations).images.tolist() == [0, 0, 1, 1]


def test_an_image_that_two_ranks_saw_counts_once(tmp_path, annotations):
    for rank in range(2):
        writer = PredictionWriter(tmp_path / "shards", rank)
        fill(writer, 5, 3 + 5 * rank)
        writer.close()
    assert read_shards(tmp_path / "shards", annotations).images.tolist() == [0, 0, 1, 1, 2, 2]


def test_images_without_detections_are_finished_too(tmp_path, annotations):
    writer = PredictionWriter(tmp_path / "shards")
    fill(writer, 8, num=0)
    writer.close()
    assert finished_images(tmp_path / "shards").tolist() == [8]
    assert len(read_shards(tmp_path / "shards", annotations)) == 0


def test_masks_are_kept(tmp_path, annotations):
    writer = PredictionWriter(tmp_path / "shards")
    fill(writer, 5, 3, mask=MASK)
    writer.close()
    masks = read_shards(tmp_path / "shards", annotations).masks
    assert [masks.counts(index) for index in range(4)] == [MASK] * 4


def test_bad_arguments_are_refused(tmp_path):
    writer = PredictionWriter(tmp_path)
    with pytest.raises(ValueError, match="boxes, scores and masks must have 2 entries"):
        writer.add(1, [1, 2], np.zeros((1, 4)), np.zeros(2))
    fill(writer, 5)
    with pytest.raises(ValueError, match="masks must be given for all images or for none"):
        fill(writer, 3, mask=b"x")


def test_a_folder_without_shards_and_a_broken_shard_are_named(tmp_path, annotations):
    with pytest.raises(ValueError, match="expected shards predictions-"):
        read_shards(tmp_path, annotations)
    file = tmp_path / "predictions-0000-00000.npz"
    file.write_bytes(b"not a shard")
    with pytest.raises(ValueError, match=r"predictions-0000-00000.npz: not a readable .npz"):
        read_shards(tmp_path, annotations)
    np.savez(file, image_ids=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"predictions-0000-00000.npz: not a readable .npz"):  # never unpickled
        read_shards(tmp_path, annotations)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("image_ids", [4]),
        ("category_ids", [1, 9]),
        ("scores", [np.nan, 1]),
        ("boxes", -np.ones((2, 4))),
        ("scores", [1]),
    ],
)
def test_a_shard_with_wrong_columns_is_named(tmp_path, annotations, name, values):
    writer = PredictionWriter(tmp_path)
    fill(writer, 5)
    writer.close()
    file = tmp_path / "predictions-0000-00000.npz"
    with np.load(file) as content:
        columns = dict(content)
    np.savez(file, **(columns | {name: np.array(values)}))
    with pytest.raises(ValueError, match=r"predictions-0000-00000.npz: expected"):
        read_shards(tmp_path, annotations)


def test_a_shard_with_a_broken_mask_is_named(tmp_path, annotations):
    writer = PredictionWriter(tmp_path)
    fill(writer, 5, mask=MASK[:-1])
    writer.close()
    with pytest.raises(ValueError, match="expected run lengths that cover the image"):
        read_shards(tmp_path, annotations)
