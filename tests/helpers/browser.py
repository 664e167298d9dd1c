"""Headless chromium for tests of pages: opens files from disk, offline, and reads what the page shows.

It uses the DevTools protocol through a pair of pipes, so that no driver, port or package is needed.
"""

import base64
import io
import itertools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.colors import contrast

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
STARTER = Path(__file__).with_name("start_chromium.py")
PATIENCE = 60  # seconds for an answer: a loaded machine starts slowly
KEYS = {
    "+": 187,
    "-": 189,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Tab": 9,
    " ": 32,
}


def require_browser() -> str:
    """Path of chromium; without it the test is skipped, or fails if SPHEREOT_REQUIRE_BROWSER is set."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = "needs a chromium browser: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("SPHEREOT_REQUIRE_BROWSER") else pytest.skip(reason)
    return found


class Browser:
    """Headless chromium with a new profile, as a context manager."""

    def __init__(self) -> None:
        program = require_browser()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        hears, self.speaks = os.pipe()
        self.hears, speaks = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # refused to root, whom containers have; the pages are our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={self.profile.name}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            [sys.executable, STARTER, str(hears), str(speaks), program, *options],
            pass_fds=(hears, speaks),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hears)
        os.close(speaks)
        self.numbers = itertools.count(1)
        self.unread = b""
        self.events: list[dict] = []

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        finally:
            os.close(self.speaks)
            os.close(self.hears)
            self.profile.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.speaks, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def read(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.hears], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"chromium did not answer within {PATIENCE} s")
            chunk = os.read(self.hears, 1 << 20)
            if not chunk:
                raise OSError("chromium ended")
            self.unread += chunk
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def open(self, path: Path, *, dark: bool = False, width: int = 800, height: int = 900) -> "Page":
        return Page(self, path, dark=dark, width=width, height=height)


class Page:
    """A file open in a tab, offline."""

    def __init__(self, browser: Browser, path: Path, *, dark: bool, width: int, height: int) -> None:
        self.browser = browser
        browser.events.clear()
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.set_dark(dark)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def call(self, method: str, **parameters: object) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def set_dark(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> object:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"still not true after {PATIENCE} s: {expression}")
            time.sleep(0.05)

    def key(self, key: str, times: int = 1) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        for _ in range(times):
            for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    windowsVirtualKeyCode=KEYS[key],
                    **(text if kind == "keyDown" else {}),
                )

    def mouse(self, kind: str, x: float, y: float, **parameters: object) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def touch(self, kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)]
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def screenshot(self) -> np.ndarray:
        """Picture of the page, shape (height, width, 3)."""
        from matplotlib.image import imread  # by way of pillow, which comes with matplotlib

        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.rint(255 * imread(io.BytesIO(png), format="png")[..., :3]).astype(int)

    def color(self, selector: str, name: str) -> np.ndarray:
        """A computed color of the first element that a selector finds, channels in [0, 255]."""
        text = self.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{name}")
        return np.array(re.findall(r"[\d.]+", text)[:3], dtype=float)

    def contrast(self, selector: str, name: str) -> float:
        """Contrast of an element's color with the background of the page."""
        return float(contrast(self.color(selector, name), self.color("body", "backgroundColor")))

    def complaints(self) -> list[dict]:
        """Errors and warnings of the page, and every request other than for the file itself."""
        self.evaluate("0")  # all that happened before has arrived then
        found = []
        for event in self.browser.events:
            method, what = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert")
            ):
                found.append(what)
            elif method == "Network.requestWillBeSent" and not what["request"]["url"].startswith("file:"):
                found.append(what["request"])
        return found
