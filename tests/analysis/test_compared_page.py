import pytest

from analysis.compared import compared
from browser import needs_browser, visit
from equigrad.analysis.compared_page import write_comparison_page
from equigrad.analysis.plots import plot_differences

HOSTILE = "</table><script>document.title='taken'</script><img src=http://a.example/x onerror=alert(1)> {}"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a comparison whose categories, data and command try to become markup."""
    folder = tmp_path_factory.mktemp("page")
    results = compared({"ce": {}, "eql": {"Few": 0.2}}, groups=("Medium", "Few"), name=HOSTILE)
    plot_differences(results, folder / "differences.png")
    write_comparison_page(
        results,
        folder / "report.html",
        data=HOSTILE,
        figure=folder / "differences.png",
        settings={name: {"data.train": HOSTILE} for name in results.methods},
        notes=[HOSTILE],
        command=["equigrad", "compare", HOSTILE, "\ud800"],
    )
    return folder / "report.html"


def test_no_name_becomes_markup(page):
    text = page.read_text()
    assert "<script" not in text
    assert "<img src=http" not in text
    assert text.count("&lt;script&gt;") > 30


@needs_browser
def test_a_browser_shows_advice_table_and_figure_without_complaint(page):
    found = visit(
        page,
        """
        const cells = [...document.querySelectorAll('#results tbody td')].map((cell) => cell.textContent);
        return {
          title: document.title,
          advice: document.querySelector('#advice').textContent,
          cells: cells.length,
          dash: cells.some((text) => text.trim() === '–'),
          drawn: document.querySelector('figure img').naturalWidth,
          rows: document.querySelectorAll('#categories tbody tr').length,
          wide: document.documentElement.scrollWidth > window.innerWidth,
        };
        """,
        width=500,
    )
    assert not found.complaints
    assert found.answer["title"].startswith("2 methods on </table><script>")
    assert "points above ce" in found.answer["advice"]
    assert found.answer["cells"] == 10
    assert found.answer["dash"]
    assert found.answer["drawn"] > 500
    assert found.answer["rows"] == 30
    assert not found.answer["wide"]
