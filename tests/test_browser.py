"""The page tests rely on the helper to report these."""

import pytest

from browser import needs_browser, visit

pytestmark = needs_browser


def page_with(folder, body):
    page = folder / "page.html"
    page.write_text(f"<!DOCTYPE html><html><head><title>t</title></head><body>{body}</body></html>")
    return page


def test_a_quiet_page_has_no_complaints(tmp_path):
    seen = visit(page_with(tmp_path, "<p id=p>text</p>"), 'return document.getElementById("p").textContent;')
    assert (seen.answer, seen.complaints) == ("text", [])


@pytest.mark.parametrize(
    "body",
    [
        "<script>missing();</script>",
        '<script>Promise.reject(new Error("late"));</script>',
        '<img src="https://example.org/a.png" alt="">',
        '<script>fetch("https://example.org/data").catch(() => {});</script>',
        '<link rel="stylesheet" href="https://example.org/a.css">',
    ],
    ids=["error", "rejected promise", "image", "fetch", "style"],
)
def test_errors_and_outside_requests_are_heard(tmp_path, body):
    assert visit(page_with(tmp_path, body)).complaints


def test_dark_mode_and_width_are_those_asked_for(tmp_path):
    question = 'return [innerWidth, matchMedia("(prefers-color-scheme: dark)").matches];'
    page = page_with(tmp_path, "")
    assert visit(page, question, width=900).answer == [900, False]
    assert visit(page, question, width=900, dark=True).answer == [900, True]
