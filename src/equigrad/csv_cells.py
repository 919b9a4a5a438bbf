"""Names in CSV files: a spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula and runs it.

Such a name is written with an apostrophe before it, which spreadsheets hide. Reading takes it away again.
"""

import re

_FORMULA = re.compile("'*[=+\\-@＝＋－＠\t\r\n]")  # the wide forms count in East Asian spreadsheets


def defused(name: str) -> str:
    """A name as a cell that no spreadsheet runs; `restored` gives the name again."""
    return f"'{name}" if _FORMULA.match(name) else name


def restored(cell: str) -> str:
    """The name that a cell was written for."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
