from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from equigrad.data.held_out import held_out


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
