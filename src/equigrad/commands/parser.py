"""The parser of the command line: wrong usage is one line that names the remedy."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from equigrad.commands.exit_codes import WRONG_USAGE
from equigrad.commands.habits import HABITS
from equigrad.settings import nearest
from equigrad.terminal import printable


class OneLineParser(argparse.ArgumentParser):
    """Refuses wrong words without the usage, which would hide the line that matters."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(WRONG_USAGE, printable(f"{self.prog}: {message}; see `{self.prog} --help`") + "\n")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Refuse unknown words here: the parser of all commands, which would do it, does not know the options."""
        parsed, unknown = super().parse_known_args(args, namespace)
        unknown = self._without_more_of_a_list(parsed, unknown)
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}{self._remedy(unknown)}")
        return parsed, unknown

    def _without_more_of_a_list(self, parsed: argparse.Namespace, unknown: list[str]) -> list[str]:
        """Words such as IMAGE… may also follow options; argparse takes only those before the first one."""
        lists = [action for action in self._actions if not action.option_strings and action.nargs in ("*", "+")]
        if not lists or any(word.startswith("-") for word in unknown):
            return unknown
        (action,) = lists
        try:
            more = [self._get_value(action, word) for word in unknown]
        except argparse.ArgumentError as error:
            self.error(str(error))
        setattr(parsed, action.dest, [*getattr(parsed, action.dest), *more])
        return []

    def _remedy(self, unknown: Sequence[str]) -> str:
        for word in unknown:
            name = word.partition("=")[0].lstrip("-").replace("-", "_")
            if name in HABITS:
                return f"; here: {HABITS[name]}"
            if word.startswith("--"):
                return nearest(word.partition("=")[0], self._option_string_actions)
            if "=" in word:
                return f"; a setting is --set {word}"
        if "--resume" in self._option_string_actions:
            return "; --resume takes no path: the run folder is --run FOLDER"
        return ""


def positive(text: str) -> int:
    """The type of an argument that counts from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
