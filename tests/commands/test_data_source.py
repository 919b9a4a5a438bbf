import argparse
from pathlib import Path

import pytest

from equigrad.commands.data_source import add_source_options, checked_task, named_files


def test_options_become_the_files_of_the_user():
    parser = argparse.ArgumentParser()
    add_source_options(parser)
    named = named_files(parser.parse_args(["--test", "held", "--names", "classes.txt"]))
    assert (named.test, named.root, named.images, named.names) == (Path("held"), None, None, Path("classes.txt"))


def test_an_unknown_task_is_answered_with_the_nearest():
    assert checked_task(None) is None
    assert checked_task("detection") == "detection"
    with pytest.raises(ValueError, match=r"--task detektion: expected one of .*detection"):
        checked_task("detektion")
