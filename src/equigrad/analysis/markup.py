"""HTML from data. What is not markup already is escaped, so that no name can become an element or a script."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from equigrad.files import write_atomically


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(value: object) -> Html:
    """Escape a value, unless it is markup."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def element(tag: str, *content: object, **attributes: str) -> Html:
    """An element. Underscores in names of attributes become hyphens; a trailing one is dropped (`class_`)."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    listed = "".join(f' {names[name]}="{html.escape(value)}"' for name, value in attributes.items() if value)
    return Html(f"<{tag}{listed}>{join(content)}</{tag}>")


def users_name(name: str) -> Html:
    """The name of a category or of a run: lines break after its underscores, and its script keeps its direction."""
    return element("bdi", Html(markup(name).replace("_", "_<wbr>")))


def join(parts: Iterable[object]) -> Html:
    """Concatenate parts; those that are not markup are escaped."""
    return Html("".join(markup(part) for part in parts))


def table(caption: str, header: Sequence[object], rows: Iterable[Sequence[object]], class_: str = "") -> Html:
    """A table whose first column names the rows; on a phone, cells of `results` stand below each other, named."""
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    headings = [str(cell).replace("_", "_\u200b") if class_ == "results" else "" for cell in header]  # may break there
    body = (
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, data_heading=heading) for heading, cell in zip(headings[1:], row[1:], strict=True)),
        )
        for row in rows
    )
    grid = element("table", element("caption", caption), element("thead", head), element("tbody", *body), class_=class_)
    return element("div", grid, class_="table")


def listing(items: Iterable[object], class_: str = "") -> Html:
    """A bulleted list of escaped texts."""
    return element("ul", *(element("li", item) for item in items), class_=class_)


def script_data(value: Any) -> Html:
    """JSON that is safe inside a script element: it contains no tag, not even the closing one."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def resource(name: str) -> str:
    """A template, style sheet or script that comes with this package."""
    return files("equigrad.analysis").joinpath(name).read_text(encoding="utf-8")


def write_page(file: Path, template: str, values: Mapping[str, object]) -> None:
    """Write a page: a template of this package, with its fields replaced."""
    page = Template(resource(template)).substitute({name: markup(value) for name, value in values.items()})
    # A lone surrogate is possible in JSON but not in UTF-8; it becomes a question mark.
    write_atomically(file, page.encode("utf-8", errors="replace"))
