"""Damaged files of every kind; `python -m tests.fuzz --only readers` tries more of them."""

import json

import pytest
from tests.fuzz import readers
from tests.fuzz.readers import Example, examples, smallest
from tests.fuzz.readers_subjects import SUBJECTS, Subject


def test_a_damaged_file_is_refused_in_one_line_or_read_right():
    summary = readers.run(4000, seed=0)
    assert not summary.failures, str(summary)
    assert summary.right + summary.refused == 4000
    assert summary.right > 400
    assert summary.refused > 1500


@pytest.fixture
def careless(tmp_path):
    """A reader that takes any JSON for a list of numbers."""
    subject = Subject(
        ("a.json",),
        lambda folder: (folder / "a.json").write_text("[1, 2, 3]"),
        lambda folder: sum(json.loads((folder / "a.json").read_text())),
        lambda folder, result: result > 0,
    )
    return Example(subject, tmp_path / "careless")


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (b"[1, 2, 3]", "right"),
        (b"[1, 5]", "right"),
        (b"[1, -5]", "wrong result"),
        (b'[1, "x"]', "raises TypeError"),
        (b"[1, 2", "names no file"),
    ],
)
def test_a_careless_reader_is_found_out(careless, content, verdict):
    assert careless.outcome("a.json", content).verdict == verdict
    assert careless.outcome("a.json", b"[1, 2, 3]").verdict == "right"  # the example is whole again


def test_a_failing_file_becomes_as_small_as_it_can(careless):
    content = json.dumps([*range(50), {"a": [None]}, *range(50)]).encode()
    assert careless.outcome("a.json", content).verdict == "raises TypeError"
    assert len(smallest(careless, "a.json", content)) <= 8  # such as [[]] or [null]


def test_every_example_is_read_right_as_it_is():
    with examples() as made:
        assert {
            kind: example.outcome(name, example.contents[name]).verdict
            for kind, example in made.items()
            for name in example.subject.files
        } == dict.fromkeys(SUBJECTS, "right")
