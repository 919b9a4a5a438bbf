import pytest
import torch

from equigrad.losses.compilation import disable_compile


def grow(values, number):
    values.append(number)  # a side effect that a traced and replayed function would lose or repeat
    return number + 1


def test_outside_a_compiler_the_function_is_returned_itself():
    assert disable_compile(grow) is grow


@pytest.mark.slow
def test_under_a_compiler_the_function_runs_as_it_is():
    values = []

    @torch.compile(backend="eager")
    def step(number):
        return disable_compile(grow)(values, number * 2) * 3

    for number in (1.0, 2.0, 3.0):
        assert step(torch.tensor(number)).item() == (2 * number + 1) * 3
    assert [value.item() for value in values] == [2.0, 4.0, 6.0]
