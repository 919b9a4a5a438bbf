import itertools

from equigrad.tasks.progress import with_progress

BATCHES = [("images", ["a", "b"])] * 3


def test_batches_pass_and_a_short_test_says_nothing(capsys):
    assert list(with_progress(BATCHES, 6)) == BATCHES
    assert capsys.readouterr() == ("", "")


def test_a_long_test_says_how_far_it_is_and_how_fast(capsys):
    passed = list(itertools.islice(with_progress(BATCHES, 6_000, seconds=0.0), 3))
    assert len(passed) == 3
    shown = capsys.readouterr()
    first, second = shown.err.splitlines()
    assert first.startswith("test: 2 of 6,000 images, ")
    assert second.startswith("test: 4 of 6,000 images, ")
    assert " images/s, " in second
    assert second.endswith(" left")
    assert shown.out == ""
