"""Headless Chromium over the W3C WebDriver protocol, for the tests in this folder."""

import base64
import contextlib
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

# The key of an element's id in WebDriver's messages.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser(contextlib.AbstractContextManager):
    """One tab. It can reach only 127.0.0.1."""

    def __init__(self, width=1440, height=900):
        self.size = (width, height)

    def __enter__(self):
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                break
        else:
            raise RuntimeError("chromedriver did not start")
        self.url = f"http://127.0.0.1:{found[1]}"
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--window-size={self.size[0]},{self.size[1]}",
        ]
        capabilities = {"goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._call("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()

    def _call(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, method=method, data=None if body is None else json.dumps(body).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def _post(self, command, body):
        return self._call("POST", f"{self.session}/{command}", body)

    def open(self, url):
        self._post("url", {"url": url})

    def run(self, script, *arguments):
        """The value of a JavaScript function body."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, seconds=20):
        """Waits until a JavaScript expression is true, and returns its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(f"return {script};")):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {script}")
            time.sleep(0.05)
        return value

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent;", selector)

    def shown(self, selector):
        return self.run("return document.querySelector(arguments[0]).offsetParent !== null;", selector)

    def _find(self, selector):
        return self._post("element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._post(f"element/{self._find(selector)}/click", {})

    def type(self, selector, text):
        """Replaces the value of a field."""
        element = self._find(selector)
        self._post(f"element/{element}/clear", {})
        self._post(f"element/{element}/value", {"text": text})

    def point(self, selector):
        """Moves the pointer to an element."""
        self._point({ELEMENT: self._find(selector)})

    def point_away(self):
        self._point("viewport")

    def _point(self, origin):
        move = {"type": "pointerMove", "duration": 0, "origin": origin, "x": 1, "y": 1}
        self._post("actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def command(self, name, **parameters):
        """A command of the Chrome DevTools protocol."""
        return self._post("goog/cdp/execute", {"cmd": name, "params": parameters})

    def set_dark(self, dark):
        value = "dark" if dark else "light"
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def screenshot(self, path):
        """Writes a PNG of the whole page."""
        area = {
            "x": 0,
            "y": 0,
            "width": self.size[0],
            "scale": 1,
            "height": self.run("return document.body.getBoundingClientRect().height;"),
        }
        image = self.command("Page.captureScreenshot", format="png", clip=area, captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))

    def errors(self):
        """The errors in the browser's log since the last call."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def requested(self):
        """The URLs that the page has requested since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._post("se/log", {"type": "performance"})]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]
