"""Headless Chromium for tests: one process, driven over its debugging pipe, no packages needed.

    with Browser() as browser:
        page = browser.page(width=1280, height=900, scheme="dark")
        page.open("file:///...")
        page.evaluate("document.title")
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def wire():
            # Both may be descriptor 3 or 4: duplicate them to higher numbers first.
            a, b = os.dup(to_read), os.dup(from_write)
            while a in (3, 4) or b in (3, 4):
                a, b = os.dup(a), os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--force-device-scale-factor=1",
             f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe"],
            preexec_fn=wire, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.buffer = b""
        self.events = []
        self.last = 0
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to_write)
        os.close(self.from_read)
        self.profile.cleanup()

    def read(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_read], [], [], left)[0]:
                raise TimeoutError("Chromium does not answer")
            chunk = os.read(self.from_read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, timeout=60, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_event(self, method, session, timeout=60):
        deadline = time.monotonic() + timeout
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    self.events.remove(event)
                    return event["params"]
            self.events.append(self.read(deadline))

    def page(self, **look):
        return Page(self, **look)


class Page:
    def __init__(self, browser, width=1280, height=900, scheme="light"):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.look(width=width, height=height, scheme=scheme)

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def look(self, width=1280, height=900, scheme="light", media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def open(self, url, scripts=True):
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.browser.events.clear()
        self.call("Page.navigate", url=url)
        self.browser.wait_event("Page.loadEventFired", self.session)

    def evaluate(self, expression):
        """The value of an expression or of its promise; fails if the expression throws."""
        out = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in out:
            details = out["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return out["result"].get("value")

    def key(self, key, text=""):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}
        more = {"windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        if key == "Enter":
            text = "\r"
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **({"text": text} if text else {}), **more
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, **more)

    def errors(self):
        """Exceptions of scripts since the page was opened."""
        self.evaluate("1")
        return [
            e["params"]["exceptionDetails"].get("exception", {}).get("description", "?")
            for e in self.browser.events
            if e.get("method") == "Runtime.exceptionThrown" and e.get("sessionId") == self.session
        ]

    def picture(self, clip=None):
        """PNG bytes of the window, or of a box of the page."""
        more = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
