#!/usr/bin/env python3
"""Runs deploy/local/demo.sh as a new user does: with the chat model, without its download, and with --serve.

watches: deploy/local deploy/chat_model
takes: 5 minutes
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from command_line import parse_arguments
from demo_services import ROOT, free_port

DEMO = ROOT / "deploy/local/demo.sh"
MODEL = ROOT / "build/chat_model"
QUESTION = "What is the capital of France?"


def demo(*arguments, **environment):
    ran = subprocess.run([DEMO, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if ran.returncode != 0:
        raise AssertionError(f"demo.sh failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


@contextlib.contextmanager
def without_model():
    """Hides the downloaded model, and gives pip no network."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        if MODEL.exists():
            shutil.move(MODEL, folder)
        try:
            yield {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "0"}
        finally:
            shutil.rmtree(MODEL, ignore_errors=True)
            if pathlib.Path(folder, MODEL.name).exists():
                shutil.move(pathlib.Path(folder, MODEL.name), MODEL)


class DemoTest(unittest.TestCase):
    def test_the_chat_model_answers_and_is_faster_with_drafts(self):
        began = time.monotonic()
        printed = demo()
        print(printed[printed.index("== starting") :])
        print(f"{time.monotonic() - began:.0f} s")
        self.assertIn(f"== asking: {QUESTION}\nThe capital of France is Paris.", printed)
        self.assertIn("== what to try next", printed)

    def test_without_the_download_the_tiny_pair_answers(self):
        with without_model() as environment:
            printed = demo(**environment)
        self.assertIn("going on with the tiny pair", printed)
        self.assertIn("== comparing plain", printed)

    def test_serve_answers_an_openai_client_until_it_is_ended(self):
        port = free_port()
        process = subprocess.Popen([DEMO, "--serve", "--http-listen", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                if "serving until" in line:
                    break
            body = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "temperature": 0})
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/chat/completions", body.encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request) as response:
                self.assertIn("Paris", json.load(response)["choices"][0]["message"]["content"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    parse_arguments()
    unittest.main(verbosity=2)
