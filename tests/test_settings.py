from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigrad.settings import override


@dataclass(frozen=True)
class Inner:
    epochs: int = 90
    rate: float = 0.1
    clip: float | None = None
    kind: Literal["cosine", "poly"] = "cosine"
    steps: tuple[int, ...] = (8, 11)

    def __post_init__(self):
        if self.epochs < 1:
            raise ValueError("epochs must be above 0")


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    root: Path = Path("data")
    name: str = ""
    flag: bool = False


@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        ("inner.epochs=3", lambda s: s.inner.epochs == 3),
        ("inner.rate=1e-3", lambda s: s.inner.rate == 0.001),
        ("inner.clip=35", lambda s: s.inner.clip == 35.0),
        ("inner.clip=none", lambda s: s.inner.clip is None),
        ("inner.kind=poly", lambda s: s.inner.kind == "poly"),
        ("inner.steps=1,2,3", lambda s: s.inner.steps == (1, 2, 3)),
        ("inner.steps=", lambda s: s.inner.steps == ()),
        ("root=/a/b=c", lambda s: s.root == Path("/a/b=c")),
        ("name=12", lambda s: s.name == "12"),
        ("flag=True", lambda s: s.flag is True),
    ],
)
def test_sets_a_field_by_its_path_in_the_type_it_has(assignment, read):
    assert read(override(Outer(), [assignment]))


@dataclass(frozen=True)
class EitherOr:
    epochs: int | None = 12
    steps: int | None = None

    def __post_init__(self):
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give epochs or steps")


@pytest.mark.parametrize("order", [1, -1])
def test_fields_that_belong_together_are_set_together(order):
    assert override(EitherOr(), ["epochs=none", "steps=5"][::order]) == EitherOr(None, 5)


def test_later_assignments_win_and_the_original_stays():
    original = Outer()
    assert override(original, ["inner.epochs=3", "inner.epochs=4"]).inner.epochs == 4
    assert original.inner.epochs == 90


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("inner.epoch=3", "no field 'epoch' in Inner, which has epochs, rate, clip, kind, steps"),
        ("inner.epochs=3.5", "inner.epochs=3.5: expected a whole number"),
        ("inner.rate=fast", "expected a number"),
        ("inner.clip=tight", "expected none or a number"),
        ("inner.kind=linear", "expected one of cosine, poly"),
        ("flag=yes", "expected true or false"),
        ("inner.epochs.more=1", "inner.epochs is 90, which has no fields"),
        ("inner.epochs=0", "epochs must be above 0"),
        ("inner.epochs", "expected field=value"),
        ("inner=3", "--set inner=3: expected Inner"),
    ],
)
def test_what_cannot_be_set_is_named(assignment, message):
    with pytest.raises(ValueError, match=message):
        override(Outer(), [assignment])


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 10**9))
def test_numbers_come_through_as_they_are(rate, epochs):
    changed = override(Outer(), [f"inner.rate={rate!r}", f"inner.epochs={epochs}"])
    assert (changed.inner.rate, changed.inner.epochs) == (rate, epochs)
