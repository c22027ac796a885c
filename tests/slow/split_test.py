#!/usr/bin/env python3
"""Runs the services on three hosts with mutual TLS, over a slow and lossy network, and cuts it.

watches: common/host common/wire common/stages orchestrator/remote orchestrator/schedule orchestrator/cycle drafter_service/serve drafter_service/features verifier_service/serve verifier_service/features protos tests/slow/split_test.py tests/slow/lossy_network.py tests/slow/demo_services.py tests/slow/certificates.py

takes: 5 minutes

The hosts are network namespaces of this machine. A packet takes 20 ms each way, and 1 percent is lost. The
texts must equal those of the services on one host. Needs root.
"""

import contextlib
import json
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import certificates
from command_line import parse_arguments
from demo_services import PROMPTS, DemoServices
from lossy_network import LossyNetwork

ARGUMENTS = None
HOSTS = ("orchestrator", "verifier", "drafter")
DELAY, LOSS = 0.020, 0.01
CUT_SECONDS = 10
SOON = 5  # Seconds until the health must have followed a change of the network.
DRAFTS_RETURN = 15  # Seconds, for drafts.
ANSWERS = 4
TOKENS = 800  # The length of an answer that runs when the network is cut.
ENDPOINT_LIMIT = 120  # Seconds.


class SplitServices(DemoServices):
    """Every service is on a host of its own. Clients reach the orchestrator over its unix socket."""

    def __init__(self, binaries, network, folder, orchestrator_flags=()):
        super().__init__(binaries, orchestrator_flags=orchestrator_flags)
        self.network, self.certificates = network, folder

    def address(self, name):
        if name == "orchestrator":
            return super().address(name)
        return f"{self.network.address(name)}:7070"

    def prefix(self, name):
        return self.network.prefix(name)

    def memory_flags(self):
        return ()

    def flags(self, name):
        return (*super().flags(name), *certificates.flags(self.certificates, is_server=name != "orchestrator"))


class Answer:
    """An answer that a client process streams."""

    def __init__(self, services, prompt, tokens, seed, policy=""):
        sampling = ("--temperature", "0.8", "--seed", str(seed)) if seed else ()
        self.process = subprocess.Popen(
            [
                services.binaries / "bastionctl",
                "generate",
                "--endpoint",
                services.endpoint,
                "--prompt",
                prompt,
                "--max_new_tokens",
                str(tokens),
                "--policy",
                policy,
                *sampling,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self):
        """The text and the statistics. An error if the request failed."""
        text, errors = self.process.communicate(timeout=ENDPOINT_LIMIT)
        if self.process.returncode != 0:
            raise RuntimeError(errors)
        return text, errors


def start_answers(services):
    prompts = [json.loads(line)["text"][:600] for line in PROMPTS.read_text().splitlines()[:ANSWERS]]
    # Every second one is sampled.
    return [Answer(services, prompt, TOKENS, seed=i % 2 * (i + 1)) for i, prompt in enumerate(prompts)]


def is_serving(services):
    return services.ctl("health").returncode == 0


def has_drafts(services):
    """True if a cycle of a new answer yields more than a token."""
    _, statistics = Answer(services, "import os\nimport sys\n", 24, seed=0, policy="fixed:8").wait()
    return float(re.search("τ ([0-9.]+) over", statistics)[1]) > 1


def speeds(services, folder):
    """Tokens per second by policy, one request at a time."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(PROMPTS.read_text().splitlines(keepends=True)[:6]))
    subprocess.run(
        services.bench_command(
            "--policies",
            "ar,default",
            "--max_new_tokens",
            "64",
            "--ignore_eos",
            "--prompts",
            str(prompts),
            "--report",
            str(folder),
        ),
        check=True,
        capture_output=True,
    )
    with open(folder / "results.json", encoding="utf-8") as file:
        return {policy["policy"]: policy["tokens_per_second"] for policy in json.load(file)["policies"]}


class SplitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder, DemoServices(ARGUMENTS.bin) as services:
            cls.texts = [answer.wait()[0] for answer in start_answers(services)]
            cls.speeds = speeds(services, pathlib.Path(folder))

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bastion-split.")))
        self.network = stack.enter_context(LossyNetwork(HOSTS, DELAY, LOSS))
        self.stack = stack

    def start(self, *flags):
        certificates.make(self.folder, ",".join(f"IP:{self.network.address(host)}" for host in HOSTS))
        return self.stack.enter_context(SplitServices(ARGUMENTS.bin, self.network, self.folder, ("--profile_limit=2s", *flags)))

    def check_texts(self, answers):
        for answer, text in zip(answers, self.texts, strict=True):
            self.assertEqual(answer.wait()[0], text)

    def wait_for(self, what, condition, seconds=SOON):
        began = time.monotonic()
        while not condition():
            self.assertLess(time.monotonic() - began, seconds, f"not yet: {what}")
            time.sleep(0.1)
        print(f"{what} after {time.monotonic() - began:.1f} s", flush=True)

    def test_texts_are_those_of_one_host(self):
        services = self.start()
        self.check_texts(start_answers(services))
        print(f"{'policy':10} {'one host':>10} {'three hosts':>12}  tokens/s, one request at a time")
        for policy, speed in speeds(services, self.folder).items():
            print(f"{policy:10} {self.speeds[policy]:10.1f} {speed:12.1f}", flush=True)

    def check_drafter_is_not_needed(self, *pair):
        """Cuts two hosts off from each other, one with the drafter: no request fails, and no text changes."""
        services = self.start()
        answers = start_answers(services)
        time.sleep(2)
        with self.network.cut(*pair):
            cut_ends = time.monotonic() + CUT_SECONDS
            while time.monotonic() < cut_ends:
                self.assertTrue(is_serving(services))
                self.assertTrue(Answer(services, "a", 4, seed=0).wait()[0])
        self.wait_for("drafts", lambda: has_drafts(services), DRAFTS_RETURN)
        self.check_texts(answers)

    def test_the_orchestrator_loses_the_drafter(self):
        self.check_drafter_is_not_needed("orchestrator", "drafter")

    def test_the_drafter_loses_the_verifier(self):
        self.check_drafter_is_not_needed("drafter", "verifier")

    def test_the_orchestrator_loses_the_verifier(self):
        services = self.start()
        answers = start_answers(services)
        time.sleep(2)
        with self.network.cut("orchestrator", "verifier"):
            cut_ends = time.monotonic() + CUT_SECONDS
            self.wait_for("not serving", lambda: not is_serving(services))
            with self.assertRaisesRegex(RuntimeError, "UNAVAILABLE"):
                Answer(services, "a", 4, seed=0).wait()
            time.sleep(max(0, cut_ends - time.monotonic()))
            self.assertFalse(is_serving(services))
        self.wait_for("serving", lambda: is_serving(services))
        self.wait_for("drafts", lambda: has_drafts(services), DRAFTS_RETURN)
        self.check_texts(answers)

    def test_the_orchestrator_loses_the_verifier_for_longer_than_its_patience(self):
        services = self.start("--verifier_patience=3s")
        answers = start_answers(services)
        time.sleep(2)
        with self.network.cut("orchestrator", "verifier"):
            time.sleep(CUT_SECONDS)
        for answer in answers:
            with self.assertRaisesRegex(RuntimeError, "UNAVAILABLE"):
                answer.wait()
        self.wait_for("serving", lambda: is_serving(services))
        self.wait_for("drafts", lambda: has_drafts(services), DRAFTS_RETURN)
        self.check_texts(start_answers(services))


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    unittest.main(verbosity=2)
