import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad import SigmoidEqualizationLoss
from equigrad.losses import mappings


def weights(mapping, ratios):
    """Negative weights of categories with these gradient ratios."""
    criterion = SigmoidEqualizationLoss(len(ratios), mapping=mapping)
    criterion.statistics.positive.copy_(torch.tensor(ratios).nan_to_num(posinf=1.0))
    criterion.statistics.negative.copy_((torch.tensor(ratios) < torch.inf).double())
    return criterion.category_weights()[1].tolist()


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("linear", [0.0, 0.25, 1.0, 1.0]),
        ("square", [0.0, 0.0625, 1.0, 1.0]),
        ("sqrt", [0.0, 0.5, 1.0, 1.0]),
        ("sigmoid", [6.7725e-5, 1.3585e-3, 0.916827, 1.0]),
        (lambda ratio: 2 * ratio, [0.0, 0.5, 1.0, 1.0]),
    ],
)
def test_maps_the_ratio_and_clips_to_one(mapping, expected):
    assert_close(weights(mapping, [0.0, 0.25, 1.0, 9.0]), expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("mapping", ["linear", "square", "sqrt", "sigmoid", lambda ratio: ratio / (1 + ratio)])
def test_without_negative_gradient_the_weight_is_one_whatever_the_mapping(mapping):
    assert weights(mapping, [torch.inf]) == [1.0]


@given(st.sampled_from(["linear", "square", "sqrt", "sigmoid"]), st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_a_larger_ratio_never_lowers_the_weight(mapping, ratios):
    mapped = weights(mapping, sorted(ratios))
    assert mapped == sorted(mapped)
    assert 0 <= mapped[0] <= mapped[-1] <= 1


def test_a_mapping_that_is_neither_name_nor_callable_is_a_type_error():
    with pytest.raises(TypeError, match="mapping must be a name or a callable"):
        mappings.resolve(3, 12.0, 0.8)
