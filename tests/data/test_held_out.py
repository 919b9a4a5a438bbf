from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, strategies as st

from equigrad.data.held_out import held_out, held_out_of_each_category


@dataclass
class Images:
    numbers: list

    def __len__(self):
        return len(self.numbers)

    def subset(self, images):
        return Images([self.numbers[image] for image in images])


@given(st.integers(2, 200), st.floats(0.01, 0.99))
def test_every_image_is_in_one_part_and_always_in_the_same(count, share):
    images = Images(list(range(count)))
    if not 0 < round(share * count) < count:
        with pytest.raises(ValueError, match="leaves none to train or none to test on"):
            held_out(images, share)
        return
    train, test = held_out(images, share)
    assert sorted(train.numbers + test.numbers) == images.numbers
    assert len(test) == round(share * count)
    assert held_out(images, share) == (train, test)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_category_with_two_samples_is_held_out_in_part(counts, share, seed):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    train, test = held_out_of_each_category(labels, share, seed=seed)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(labels)))
    kept, held = (torch.bincount(labels[part], minlength=len(counts)).tolist() for part in (train, test))
    for count, rest, out in zip(counts, kept, held, strict=True):
        assert rest >= min(count, 1)
        assert (out >= 1) == (count >= 2)
        assert abs(out - share * count) <= 1


def test_parts_of_categories_are_held_out_by_seed():
    labels = torch.arange(60) % 3
    first, second, other = (held_out_of_each_category(labels, 0.2, seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_categories_must_leave_something_on_both_sides(share):
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        held_out_of_each_category(torch.arange(4) % 2, share)
