"""Names of categories in a file of their own: one on each line, or the `names` of a YAML file."""

import os
from collections.abc import Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from equigrad.data.text_files import name_lines, read_small

_MAX_YAML = 1 << 19  # bytes, which take the parser seconds


def category_names(names: Sequence[str] | str | os.PathLike[str]) -> list[str]:
    """The names themselves, or those of a `.yaml` file or of a text file with a name on each line."""
    if not isinstance(names, str | os.PathLike):
        return list(names)
    file = Path(names)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected the names of the categories")
    lines = _yaml_names(file) if file.suffix in (".yaml", ".yml") else name_lines(file)
    titles = [line.strip() for line in lines if line.strip()]
    if not titles:
        raise ValueError(f"{file}: expected one or more names of categories, found none")
    return titles


def _yaml_names(file: Path) -> list[str]:
    """The `names` of a YAML file: a list, or a mapping from 0, 1, … to names."""
    try:
        # The base loader takes everything for text: a category may be called `no` or 2024-01-01.
        content = yaml.load(read_small(file, _MAX_YAML), yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{file}: not a valid YAML file ({' '.join(str(error).split())})") from None
    names = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict) and names.keys() == set(map(str, range(len(names)))):
        names = [names[str(index)] for index in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{file}: names: expected a list of names, or a name for each number from 0")
    return names
