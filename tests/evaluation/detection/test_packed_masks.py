import numpy as np
import pycocotools.mask as mask_api
import pytest
from hypothesis import given, strategies as st

from equigrad.evaluation.detection.packed_masks import PackedMasks, are_valid

masks = st.builds(
    lambda seed, height, width, share: np.random.default_rng(seed).random((height, width)) < share,
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([0, 0.05, 0.5, 0.95, 1]),
)


def encoded(mask):
    return mask_api.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]


@given(st.lists(masks, min_size=1, max_size=5))
def test_what_pycocotools_writes_is_valid_for_its_image_and_for_no_other(drawn):
    texts = PackedMasks.of([encoded(mask) for mask in drawn])
    sizes = np.array([mask.size for mask in drawn])
    assert are_valid(texts, sizes).all()
    assert not are_valid(texts, sizes + 1).any()


@pytest.mark.parametrize(
    "counts",
    [b"", b"P", b"0P", b"4P", b"\xc8", b"{", b"!", b"o" * 20, b"5O", b"999"],
    ids=[
        "empty",
        "open",
        "open at the end",
        "open after a run",
        "not ASCII",
        "above",
        "below",
        "endless",
        "negative",
        "long",
    ],
)
def test_a_broken_text_is_found_and_its_neighbours_are_not_blamed(counts):
    texts = PackedMasks.of([b"4", counts, b"22"])
    assert are_valid(texts, np.array([4, 4, 4])).tolist() == [True, False, True]


def test_masks_are_taken_in_the_order_asked_for_and_joined():
    texts = PackedMasks.joined([PackedMasks.of([b"a", b"bc"]), PackedMasks.of([]), PackedMasks.of([b"def"])])
    assert len(texts) == 3
    taken = texts.take(np.array([2, 0, 2]))
    assert [taken.counts(index) for index in range(3)] == [b"def", b"a", b"def"]
    assert taken.rle(1, (3, 4)) == {"size": [3, 4], "counts": b"a"}


def test_there_may_be_no_masks():
    assert len(are_valid(PackedMasks.of([]), np.zeros(0, np.int64))) == 0
