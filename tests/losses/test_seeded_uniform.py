import pytest
import torch

from equigrad.losses.seeded_uniform import SeededUniform

CPU = torch.device("cpu")


def test_calls_differ_and_repeat_with_the_seed():
    first, again, other = SeededUniform(3), SeededUniform(3), SeededUniform(4)
    numbers = [first((50,), CPU) for _ in range(2)]
    assert not torch.equal(*numbers)
    assert torch.equal(again((50,), CPU), numbers[0])
    assert not torch.equal(other((50,), CPU), numbers[0])
    assert ((numbers[0] >= 0) & (numbers[0] < 1)).all()


def test_a_checkpoint_continues_the_sequence():
    source = SeededUniform(3)
    source((5,), CPU)
    resumed = SeededUniform(3)
    resumed.load_state_dict(source.state_dict())
    assert torch.equal(resumed((5,), CPU), source((5,), CPU))


def test_other_random_numbers_are_neither_read_nor_changed():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    numbers = SeededUniform(3)((5,), CPU)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(SeededUniform(3)((5,), CPU), numbers)


@pytest.mark.parametrize("seed", [1.0, True, None])
def test_a_seed_that_is_no_int_is_refused(seed):
    with pytest.raises(TypeError, match="seed must be an int"):
        SeededUniform(seed)
