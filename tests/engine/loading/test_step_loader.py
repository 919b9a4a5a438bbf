import random

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from engine.loading.image_files import Images, write_images
from equigrad.engine import EngineError
from equigrad.engine.loading.step_loader import StepLoader, index_name
from equigrad.sampling import RepeatFactorSampler

NUM_SAMPLES = 23


class Draws:
    """Each item is its index and a number from each generator."""

    def __len__(self):
        return NUM_SAMPLES

    def __getitem__(self, index):
        drawn = [random.random(), float(np.random.rand()), torch.rand(()).item()]  # noqa: NPY002
        return torch.tensor([index, *drawn], dtype=torch.float64), index


class Changing(Draws):
    """A data set that wants to know the epoch."""

    epoch = -1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        return torch.tensor(self.epoch), index


def make_loader(dataset=None, *, rank=0, num_replicas=1, drop_last=True, **changes):
    dataset = dataset or Draws()
    settings = {
        "batch_size": 4,
        "num_micro_batches": 1,
        "collate": default_collate,
        "num_workers": 0,
        "seed": 1,
        "on_error": "stop",
        "sample_name": index_name,
        "pin_memory": False,
    }
    sampler = RepeatFactorSampler([0] * len(dataset), seed=2, rank=rank, num_replicas=num_replicas, drop_last=drop_last)
    return StepLoader(dataset, sampler, **{**settings, **changes})


def rows(steps):
    return torch.cat([batch.data[0] for batches, _ in steps for batch in batches])


def test_workers_change_neither_order_nor_random_numbers():
    assert torch.equal(rows(make_loader().epoch(0, 0)), rows(make_loader(num_workers=2).epoch(0, 0)))


def test_reading_leaves_the_random_numbers_of_the_training_alone():
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    rows(make_loader().epoch(0, 0))
    assert torch.equal(torch.rand(3), expected)


def test_an_epoch_continues_from_a_position_as_if_it_had_not_stopped():
    whole = list(make_loader().epoch(1, 0))
    _, position = whole[1]
    assert position == 8
    loader = make_loader()
    loader.sampler.load_state_dict(loader.sampler.state_dict(epoch=1, position=position))
    assert torch.equal(rows(loader.epoch(1, position)), rows(whole[2:]))


def test_epochs_differ_in_order_and_in_random_numbers():
    loader = make_loader()
    first, second = rows(loader.epoch(0, 0)), rows(loader.epoch(1, 0))
    assert not torch.equal(first[:, 0], second[:, 0])
    assert not set(first[:, 1].tolist()) & set(second[:, 1].tolist())


def test_two_ranks_read_together_what_one_reads_alone():
    alone = rows(make_loader(drop_last=False).epoch(0, 0))
    pairs = [make_loader(rank=rank, num_replicas=2, batch_size=2).epoch(0, 0) for rank in (0, 1)]
    steps = [torch.cat([rows([one]), rows([other])]) for one, other in zip(*pairs, strict=True)]
    for number, step in enumerate(steps):
        expected = alone[4 * number : 4 * number + 4]
        assert torch.equal(step[step[:, 0].argsort()], expected[expected[:, 0].argsort()])
    assert len(steps) == 5


@pytest.mark.parametrize(("drop_last", "sizes"), [(True, [[4, 4]] * 2), (False, [[4, 4], [4, 4], [4, 3]])])
def test_micro_batches_make_up_steps_and_the_last_step_may_be_smaller(drop_last, sizes):
    loader = make_loader(num_micro_batches=2, drop_last=drop_last)
    assert [[len(batch.samples) for batch in batches] for batches, _ in loader.epoch(0, 0)] == sizes
    assert loader.steps_per_epoch() == len(sizes)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_data_set_that_changes_over_epochs_hears_the_epoch(num_workers):
    loader = make_loader(Changing(), num_workers=num_workers)
    assert set(rows(loader.epoch(0, 0)).tolist()) == {0}
    assert set(rows(loader.epoch(5, 0)).tolist()) == {5}


@pytest.fixture
def image_files(tmp_path):
    return write_images(tmp_path)


def truncate(file):
    file.write_bytes(file.read_bytes()[:90])


def overwrite(file):
    file.write_text("this is no image")


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("damage", [truncate, overwrite, lambda file: file.unlink()])
def test_a_missing_or_corrupt_image_stops_with_its_name_in_one_line(image_files, damage, num_workers):
    damage(image_files[5])
    loader = make_loader(
        Images(image_files), num_workers=num_workers, sample_name=lambda index: str(image_files[index])
    )
    with pytest.raises(EngineError, match=f"^cannot read {image_files[5]}: .*on_error=skip") as caught:
        list(loader.epoch(0, 0))
    assert "\n" not in str(caught.value)


def test_a_skipped_image_is_named_and_replaced_by_its_neighbour_and_the_order_stays(image_files):
    expected = [batch.samples for batches, _ in make_loader(Images(image_files)).epoch(0, 0) for batch in batches]
    truncate(image_files[5])
    image_files[6].unlink()
    loader = make_loader(Images(image_files), on_error="skip", sample_name=lambda index: image_files[index].name)
    batches = [batch for batches, _ in loader.epoch(0, 0) for batch in batches]
    replaced = [[{5: 7, 6: 7}.get(sample, sample) for sample in samples] for samples in expected]
    assert [batch.samples for batch in batches] == replaced
    assert sorted(name for batch in batches for name in batch.skipped) == ["5.png", "6.png", "6.png"]


def test_skipping_gives_up_when_nothing_can_be_read(image_files):
    for file in image_files:
        file.unlink()
    with pytest.raises(EngineError, match="20 samples in a row failed"):
        list(make_loader(Images(image_files), on_error="skip").epoch(0, 0))


class Buggy(Draws):
    def __getitem__(self, index):
        raise ValueError("a bug")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_bug_in_the_data_set_is_not_taken_for_a_damaged_file(num_workers):
    with pytest.raises(ValueError, match="a bug") as caught:
        list(make_loader(Buggy(), on_error="skip", num_workers=num_workers).epoch(0, 0))
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "while reading sample" in text
