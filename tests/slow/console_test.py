#!/usr/bin/env python3
"""Tests the live console in headless Chromium, over services with the demo models.

watches: orchestrator/console common/http tests/slow/browser.py tests/slow/openai_answers.py tests/slow/random_requests*.py
"""

import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from browser import Browser
from command_line import parse_arguments
from demo_services import PROMPTS, DemoServices
from openai_answers import ask
from random_requests import CHATS
from random_requests_test import models_with_template

ARGUMENTS = None
PROMPT = 'def quicksort(items):\n    """Sort'
QUESTION = "What does quicksort return?"
# The policies of the load. The first one speculates as the service decides.
POLICIES = ("default", "fixed:6")


class Load:
    """One client for each of POLICIES. Each sends one prompt after the other."""

    def __init__(self, services):
        self.services = services
        self.prompts = [json.loads(line)["text"] for line in PROMPTS.read_text().splitlines()]
        self.ended = False
        self.threads = [threading.Thread(target=self._send, args=(policy, i)) for i, policy in enumerate(POLICIES)]
        for thread in self.threads:
            thread.start()

    def _send(self, policy, first):
        turn = first
        while not self.ended:
            self.services.ctl(
                "generate", "--max-new-tokens", "300", "--policy", policy, "--prompt", self.prompts[turn % len(self.prompts)]
            )
            turn += len(POLICIES)

    def stop(self):
        self.ended = True
        for thread in self.threads:
            thread.join()


class ConsoleTest(unittest.TestCase):
    def setUp(self):
        self.services = self.enterContext(DemoServices(ARGUMENTS.bin))
        self.site = f"http://127.0.0.1:{self.services.http['orchestrator']}"
        self.browser = self.enterContext(Browser())
        self.browser.open(f"{self.site}/console")
        self.browser.wait("document.getElementById('status').dataset.state === 'live'")

    def count(self, selector):
        return self.browser.run("return document.querySelectorAll(arguments[0]).length;", selector)

    def number(self, tile):
        return float(re.sub(r"[,×]", "", self.browser.text(f"#{tile}")))

    def start_load(self):
        load = Load(self.services)
        self.addCleanup(load.stop)
        return load

    def ask(self, prompt, tokens, policy=""):
        """Sends a prompt and waits for the outcome."""
        self.browser.type("#prompt", prompt)
        self.browser.type("#max-tokens", str(tokens))
        self.browser.type("#policy", policy)
        self.browser.click("#send")
        self.browser.wait("document.getElementById('stop').disabled", seconds=60)
        return self.browser.text("#outcome")

    def answer(self):
        return self.browser.run(
            "return [...document.querySelectorAll('#answer .cycle')].map((span) => span.textContent).join('');"
        )

    def restart(self, *flags):
        """Starts the orchestrator again, on the same port, with more flags."""
        old = self.services.processes["orchestrator"]
        if old.poll() is None:
            old.kill()
            old.wait()
        self.services.processes["orchestrator"] = subprocess.Popen(
            [*old.args, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def assert_clean(self):
        """The page has reported no errors, and has used no other host."""
        self.assertEqual(self.browser.errors(), [])
        for url in self.browser.requested():
            self.assertRegex(url, rf"^({re.escape(self.site)}/console|data:image/svg)")

    def test_a_page_without_load_says_so(self):
        self.assertEqual(self.browser.text("#rate"), "0")
        self.assertEqual(self.browser.text("#speedup"), "–")
        self.assertEqual(self.browser.text("#mode"), "idle")
        self.assertEqual(self.browser.text("#drafter"), "connected")
        self.assertIn("No cycles yet", self.browser.text("#bars"))
        self.assertIn("Nothing decoded", self.browser.text("#lengths"))
        self.assertIn("No verify calls yet", self.browser.text("#scatter"))
        self.assertFalse(self.browser.run("return document.getElementById('no-requests').hidden;"))
        self.assert_clean()

    def test_load_fills_tiles_charts_and_the_table_without_text(self):
        self.start_load()
        self.browser.wait("document.querySelectorAll('#bars .hit').length === 120")
        self.browser.wait("document.querySelectorAll('#requests .graph .ring').length > 0")
        self.browser.wait("Number(document.getElementById('running').textContent) > 0")
        self.assertGreater(self.number("rate"), 0)
        self.assertGreater(self.number("speedup"), 0)
        self.assertGreaterEqual(self.number("tau"), 1)
        self.assertGreater(self.count("#bars rect.verify"), 60)
        self.assertGreater(self.count("#bars rect.draft"), 0)
        self.assertGreater(self.count("#lengths .bar"), 1)
        self.assertGreater(self.count("#scatter circle"), 100)
        self.assertGreater(self.count("#scatter .diagonal"), 0)
        self.assertGreater(self.count("#rate-spark path.line"), 0)
        self.assertIn("fixed:6", self.browser.text("#requests"))
        # Trees have numbers and colors, and no text but that of nodes that are left out.
        texts = self.browser.run(
            "return [...document.querySelectorAll('#requests .graph text')].map((text) => text.textContent);"
        )
        for text in texts:
            self.assertRegex(text, r"^and \d+ less likely nodes$")
        with urllib.request.urlopen(f"{self.site}/console/state") as answer:
            state = json.load(answer)
        trees = [request["tree"] for request in state["requests"] if "tree" in request]
        self.assertTrue(trees)
        self.assertFalse(any("texts" in tree or "next_text" in tree for tree in trees))
        self.assert_clean()

    def test_the_prompt_box_streams_the_answer_of_the_service(self):
        expected = self.services.ctl("generate", "--prompt", PROMPT, "--max-new-tokens", "80").stdout
        outcome = self.ask(PROMPT, 80)
        self.assertRegex(outcome, r"^80 tokens in \d+ cycles")
        spans = self.browser.run(
            "return [...document.querySelectorAll('#answer .cycle')]"
            ".map((span) => [span.textContent, getComputedStyle(span).backgroundColor]);"
        )
        self.assertEqual("".join(text for text, _ in spans).rstrip("\n"), expected.rstrip("\n"))
        self.assertIn(f" in {len(spans)} cycles", outcome)
        for (_, shade), (_, next_shade) in zip(spans, spans[1:]):
            self.assertNotEqual(shade, next_shade)
        self.browser.point("#answer .cycle.even")
        self.browser.wait("!document.getElementById('tip').hidden")
        self.assertRegex(self.browser.text("#tip"), r"^cycle \d+: \d+ tokens? in .* ms\n\d+ nodes verified, \d+ accepted\n")
        self.assert_clean()

    def test_a_question_is_asked_through_the_chat_template(self):
        self.assertFalse(self.browser.shown("#chat-label"))
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        services = self.enterContext(DemoServices(ARGUMENTS.bin, models=models_with_template(folder)))
        self.browser.open(f"http://127.0.0.1:{services.http['orchestrator']}/console")
        self.browser.wait("document.getElementById('chat').checked")
        self.assertTrue(self.browser.shown("#chat-label"))
        self.assertRegex(self.ask(QUESTION, 12), "^12 tokens")
        asked = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 12, "temperature": 0}
        (choice,) = ask(services.http["orchestrator"], CHATS, asked)["choices"]
        self.assertEqual(self.answer().strip(), choice["text"].strip())
        self.browser.click("#chat")
        self.ask(QUESTION, 12)
        self.assertNotEqual(self.answer().strip(), choice["text"].strip())

    def test_markup_in_an_answer_stays_text(self):
        prompt = '<img src=x onerror="document.title=1"></span><script>document.title=2</script>'
        self.ask(prompt, 10)
        self.assertEqual(self.browser.text("#answer .asked"), prompt)
        self.assertEqual(self.count("#answer img, #answer script"), 0)
        self.assertEqual(self.browser.run("return document.title;"), "bastion console")

    def test_stop_cancels_and_errors_are_shown(self):
        self.browser.type("#prompt", PROMPT)
        self.browser.type("#max-tokens", "100000")
        self.browser.click("#send")
        self.browser.wait("document.querySelectorAll('#answer .cycle').length > 3")
        self.browser.click("#stop")
        self.browser.wait("document.getElementById('outcome').textContent === 'Stopped.'")
        self.browser.wait("document.getElementById('running').textContent === '0'")
        self.browser.wait("document.getElementById('requests').textContent.includes('failed')")
        self.assert_clean()
        self.assertRegex(self.ask(PROMPT, 10, "nonsense"), r"^INVALID_ARGUMENT: .*policy")
        self.assertRegex(self.ask(PROMPT, 10), "^10 tokens")

    def test_closing_the_page_cancels_its_answer(self):
        self.browser.type("#prompt", PROMPT)
        self.browser.type("#max-tokens", "100000")
        self.browser.click("#send")
        self.browser.wait("document.querySelectorAll('#answer .cycle').length > 3")
        self.browser.open("about:blank")
        deadline = time.monotonic() + 10
        while self.services.metrics()['bastion_requests_running{model_name="target"}'] > 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        ended = [name for name in self.services.metrics() if name.startswith("bastion_requests_total")]
        self.assertTrue(any("CANCELLED" in name for name in ended), ended)

    def test_a_restart_is_noticed_and_its_cycles_replace_the_old_ones(self):
        self.ask(PROMPT, 100)
        self.services.processes["orchestrator"].kill()
        self.browser.wait("document.getElementById('status').dataset.state === 'lost'")
        self.browser.run("dispatchEvent(new Event('resize'));")
        self.assertIn("does not answer", self.browser.text("#status"))
        self.restart()
        self.browser.wait("document.getElementById('status').dataset.state === 'live'", seconds=60)
        self.assertRegex(self.ask(PROMPT, 20, "ar"), "^20 tokens")
        # 20 cycles of plain decoding, and one for the prompt.
        self.browser.wait("document.querySelectorAll('#bars .hit').length === 21")

    def test_screenshots_with_text(self):
        self.restart("--show_text")
        self.browser.wait("document.getElementById('status').dataset.state === 'live'", seconds=60)
        load = self.start_load()
        self.browser.wait("document.querySelectorAll('#requests .graph text.on').length > 0")
        self.browser.wait("document.querySelectorAll('#bars .hit').length === 120")
        time.sleep(15)  # A minute's charts with something to see.
        self.ask(PROMPT, 96)
        self.browser.run("document.getElementById('answer').scrollTop = 0;")
        for name, is_dark in (("console", False), ("console-dark", True)):
            self.browser.set_dark(is_dark)
            file = pathlib.Path(ARGUMENTS.out, f"{name}.png")
            self.browser.screenshot(file)
            self.assertGreater(file.stat().st_size, 50000)
        load.stop()


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    unittest.main(verbosity=2)
