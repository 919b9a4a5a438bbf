"""A page in headless Chromium: what it shows, what goes wrong in it, and whether it requests anything from outside.

One browser serves all pages of a test process. It is driven over a pipe by the DevTools protocol, messages of JSON that
end in a zero byte, so that no package beside Python is needed.
"""

import atexit
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(_NAMES)} is installed (Debian: apt-get install chromium)"
)

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
    # No name can be resolved: a request to the outside fails, and is reported, with or without a network.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
_TIMEOUT = 120.0  # seconds; a busy machine starts a browser slowly

# Chromium reads commands from descriptor 3 and answers on 4.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

_QUESTION = """(async () => {
  const settled = () => new Promise((resolve) => setTimeout(resolve, 300));
  await settled();
  %s
})()"""


_BOX = """
  const { x, y, width, height } = (window.pictured ?? document.documentElement).getBoundingClientRect();
  return { x: x + scrollX, y: y + scrollY, width, height };
"""


@dataclass(frozen=True)
class Visit:
    """What came of opening a page."""

    answer: Any  # what the question returned
    complaints: list[str]  # errors, refused and outside requests


def visit(
    page: Path, question: str = "return null;", *, width: int = 1280, dark: bool = False, picture: Path | None = None
) -> Visit:
    """Open a page and, when it is drawn, run the body of a JavaScript function in it; `settled()` waits for drawing.

    With a picture, a PNG of the whole page is written after that; of one element, if the question sets
    `window.pictured`; or a PDF of the printed page, if that is the suffix.
    """
    browser = _browser()
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    try:
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable", session)
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.call("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.call("Emulation.setEmulatedMedia", session, features=[scheme])
        browser.events.clear()
        browser.call("Page.navigate", session, url=page.as_uri())
        browser.wait_for("Page.loadEventFired")
        answer = _asked(browser, session, question)
        if picture is not None:
            picture.write_bytes(_pictured(browser, session, picture.suffix))
        return Visit(answer, [text for event in browser.events if (text := _complaint(event, page))])
    finally:
        browser.call("Target.closeTarget", targetId=target)


def _asked(browser: "_Browser", session: str, question: str) -> Any:
    asked = {"expression": _QUESTION % question, "awaitPromise": True, "returnByValue": True}
    answer = browser.call("Runtime.evaluate", session, **asked)
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")


def _pictured(browser: "_Browser", session: str, suffix: str) -> bytes:
    if suffix == ".pdf":
        printed = browser.call("Page.printToPDF", session, printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])
    box = _asked(browser, session, _BOX)
    shot = {"clip": {**box, "scale": 1}, "captureBeyondViewport": True}
    return base64.b64decode(browser.call("Page.captureScreenshot", session, **shot)["data"])


def _complaint(event: dict[str, Any], page: Path) -> str | None:
    """What is wrong with the page according to an event of the browser; None if it only tells what happens."""
    values = event["params"]
    match event["method"]:
        case "Runtime.exceptionThrown":
            return f"exception: {values['exceptionDetails']}"
        case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
            return f"console: {values['args']}"
        case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
            return f"log: {values['entry']['text']}"
        case "Network.requestWillBeSent" if not _is_inside(values["request"]["url"], page):
            return f"request: {values['request']['url']}"
    return None


def _is_inside(url: str, page: Path) -> bool:
    return url == page.as_uri() or url.startswith(("data:", "blob:"))


class _Browser:
    """A running Chromium; `events` holds what it reported since they were last cleared."""

    def __init__(self) -> None:
        assert BROWSER is not None
        self.profile = tempfile.mkdtemp(prefix="equigrad-browser-")
        commands, self._to_browser = os.pipe()
        self._from_browser, answers = os.pipe()
        # Above 4, so that neither is overwritten before it is moved to its number.
        inherited = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        command = [sys.executable, "-c", _START, *map(str, inherited), BROWSER, *_OPTIONS]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={self.profile}"],
            pass_fds=inherited,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (commands, answers, *inherited):
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self._received = b""
        self._number = 0

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while (received := self._receive()).get("id") != self._number:
            self.events.append(received)
        assert "error" not in received, f"{method}: {received['error']}"
        return received["result"]

    def wait_for(self, event: str) -> None:
        """Read events until this one came."""
        while all(heard["method"] != event for heard in self.events):
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _TIMEOUT
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._from_browser], [], [], max(deadline - time.monotonic(), 0))
            assert readable, f"the browser did not answer within {_TIMEOUT:.0f} seconds"
            part = os.read(self._from_browser, 1 << 16)
            assert part, "the browser ended"
            self._received += part
        message, self._received = self._received.split(b"\0", 1)
        return json.loads(message)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


@cache
def _browser() -> _Browser:
    browser = _Browser()
    atexit.register(browser.close)
    return browser
