"""Real Chromium without a window, driven over its debugging pipe: open a page, act on it, hear what it complains of."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip
_LEFT = ("Inspected target navigated or closed", "Execution context was destroyed.")


class PageLeftError(AssertionError):
    """The page went elsewhere before it could answer."""


class Page:
    """A tab. ``complaints`` are console errors, exceptions, and requests that failed or were blocked."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                if "error" in heard:
                    left = heard["error"]["message"] in _LEFT
                    raise (PageLeftError if left else AssertionError)(f"{method}: {heard['error']}")
                result: dict[str, Any] = heard["result"]
                return result

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """The size of the window, and the colours that the person prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page is there."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0) -> None:
        """Until an expression is true, on whatever page a click led to: a page that is leaving is asked again."""
        end = time.monotonic() + seconds
        while not self._holds(script):
            assert time.monotonic() < end, f"never came true: {script}"
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key, once the page listens: what is pressed while it loads is lost."""
        self.wait("document.readyState === 'complete'")
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = codes.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file in a form."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.run(f"!!({script})"))
        except PageLeftError:
            return False

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._back, 1 << 16)
            assert read, "Chromium has gone"
            self._buffer += read
        raw, _, self._buffer = self._buffer.partition(b"\0")
        heard: dict[str, Any] = json.loads(raw)
        said = heard.get("params", {})
        match heard.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(said["entry"]))
            case "Network.loadingFailed" if not said.get("canceled"):
                self.complaints.append(str(said))
        return heard


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A page of a browser of its own; ``profile`` is an empty folder."""
    assert CHROMIUM is not None
    their_in, to = os.pipe()
    back, their_out = os.pipe()
    reads, writes = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (their_in, their_out))
    nowhere = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in (0, 1, 2)]
    pipe = [(os.POSIX_SPAWN_DUP2, reads, 3), (os.POSIX_SPAWN_DUP2, writes, 4)]  # where Chromium looks for them
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
    process = os.posix_spawn(CHROMIUM, command, os.environ, file_actions=[*nowhere, *pipe], setpgroup=0)
    for each in (their_in, their_out, reads, writes):
        os.close(each)
    try:
        yield Page(to, back)
    finally:
        os.killpg(process, signal.SIGKILL)  # its renderers too: the group is its own
        os.waitpid(process, 0)
        os.close(to)
        os.close(back)
