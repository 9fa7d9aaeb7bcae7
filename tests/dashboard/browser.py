"""A real browser: headless Chromium, spoken to over two pipes (``--remote-debugging-pipe``), by the standard library.

Each message is JSON and ends with a NUL: see the Chrome DevTools Protocol, chromedevtools.github.io/devtools-protocol.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_SECONDS = 90.0
LOOK_SECONDS = 0.05
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""Chromium reads its commands from file 3, and writes to file 4."""


class Browser:
    """One Chromium, with a profile of its own. Use it in a ``with`` block."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._folder = tempfile.mkdtemp(prefix="holdfast-browser-")
        there, self._to = map(_high, os.pipe())
        self._from, back = map(_high, os.pipe())
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(there), str(back), *command],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self._news = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self._sent = 0
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        with self._news:
            self._sent += 1
            id = self._sent
        message: dict[str, Any] = {"id": id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        with self._news:
            answered = self._news.wait_for(lambda: id in self._answers or self._has_ended, PATIENCE_SECONDS)
            assert answered and id in self._answers, f"no answer to {method}"
            answer = self._answers.pop(id)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def tab(self) -> Tab:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session, target)

    def wait(self, seconds: float) -> None:
        """Wait for the next message of the browser."""
        with self._news:
            self._news.wait(seconds)

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._from, 1 << 20):
            *whole, rest = (rest + data).split(b"\0")
            with self._news:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        return [
            each["params"]
            for each in self._browser.events
            if each["method"] == method and each.get("sessionId") == self._session
        ]

    def complaints(self) -> list[str]:
        """All that the browser has complained about: errors, refused content, violated policies."""
        logged = [each["entry"] for each in self.events("Log.entryAdded")]
        found = [
            f"{each['source']}: {each['text']} {each.get('url', '')}" for each in logged if each["level"] == "error"
        ]
        found += [each["exceptionDetails"]["text"] for each in self.events("Runtime.exceptionThrown")]
        found += [str(each["args"]) for each in self.events("Runtime.consoleAPICalled") if each["type"] == "error"]
        return found + [
            str(each["issue"])
            for each in self.events("Audits.issueAdded")
            if "ContentSecurity" in each["issue"]["code"]
        ]

    def open(self, url: str) -> None:
        begun = self.send("Page.navigate", url=url)
        assert "errorText" not in begun, (url, begun)
        self.until(lambda: begun["loaderId"] in self._loaders(), url)
        self.until("document.readyState === 'complete'", url)

    def _loaders(self) -> list[str]:
        return [each["frame"]["loaderId"] for each in self.events("Page.frameNavigated")]

    def js(self, expression: str) -> Any:
        told = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, holds: Any, what: str = "", patience_seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until an expression of the page, or a function, holds; answers its value."""
        give_up_at = time.monotonic() + patience_seconds
        while True:
            value = holds() if callable(holds) else self._tried(holds)
            if value:
                return value
            assert time.monotonic() < give_up_at, f"{what or holds}; the page: {self._tried('document.body.innerText')}"
            self._browser.wait(LOOK_SECONDS)

    def _tried(self, expression: str) -> Any:
        """The value of an expression; ``None`` while one page makes room for another."""
        try:
            return self.js(expression)
        except AssertionError:
            return None

    def click(self, selector: str) -> None:
        place = self.until(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; "
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
            "return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()",
            f"{selector} is there",
        )
        for type in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=type, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "", modifiers: int = 0) -> None:
        for type in ("keyDown", "keyUp"):
            more = {"text": text} if text and type == "keyDown" else {}
            self.send(
                "Input.dispatchKeyEvent", type=type, key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **more
            )

    def emulate(self, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._browser.send("Target.closeTarget", targetId=self._target)


def _high(file: int) -> int:
    """The same file under a number that is not in Chromium's way."""
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(file)
    return moved
