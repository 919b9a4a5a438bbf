import pytest

from engine.loading.image_files import Images, write_images
from equigrad.engine import EngineError
from equigrad.engine.loading.evaluation_loader import EvaluationLoader


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_image_that_cannot_be_read_is_named_in_one_line(num_workers, tmp_path):
    files = write_images(tmp_path)
    files[3].write_bytes(b"no image")
    loader = EvaluationLoader(Images(files), batch_size=2, num_workers=num_workers)
    with pytest.raises(EngineError, match=r"3\.png") as caught:
        list(loader)
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_image_comes_once_and_in_order(tmp_path):
    loader = EvaluationLoader(Images(write_images(tmp_path, 23)), batch_size=5, num_workers=2)
    batches = [indices.tolist() for _, indices in loader]
    assert batches == [list(range(first, min(first + 5, 23))) for first in range(0, 23, 5)]
