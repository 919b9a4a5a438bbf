import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from equigrad.settings import choices_of, differences, from_json, list_settings, override, parse_text, to_json


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


@dataclass(frozen=True)
class Circle:
    """A circle.

    Args:
        radius: from the centre to the rim,
            in pixels.
    """

    radius: float = 1.0


@dataclass(frozen=True)
class Square:
    """A square.

    Args:
        side: of it.
    """

    side: int = 2
    radius: float | None = None


@dataclass(frozen=True)
class Dot:
    """A dot, which must be somewhere.

    Args:
        centre: of it.
    """

    centre: int


@dataclass(frozen=True)
class Drawing:
    """A drawing.

    Args:
        shape: what is drawn.
        colours: of the rim.
        size: (height, width).
        file: where it goes.
    """

    shape: Circle | Square | Dot = field(default_factory=Circle)
    colours: tuple[str, ...] = ("red",)
    size: tuple[int, int] = (3, 4)
    file: Path | None = None


drawings = st.builds(
    Drawing,
    shape=st.builds(Circle, st.floats(allow_nan=False, allow_infinity=False))
    | st.builds(Square, st.integers(), st.none() | st.just(2.5)),
    colours=st.lists(st.text()).map(tuple),
    size=st.tuples(st.integers(), st.integers()),
    file=st.none() | st.sampled_from([Path("a/b.png"), Path("none")]),
)


@given(drawings)
def test_settings_come_back_from_json_as_they_were(drawing):
    assert from_json(Drawing, json.loads(json.dumps(to_json(drawing)))) == drawing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": {"type": "Triangle"}}, "shape: expected Circle or Square or Dot, got Triangle"),
        ({"shape": {"type": "os:system", "radius": 1}}, "shape: expected Circle or Square or Dot, got os:system"),
        ({"shape": {"type": "Circle", "radius": "wide"}}, r"shape\.radius: expected a number, got 'wide'"),
        ({"shape": {"type": "Circle", "radius": True}}, r"shape\.radius: expected a number, got True"),
        ({"shape": {"type": "Circle", "radius": 1, "rim": 2}}, r"shape\.rim: Circle has no such field"),
        ({"shape": {"type": "Dot"}}, r"shape\.centre: missing"),
        ({"size": [1, 2, 3]}, "size: expected 2 values, got 3"),
        ({"colours": "red"}, "colours: expected text, or several"),
        ({"type": "Picture"}, "settings: expected Drawing, got Picture"),
    ],
)
def test_json_that_is_no_such_settings_is_refused_with_the_path_of_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        from_json(Drawing, {**to_json(Drawing()), **change})


def test_a_field_that_an_earlier_version_did_not_have_takes_its_default():
    content = to_json(Drawing(shape=Square(side=7)))
    del content["shape"]["radius"], content["colours"]
    assert from_json(Drawing, content) == Drawing(shape=Square(side=7))


def test_a_wrong_word_gets_the_nearest_right_one():
    kind = Literal["efl", "eqfl"] | Literal["sigmoid_eql"] | None
    with pytest.raises(ValueError, match="expected none or one of efl, eqfl or sigmoid_eql; did you mean efl"):
        parse_text("elf", kind, "method")
    assert choices_of(kind) == ["efl", "eqfl", "sigmoid_eql"]


def test_only_plain_data_and_dataclasses_are_settings():
    with pytest.raises(TypeError, match="plain data or a dataclass, got function"):
        to_json(Drawing(shape=lambda: None))


def test_a_field_of_several_classes_is_set_by_class_name_and_keeps_what_they_share():
    drawing = override(Drawing(shape=Circle(radius=7.0)), ["shape=Square", "shape.side=5"])
    assert drawing.shape == Square(side=5, radius=7.0)
    with pytest.raises(ValueError, match="--set shape=Triangle: expected Circle or Square or Dot"):
        override(Drawing(), ["shape=Triangle"])


@pytest.mark.parametrize(
    ("assignment", "hint"),
    [("radius=2", "did you mean shape.radius?"), ("shape.radios=2", "did you mean shape.radius?"), ("sice=1", "size?")],
)
def test_a_wrong_name_gets_the_nearest_right_one(assignment, hint):
    with pytest.raises(ValueError, match=re.escape(hint)):
        override(Drawing(), [assignment])


def test_every_setting_is_listed_with_its_value_kind_and_text():
    listed = {setting.path: setting for setting in list_settings(Drawing())}
    assert list(listed) == ["shape", "shape.radius", "colours", "size", "file"]
    assert listed["shape"] == ("shape", "Circle | Square | Dot", "Circle", "what is drawn.")
    assert listed["shape.radius"] == ("shape.radius", "a number", 1.0, "from the centre to the rim, in pixels.")
    assert listed["file"].kind == "none or a path"


def test_differences_are_named_by_path():
    changed = Drawing(shape=Circle(2.0), colours=("red", "blue"))
    assert differences(Drawing(), changed) == {"shape.radius": (1.0, 2.0), "colours": (("red",), ("red", "blue"))}
    assert differences(Drawing(), Drawing(shape=Square())) == {"shape": (Circle(), Square())}


def test_what_came_is_shown_on_one_line_whatever_it_contains():
    with pytest.raises(ValueError, match=r"expected true or false, got \\rs$"):
        from_json(bool, {"type": "\rs"})
