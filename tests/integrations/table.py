"""Hosts and their five checks as a table of the documentation."""

from collections.abc import Mapping

from tests.integrations.hosts import Host

from equigrad.integrations import CheckReport

BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
MARKS = {"pass": "yes", "fail": "NO"}


def with_table(page: str, reports: Mapping[Host, CheckReport]) -> str:
    """The page with new rows between the two marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n".join(lines(reports)) + "\n" + END + after


def lines(reports: Mapping[Host, CheckReport]) -> list[str]:
    """A row a host; reasons follow the table, by number."""
    (first, *_) = reports.values()
    columns = ["host", "version", "lines", *(result.name for result in first.results)]
    reasons: list[str] = []
    rows = []
    for host, report in reports.items():
        cells = [f"[{host.name}]({host.page})", str(host.version), str(host.lines)]
        for result in report.results:
            if result.reason and result.reason not in reasons:
                reasons.append(result.reason)
            mark = MARKS.get(result.state, "–")
            cells.append(f"{mark} ({reasons.index(result.reason) + 1})" if result.reason else mark)
        rows.append(f"| {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *rows, "", *notes]
