"""Names of files, categories and runs on a terminal, which obeys some of the characters that they may contain."""

import re

# Control characters, line separators, marks that turn the direction of text, and lone surrogates, which cannot be
# encoded: file names that are not UTF-8 have them.
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with such characters written as Python does: `\x1b`, `\n`, `\u202e`."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
