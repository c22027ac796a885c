#!/usr/bin/env python3
"""Asks 1,000 random requests of OpenAI's API (random_requests.py), each under ten policies, streamed and not,
eight at a time. All answers to a request must be equal: texts, reasoning, tool calls, finish reasons,
log-probabilities and usage.

takes: 20 minutes

--seed repeats a run, --only repeats some of its requests.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from demo_services import MODELS, DemoServices, total
from openai_answers import BrokenAnswer, ask
from random_requests import CHAT_TEMPLATE, CHATS, Generator

COUNT = 1000
CONCURRENCY = 8
POLICIES = (
    "chain+coupled",
    "linear:4+prior:request",
    "assisted",
    "dynatree+prior:table",
    "beam:3x4+coupled+prior",
    "eagle:4,5,24",
    "specblock:m=3,n=24",
    "fixed:16",
    "bastion:ema,alpha=0.2,n=64+coupled",
    "ngram:8",
    "default",
)
SHOWN_FAILURES = 10
ATTEMPTS = 100  # For a server that tells a client to wait.
# At least these shares of all requests are answered, and of their answers have text or calls.
LEAST_ANSWERED = 0.8
LEAST_FILLED = 0.8
# What a full run must have seen.
SEEN = (
    "stop",
    "length",
    "tool_calls",
    "stop string",
    "special token as stop string",
    "stop token",
    "reasoning",
    "content before a call",
    "several answers",
    "log-probabilities",
)


def models_with_template(folder):
    """Links to the demo models, and a chat template with tools and think tags."""
    shutil.copytree(MODELS / "target", folder / "target", copy_function=os.symlink)
    (folder / "target" / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "drafter").symlink_to(MODELS / "drafter")
    return folder


def patient(port, path, body):
    """The answer, when the server has room for it."""
    for _ in range(ATTEMPTS):
        answer = ask(port, path, body)
        if answer["status"] not in (429, 503):
            return answer
        time.sleep(1)
    raise BrokenAnswer(f"the server has no room: {answer}")


def with_policy(body, policy, stream):
    """The body of a request under a policy."""
    return {**body, "stream": stream, "speculation": {**(body.get("speculation") or {}), "policy": policy}}


class Run:
    """Asks the requests, and counts what their answers have."""

    def __init__(self, port, seed):
        self.port = port
        self.seed = seed
        self.statuses = collections.Counter()
        self.seen = collections.Counter()
        self.refused = collections.Counter()
        self.choices = self.filled = 0
        self.failures = []

    def answers(self, number):
        """The request, its answer without speculation, and those that differ: [(body, answer)]."""
        path, body = Generator(f"{self.seed}/{number}").request()
        asked = [with_policy(body, "ar", False)]
        asked += [with_policy(body, policy, (number + i) % 2 == 0) for i, policy in enumerate(POLICIES)]
        different, expected = [], None
        for request in asked:
            try:
                answer = patient(self.port, path, request)
            except (BrokenAnswer, OSError, ValueError, KeyError) as error:
                answer = {"status": repr(error)}
            expected = expected or answer
            if answer != expected or not isinstance(answer["status"], int):
                different.append((request, answer))
        return number, path, body, expected, different

    def count(self, path, body, answer):
        self.statuses[answer["status"]] += 1
        if "error" in answer:
            self.refused[answer["error"]["message"]] += 1
        for choice in answer.get("choices", []):
            calls = choice.get("calls", [])
            self.choices += 1
            self.filled += bool(choice["text"] or calls or choice.get("reasoning"))
            is_special = str(choice["stop"]).startswith("<|")
            self.seen.update(
                name
                for name, is_there in (
                    (choice["finish"], True),
                    ("special token as stop string", is_special),
                    ("stop string", isinstance(choice["stop"], str) and not is_special),
                    ("stop token", isinstance(choice["stop"], int)),
                    ("reasoning", choice.get("reasoning")),
                    ("content before a call", calls and choice["text"]),
                    ("several answers", path == CHATS and body.get("n", 1) > 1),
                    ("log-probabilities", choice["logprobs"]),
                )
                if is_there
            )

    def show(self, number, path, expected, different):
        self.failures.append(number)
        if len(self.failures) > SHOWN_FAILURES:
            return
        print(f"request {number} (--seed {self.seed} --only {number}), POST {path}")
        print(f"  without speculation: {json.dumps(expected, ensure_ascii=False)}")
        for request, answer in different:
            print(f"  {json.dumps(request)}\n  -> {json.dumps(answer, ensure_ascii=False)}", flush=True)

    def __call__(self, numbers):
        with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as pool:
            for done, (number, path, body, expected, different) in enumerate(pool.map(self.answers, numbers), 1):
                self.count(path, body, expected)
                if different:
                    self.show(number, path, expected, different)
                if done % 100 == 0:
                    print(f"{done} requests, {len(self.failures)} with differences", flush=True)

    def problems(self, is_full):
        """Why this run proves nothing, or failed."""
        asked, answered = sum(self.statuses.values()), self.statuses[200]
        if self.failures:
            yield f"{len(self.failures)} requests have different answers: {self.failures}"
        if answered < LEAST_ANSWERED * asked:
            yield f"only {answered} of {asked} requests are answered"
        if self.filled < LEAST_FILLED * self.choices:
            yield f"only {self.filled} of {self.choices} answers have text"
        for status in self.statuses.keys() - {200, 400, 404}:
            yield f"{self.statuses[status]} requests: {status}"
        for name in SEEN if is_full else ():
            if not self.seen[name]:
                yield f"no answer with: {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--out", help="not used: this test writes no files")
    parser.add_argument("--seed", type=int, default=1, help="of the requests (default: 1)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"requests (default: {COUNT})")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these requests")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with DemoServices(arguments.bin, models=models_with_template(pathlib.Path(folder))) as services:
            run = Run(services.http["orchestrator"], arguments.seed)
            run(arguments.only or range(arguments.count))
            accepted = total(services.metrics(), "bastion_spec_accepted_tokens_total")
            problems = list(run.problems(is_full=not arguments.only and arguments.count >= COUNT))
            problems += [
                f"{name} has ended:\n{services.log(name)[-2000:]}"
                for name, process in services.processes.items()
                if process.poll() is not None
            ]
    print(f"statuses: {dict(run.statuses)}; {run.filled} of {run.choices} answers have text")
    for message, count in run.refused.most_common():
        print(f"{count:5} refused: {message}")
    print(f"seen: {dict(run.seen)}; {accepted:.0f} accepted tokens")
    if not accepted:
        problems.append("no draft token was accepted")
    if problems:
        sys.exit("; ".join(problems))


if __name__ == "__main__":
    main()
