#!/usr/bin/env python3
"""Asks the services for answers under 2,000 generated constraints: JSON schemas, regular expressions and
grammars of all sizes up to the limits, a third of them hostile. Meanwhile, a bystander asks for plain answers.

takes: 15 minutes

Every constraint gets an answer or is refused. None ends a process, holds up a token of the bystander for more
than 250 ms, or delays the start of its answers by more than 1 s. The memory of the orchestrator grows by at
most 256 MB, and what the constraints took is free again at the end. --seed repeats a run.
"""

import argparse
import collections
import http.client
import json
import pathlib
import random
import sys
import threading
import time

from attacks_test import Bystander, Services

COUNT = 2000
CLIENTS = 6
MAX_TOKENS = 24
MOST_BYTES = 65000  # The largest constraint.
PATIENCE = 20  # Seconds after which a client leaves.
MOST_GAP = 0.25
MOST_WAIT = 1.0
MOST_GROWTH = 256 << 20
MOST_KEPT = 64 << 20
EXPECTED = {200: "answered", 400: "refused", 429: "told to wait"}


class Generator:
    """Makes constraints. The same seed makes the same ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, most):
        """Small numbers are as likely as large ones."""
        return self.random.randrange(1, 2 + int(most ** self.random.random()))

    def pick(self, *choices):
        return self.random.choice(choices)

    def constraint(self):
        kind = self.pick("json", "json", "regex", "grammar")
        hostile = self.random.random() < 1 / 3
        make = {
            "json": (self.schema, self.hostile_schema),
            "regex": (self.regex, self.hostile_regex),
            "grammar": (self.grammar, self.hostile_grammar),
        }[kind][hostile]
        value = make()
        text = value if isinstance(value, str) else json.dumps(value)
        return {kind: value} if len(text) <= MOST_BYTES else self.constraint()

    def schema(self, depth=4):
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf()
        inner = [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]
        names = [f"k{i}" for i in range(len(inner))]
        return self.pick(
            {"type": "object", "properties": dict(zip(names, inner)), "required": names[:1], "additionalProperties": False},
            {"type": "array", "items": inner[0], "maxItems": self.number(100)},
            {"anyOf": inner},
            {"allOf": inner[:2]},
        )

    def leaf(self):
        least = self.random.randrange(-(10 ** self.number(15)), 10 ** self.number(15))
        return self.pick(
            {"type": "integer", "minimum": least, "maximum": least + self.number(10**12)},
            {"type": "number", "minimum": least / 7, "exclusiveMaximum": least / 7 + self.number(10**9)},
            {"type": "integer", "multipleOf": self.number(12000)},
            {"type": "string", "maxLength": self.number(3000)},
            {"type": "string", "pattern": f"^{self.regex(2)}$"},
            {"type": "string", "format": self.pick("date-time", "uuid", "email", "ipv6", "uri")},
            {"enum": [self.number(10**6) for _ in range(self.number(300))]},
            {"const": "x" * self.number(2000)},
            {"type": "boolean"},
            {},
        )

    def hostile_schema(self):
        many = self.number(1500)
        number = {"type": "number", "minimum": -self.random.random() * 10 ** self.number(300)}
        return self.pick(
            {"type": "integer", "multipleOf": self.number(2**32)},
            {"allOf": [{"type": "integer", "multipleOf": self.number(200)} for _ in range(5)]},
            {"properties": {str(i): {"multipleOf": self.number(20)} for i in range(many)}},
            {"properties": {str(i): number for i in range(many)}, "minProperties": self.number(30)},
            {"type": "array", "minItems": self.number(5000), "maxItems": 5000, "items": self.leaf()},
            {"allOf": [{"anyOf": [self.leaf() for _ in range(8)]} for _ in range(self.number(12))]},
            {"oneOf": [self.schema(2) for _ in range(self.number(40))]},
            {
                "$ref": "#/$defs/0",
                "$defs": {str(i): {"anyOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(many)}
                | {str(many): {"type": "null"}},
            },
            {"type": "string", "pattern": f"^{self.hostile_regex()}$"},
            {"patternProperties": {f"^{self.regex(1)}$": self.leaf() for _ in range(self.number(60))}},
        )

    def regex(self, depth=4):
        if depth == 0:
            return self.pick("a", "[a-z]", r"\d", r"\w", ".", '[^"]', "foo", "é", r"\p{L}")
        one, other = self.regex(depth - 1), self.regex(depth - 1)
        low = self.number(20)
        return self.pick(one + other, f"({one}|{other})", f"({one})*", f"({one})?", f"({one}){{{low},{low + self.number(50)}}}")

    def hostile_regex(self):
        size = self.number(1000)
        words = "|".join(f"w{self.number(10**9)}" for _ in range(self.number(4000)))
        return self.pick(
            f"({words})",
            f"({words})*",
            f"(.*{self.regex(2)}){{{self.number(50)}}}",
            f"(a?){{{size}}}a{{{size}}}",
            f"[ab]*a[ab]{{{self.number(25)}}}",
            f"(.|{self.regex(3)})*x.{{{size}}}",
            f"((([a-z]{{1,{size}}}) ){{1,{size}}}\\.){{1,{size}}}",
            rf"(\w{{0,{size}}}\s?){{0,{size}}}",
            "|".join(f".*{i}.*" for i in range(self.number(300))),
        )

    def grammar(self):
        rules = [f"r{'abcdefghij'[i]}" for i in range(self.random.randrange(1, 10))]
        lines = [f"start: {rules[0]}"]
        for i, rule in enumerate(rules):
            items = [
                " ".join(self.pick(*rules[i + 1 :], '"x"', '"yz"', "/[a-f]+/", "T") for _ in range(self.random.randrange(1, 4)))
                for _ in range(self.random.randrange(1, 4))
            ]
            lines.append(f"{rule}: {' | '.join(items)}")
        return "\n".join([*lines, f"T: /{self.regex(2)}/"])

    def hostile_grammar(self):
        copies = " ".join(["s"] * self.random.randrange(2, 6))
        leaf = self.pick('"a"', "/[a-z ]/", "/.|a/", '"a" | "ab" | "b"')
        many = self.number(2000)
        return self.pick(
            f"start: s\ns: {copies} | s s | {leaf}",
            f"start: s\ns: s? {copies} | {leaf}",
            f"start: s*\ns: s* {leaf} s*",
            f"start: {'x? ' * self.number(3000)}\nx: {leaf}",
            "start: " + " | ".join(f'"{i}" start' for i in range(many)),
            "start: a\n"
            + "\n".join(f"{'a' * (i + 1)}: {'a' * (i + 2)} | {leaf}" for i in range(min(many, 150)))
            + f"\n{'a' * (min(many, 150) + 1)}: {leaf}",
            "start: "
            + " | ".join(f"T{i}" for i in range(many))
            + "\n"
            + "\n".join(f"T{i}: /[a-z]{{1,{i % 50 + 1}}}{i}/" for i in range(many)),
        )


def ask(port, number, constraint):
    """The status of the answer, or why there is none."""
    body = {
        "prompt": f"Text {number}: ",
        "max_tokens": MAX_TOKENS,
        "structured_outputs": constraint,
        "user": f"user {number % CLIENTS}",
        "temperature": number % 2,
        "seed": number,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status
    except TimeoutError:
        return "left"
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()


class Run:
    """All requests, by CLIENTS threads."""

    def __init__(self, services, generator, count):
        self.services = services
        self.generator = generator
        self.left = iter(range(count))
        self.lock = threading.Lock()
        self.statuses = collections.Counter()
        self.slowest = (0.0, None)
        self.peak = 0

    def client(self):
        while True:
            with self.lock:
                number = next(self.left, None)
                if number is None or not self.services.alive():
                    return
                constraint = self.generator.constraint()
            began = time.monotonic()
            status = ask(self.services.http["orchestrator"], number, constraint)
            spent = time.monotonic() - began
            with self.lock:
                self.statuses[status] += 1
                self.slowest = max(self.slowest, (spent, json.dumps(constraint)[:300]), key=lambda pair: pair[0])
                self.peak = max(self.peak, self.services.memory("VmRSS") if self.services.alive() else 0)

    def __call__(self):
        threads = [threading.Thread(target=self.client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--out", help="not used: this test writes no files")
    parser.add_argument("--seed", type=int, default=1, help="of the constraints (default: 1)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"constraints (default: {COUNT})")
    arguments = parser.parse_args()
    problems = []
    with Services(arguments.bin) as services:
        # The first constraint loads the vocabulary.
        ask(services.http["orchestrator"], 0, {"regex": "a"})
        before = services.memory("VmRSS")
        run = Run(services, Generator(arguments.seed), arguments.count)
        with Bystander(services.port) as bystander:
            undisturbed = bystander.watch(5)[0]
            gap, wait, failed = bystander.watch(0, run)
        if not services.alive():
            sys.exit(f"a process has ended:\n{services.log('orchestrator')[-2000:]}")
        peak = max(run.peak, services.memory("VmHWM")) - before
        time.sleep(2)
        kept = services.memory("VmRSS") - before
        for status, count in sorted(run.statuses.items(), key=str):
            print(f"{count:5} {EXPECTED.get(status, status)}")
        print(
            f"bystander: largest gap {1000 * gap:.0f} ms (undisturbed {1000 * undisturbed:.0f} ms), "
            f"longest wait {1000 * wait:.0f} ms, {failed} failed"
        )
        print(f"memory: at most {peak >> 20} MB more, {kept >> 20} MB kept")
        print(f"slowest: {run.slowest[0]:.1f} s, {run.slowest[1]}")
        problems += [f"{count} constraints: {status}" for status, count in run.statuses.items() if status not in EXPECTED]
        if gap > max(MOST_GAP, 2 * undisturbed):
            problems.append("an answer waited too long for a token")
        if wait > MOST_WAIT:
            problems.append("a request waited too long for its start")
        if failed:
            problems.append("requests of the bystander failed")
        if peak > MOST_GROWTH or kept > MOST_KEPT:
            problems.append("too much memory")
    if problems:
        sys.exit("; ".join(problems))


if __name__ == "__main__":
    main()
