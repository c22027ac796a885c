#!/usr/bin/env python3
"""The installed wheel, its examples and its documentation against the demo services.

usage: services_test.py FOLDER-OF-THE-PROGRAMS
"""

import asyncio
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

import bastion_client
from bastion_client import (
    AsyncClient,
    Client,
    ClientOptions,
    FinishReason,
    InvalidArgument,
    SamplingParams,
    SpeculationMode,
    SpeculationOptions,
    StopConditions,
    Unauthenticated,
)
from demo_services import MODELS, DemoServices, total

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "client/python/examples"
PROMPT = "def fibonacci(n):"
# An answer of thousands of rows, with a draft in every cycle.
LONG: dict[str, Any] = {
    "stop": StopConditions(max_tokens=1900, ignore_eos=True),
    "speculation": SpeculationOptions(policy="fixed:4"),
}
SECONDS = 2.0  # Until all services must have ended a canceled request.


def make_models(folder):
    """The demo models, whose target has a chat template."""
    (folder / "drafter").symlink_to(MODELS / "drafter")
    (folder / "target").mkdir()
    for file in (MODELS / "target").iterdir():
        (folder / "target" / file.name).symlink_to(file)
    config = folder / "target" / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    settings["chat_template"] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    config.unlink()
    config.write_text(json.dumps(settings))
    return folder


class ServicesTest(unittest.TestCase):
    services: DemoServices

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        token = folder / "token"
        token.write_text("a-token-of-this-test")
        access = folder / "access"
        access.touch(mode=0o600)
        access.write_text(f"tester token:{token.read_text()} generate,inspect\n")
        os.environ["BASTION_TOKEN_FILE"] = str(token)  # For bastionctl and for clients.
        cls.services = cls.enterClassContext(
            DemoServices(sys.argv[1], orchestrator_flags=["--access_file", access], models=make_models(folder))
        )

    def client(self, **options):
        client = Client(self.services.endpoint, ClientOptions.from_environment(**options))
        self.addCleanup(client.close)
        return client

    def text_of_bastionctl(self, *flags):
        done = self.services.ctl("generate", "--prompt", PROMPT, "--stats=false", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_example(self, name, text=""):
        return subprocess.run(
            [sys.executable, EXAMPLES / name, self.services.endpoint],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

    def test_this_is_the_installed_wheel(self):
        self.assertIn(sys.prefix, bastion_client.__file__)

    def test_both_clients_and_bastionctl_give_one_text(self):
        async def text_of_async_client(**arguments):
            async with AsyncClient(self.services.endpoint) as client:
                return await client.generate(PROMPT, **arguments).text()

        for flags, sampling in (((), None), (("--temperature", "0.8", "--seed", "5"), SamplingParams(temperature=0.8, seed=5))):
            arguments: dict[str, Any] = {"sampling": sampling, "stop": StopConditions(max_tokens=100)}
            answer = self.client().generate(PROMPT, **arguments)
            text = answer.text()
            self.assertEqual(text + "\n", self.text_of_bastionctl("--max-new-tokens", "100", *flags))
            self.assertEqual(text, asyncio.run(text_of_async_client(**arguments)))
            self.assertEqual(answer.finished.usage.completion_tokens, 100)
            self.assertIs(answer.finished.reason, FinishReason.LENGTH)
            self.assertGreater(answer.finished.timings.total, 0)

    def test_ten_lines_stream_an_answer(self):
        self.assertLessEqual(len((EXAMPLES / "stream.py").read_text().splitlines()), 10)
        done = self.run_example("stream.py")
        self.assertEqual(done.stdout + "\n", self.text_of_bastionctl("--max-new-tokens", "64"))
        self.assertIn("completion_tokens=64", done.stderr)

    def test_a_chat_continues(self):
        done = self.run_example("chat.py", "Hello\nGo on\n")
        conversation = bastion_client.ChatMessages([bastion_client.ChatMessage("user", "Hello")])
        first = self.client().generate(conversation, stop=StopConditions(max_tokens=64)).text()
        self.assertTrue(done.stdout.startswith(first + "\n"), done.stdout)
        self.assertGreater(len(done.stdout), len(first) + 2)

    def test_every_example_runs(self):
        done = self.run_example("time_limit.py")
        self.assertEqual(done.stderr, "\nThe time is over.\n")
        self.await_counts([0, 0, 0])
        names = {file.name for file in EXAMPLES.glob("*.py")}
        self.assertEqual(names, {"stream.py", "chat.py", "time_limit.py"})  # All tested here.

    def test_the_documentation_runs(self):
        for page in ("docs/python-client.md", "client/python/README.md"):
            blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
            self.assertTrue(blocks, page)
            code = "\n".join(blocks)
            self.assertIn("'127.0.0.1:7070'", code)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code.replace("127.0.0.1:7070", self.services.endpoint), page, "exec"), {"__name__": page})
            self.assertTrue(output.getvalue(), page)

    def metric(self, service, name):
        return total(self.services.metrics(service), f"bastion_{service}_{name}")

    def counts(self):
        """Requests and sequences that the three services have now."""
        return [
            self.client().server_info().running_requests,
            self.metric("verifier", "sequences"),
            self.metric("drafter", "sequences"),
        ]

    def await_counts(self, expected):
        end = time.monotonic() + SECONDS
        while (counts := self.counts()) != expected and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(counts, expected)

    def assert_canceled(self, cancel):
        """`cancel` begins and cancels a LONG answer."""
        self.await_counts([0, 0, 0])
        before = self.metric("verifier", "rows_total")
        cancel()
        self.await_counts([0, 0, 0])
        rows = self.metric("verifier", "rows_total") - before
        self.assertGreater(rows, 0)
        self.assertLess(rows, 1900)  # The whole answer needs a row per token, and more.

    def test_canceling_frees_the_sequence_in_all_services(self):
        def leave_the_loop():
            for _ in self.client().generate(PROMPT, **LONG):
                self.await_counts([1, 1, 1])
                break

        async def cancel():
            async with AsyncClient(self.services.endpoint) as client:
                answer = client.generate(PROMPT, **LONG)
                async for _ in answer:
                    break
                self.assertIsNone(answer.finished)

        self.assert_canceled(leave_the_loop)
        self.assert_canceled(lambda: asyncio.run(cancel()))

    def test_the_server_s_errors_name_field_and_request(self):
        with self.assertRaises(InvalidArgument) as caught:
            self.client().generate(PROMPT, sampling=SamplingParams(top_p=1.5)).text()
        self.assertEqual([v.field for v in caught.exception.field_violations], ["sampling.top_p"])
        self.assertTrue(caught.exception.request_id)
        self.assertIn("top_p", str(caught.exception))

    def test_a_call_without_the_token_is_refused(self):
        with Client(self.services.endpoint, ClientOptions()) as client:
            with self.assertRaises(Unauthenticated):
                client.generate(PROMPT).text()

    def test_speculation_may_be_turned_off(self):
        stop = StopConditions(max_tokens=50)
        plain = self.client().generate(PROMPT, stop=stop, speculation=SpeculationOptions(mode=SpeculationMode.OFF))
        fast = self.client().generate(PROMPT, stop=stop, speculation=SpeculationOptions(policy="fixed:4"))
        self.assertEqual(plain.text(), fast.text())
        self.assertEqual(plain.finished.speculation.draft_tokens, 0)
        self.assertGreater(fast.finished.speculation.draft_tokens, 0)

    def test_the_server_describes_itself(self):
        client = self.client()
        client.check_health()
        (model,) = client.list_models()
        self.assertTrue(model.has_chat_template)
        self.assertEqual(model.max_context, 2048)
        self.assertEqual(client.server_info().version, bastion_client.__version__)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
