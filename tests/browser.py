"""A page in headless Chromium: what it shows, what it says, and whether it asks for anything outside itself."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(_NAMES)} is installed (Debian: apt-get install chromium)"
)

DARK = "--blink-settings=preferredColorScheme=0"

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    # No name leads anywhere: a request to the outside fails, and is logged, with or without a network.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)

# Answers a question in the page once it is drawn; notes every request and everything its policy refuses.
_PROBE = """
<script>
(() => {
  const refused = [];
  addEventListener("securitypolicyviolation", (event) => refused.push(event.blockedURI));
  addEventListener("error", (event) => refused.push(String(event.message)), true);
  addEventListener("load", async () => {
    const settled = () => new Promise((resolve) => setTimeout(resolve, 300));
    await settled();
    const answer = await (async () => { %s })();
    const requests = performance.getEntriesByType("resource").map((entry) => entry.name);
    document.documentElement.dataset.probe = JSON.stringify({ answer, refused, requests });
  });
})();
</script>
"""


@dataclass(frozen=True)
class Visit:
    """What came of opening a page."""

    dom: str
    answer: Any  # what the question returned
    complaints: list[str]  # errors, refused and outside requests


def visit(page: Path, question: str = "return null;", *, width: int = 1280, options: tuple[str, ...] = ()) -> Visit:
    """Open a page and, when it is drawn, run the body of a JavaScript function in it; `settled()` waits for drawing."""
    assert BROWSER is not None
    probed = page.with_name(f"{page.stem}-probed.html")
    # Before everything else, so that it also hears what goes wrong early.
    probed.write_text(page.read_text(encoding="utf-8").replace("<head>", "<head>" + _PROBE % question, 1), "utf-8")
    profile = page.parent / "profile"
    command = [BROWSER, *_OPTIONS, *options, f"--user-data-dir={profile}", f"--window-size={width},1000", "--dump-dom"]
    shown = subprocess.run([*command, probed.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    shutil.rmtree(profile, ignore_errors=True)
    probe = re.search(r'data-probe="([^"]*)"', shown.stdout)
    assert probe, f"the page was not drawn: {shown.stderr[-2000:]}"
    heard = json.loads(html.unescape(probe[1]))
    lines = [line for line in shown.stderr.splitlines() if re.search(r"CONSOLE|Uncaught|ERR_", line)]
    return Visit(shown.stdout, heard["answer"], [*lines, *heard["refused"], *heard["requests"]])
