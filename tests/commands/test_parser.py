import pytest

from equigrad.commands.parser import OneLineParser


@pytest.fixture
def parser():
    parser = OneLineParser(prog="tool")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    train = commands.add_parser("train")
    train.add_argument("--batch-size", type=int)
    train.add_argument("--resume", action="store_true")
    commands.add_parser("show")
    draw = commands.add_parser("draw")
    draw.add_argument("run")
    draw.add_argument("counts", type=int, nargs="*")
    draw.add_argument("--size", type=int)
    return parser


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train", "--batchsize", "3"], "tool train: unknown: --batchsize 3; did you mean --batch-size?"),
        (["train", "--batch", "3"], None),  # abbreviations are understood
        (
            ["train", "--resume", "run"],
            "tool train: unknown: run; --resume takes no path: the run folder is --run FOLDER",
        ),
        (["show", "run"], "tool show: unknown: run"),
        (["show", "a=3"], "tool show: unknown: a=3; a setting is --set a=3"),
        (["show", "--fly\x1b"], "tool show: unknown: --fly\\x1b"),
        (["draw", "a", "--size", "3", "x"], "tool draw: argument counts: invalid int value: 'x'"),
        (["draw", "a", "--site", "3", "4"], "tool draw: unknown: --site 3 4; did you mean --size?"),
        (["train", "--batch-size", "x"], "tool train: argument --batch-size: invalid int value: 'x'"),
    ],
)
def test_wrong_words_are_refused_in_one_line_by_the_parser_of_their_command(words, line, parser, capsys):
    if line is None:
        assert parser.parse_args(words).batch_size == 3
        return
    with pytest.raises(SystemExit) as usage:
        parser.parse_args(words)
    assert usage.value.code == 2
    assert capsys.readouterr().err == f"{line}; see `tool {words[0]} --help`\n"


def test_the_words_of_a_list_may_stand_anywhere(parser):
    for words in ("a 1 2 --size 3", "a --size 3 1 2", "--size 3 a 1 2", "a 1 --size 3 2"):
        parsed = parser.parse_args(["draw", *words.split()])
        assert (parsed.run, parsed.counts, parsed.size) == ("a", [1, 2], 3)
