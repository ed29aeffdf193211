"""A real browser without a window: Chromium, told what to do through chromedriver's own protocol (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element in the protocol
PATIENCE_S = 60
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014"}
KEYS |= {"Down": "\ue015", "End": "\ue010", "Home": "\ue011", "Space": " "}


class Browser:
    """One window."""

    def __init__(self, driver: str, session: str):
        self._url = f"{driver}/session/{session}"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return ask(method, f"{self._url}/{path}", body)

    def open(self, page: Path, width: int = 1500, height: int = 950) -> None:
        self._ask("POST", "window/rect", {"width": width, "height": height})
        self._ask("POST", "url", {"url": page.as_uri()})

    def leave(self) -> None:
        self._ask("POST", "url", {"url": "about:blank"})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a JavaScript function; return its result."""
        return self._ask("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, expression: str) -> Any:
        """The value of a JavaScript expression once it is true."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.run(f"return {expression}")):
            assert time.monotonic() < end, f"{expression} never came true"
            time.sleep(0.02)
        return value

    def _element(self, selector: str) -> str:
        return self._ask("POST", "element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self._ask("POST", f"element/{self._element(selector)}/click", {})

    def hover(self, selector: str, x: int = 0, y: int = 0) -> None:
        """Move the pointer to a place (x, y), in pixels from the middle of an element."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        origin = {ELEMENT: self._element(selector)}
        move = {"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y}
        self._act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]})

    def press(self, *keys: str) -> None:
        """Press and let go of keys, one after the other."""
        strokes = [{"type": kind, "value": KEYS.get(k, k)} for k in keys for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": strokes})

    def _act(self, actions: dict[str, Any]) -> None:
        self._ask("POST", "actions", {"actions": [actions]})

    def prefer(self, colours: str) -> None:
        """Say that the reader's system is `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": colours}]
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}
        self._ask("POST", "goog/cdp/execute", command)

    def viewport(self, width: int, height: int, *, mobile: bool = False) -> None:
        """Show the page on a screen of this size, whatever the size of the window."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": screen}
        self._ask("POST", "goog/cdp/execute", command)

    def cpu_s(self) -> float:
        """Seconds of CPU time that the page has taken: scripts, style, layout; a busy machine does not lengthen it."""
        self._ask("POST", "goog/cdp/execute", {"cmd": "Performance.enable", "params": {"timeDomain": "threadTicks"}})
        metrics = self._ask("POST", "goog/cdp/execute", {"cmd": "Performance.getMetrics", "params": {}})["metrics"]
        return {each["name"]: each["value"] for each in metrics}["TaskDuration"]

    def complaints(self) -> list[str]:
        """Messages of the console since the last call: errors and warnings, blocked and failed loads."""
        return [entry["message"] for entry in self._ask("POST", "se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last time."""
        events = [json.loads(e["message"])["message"] for e in self._ask("POST", "se/log", {"type": "performance"})]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path) -> bytes:
        """The window as PNG, kept under that name."""
        png = base64.b64decode(self._ask("GET", "screenshot"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png)
        return png


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """One browser for all pages: starting it takes longer than looking at one."""
    with browser() as window:
        yield window


@pytest.fixture(scope="module")
def chromium(window: Browser) -> Iterator[Browser]:
    """The browser, left on an empty page: one with an animation would take a third of a processor until the end."""
    yield window
    window.leave()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """The folder of screenshots: the one that MINITF_SCREENSHOTS names, else the test's own."""
    return Path(os.environ.get("MINITF_SCREENSHOTS", tmp_path))


def ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    """One command of the protocol."""
    request = urllib.request.Request(url, method=method, headers={"Content-Type": "application/json"})
    if body is not None:
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.loads(reply.read())["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{method} {url}: {json.loads(error.read())['value']['message']}") from None


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of one's own, or a skipped test where none is installed."""
    programs = {
        "chromedriver": shutil.which("chromedriver") or "",
        "chromium": shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or "",
    }
    missing = [name for name, path in programs.items() if not path]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: chromium and chromium-driver)")
    command = [programs["chromedriver"], "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = f"http://127.0.0.1:{_port(process)}"
            session = ask(
                "POST", f"{url}/session", {"capabilities": {"alwaysMatch": _capabilities(programs["chromium"])}}
            )
            try:
                yield Browser(url, session["sessionId"])
            finally:
                ask("DELETE", f"{url}/session/{session['sessionId']}")
        finally:
            process.terminate()


def _port(process: subprocess.Popen) -> int:
    for line in process.stdout or ():
        if "successfully on port" in line:
            return int(line.rstrip().rstrip(".").rpartition(" ")[2])
    raise AssertionError(f"chromedriver ended with status {process.wait()}")


def _capabilities(chromium: str | None) -> dict[str, Any]:
    flags = ["--headless=new", "--hide-scrollbars", "--force-device-scale-factor=1", "--disable-dev-shm-usage"]
    flags += ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # root has no other way; the pages are our own
    return {
        "goog:chromeOptions": {"binary": chromium, "args": flags},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
