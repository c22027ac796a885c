#!/usr/bin/env python3
"""Measures what mutual TLS between the services adds to a cycle.

takes: 10 minutes

Two systems run on TCP addresses of this host, one in clear text and one with mutual TLS. They take turns
with the same requests, one at a time. Their policy has trees of a fixed size, so their cycles are the same.
The exit status is 1 if TLS adds more than 5 percent to a cycle of a pair of 0.6 billion parameters (median of
the rounds). The demo pair, whose cycles take about a millisecond, is shown for comparison.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import certificates
from demo_services import MODELS, PROMPTS, ROOT, DemoServices, free_port

MOST_ADDED = 0.05
ROUNDS = 5
# A pair of models, how many prompts it gets, and the length of the answers.
Pair = collections.namedtuple("Pair", "name models prompts tokens")


class TcpServices(DemoServices):
    """The demo services, with TCP between them."""

    def __init__(self, binaries, models, certificates):
        self.ports = {name: free_port() for name in ("verifier", "drafter")}
        super().__init__(binaries, models=models)
        self.certificates = certificates  # Folder, or None for clear text.

    def address(self, name):
        return f"localhost:{self.ports[name]}" if name in self.ports else super().address(name)

    def flags(self, name):
        flags = super().flags(name)
        if self.certificates is None:
            return flags
        return (*flags, *certificates.flags(self.certificates, is_server=name in self.ports))


def cycle_seconds(services, prompts, tokens, folder):
    """The mean duration of a cycle, the host's work between cycles included."""
    report = folder / "report"
    command = services.bench_command(
        "--policies",
        "fixed:16",
        "--max_new_tokens",
        str(tokens),
        "--ignore_eos",
        "--report",
        str(report),
        "--prompts",
        str(prompts),
    )
    subprocess.run(command, check=True, capture_output=True)
    with open(report / "results.json", encoding="utf-8") as file:
        [policy] = json.load(file)["policies"]
    return policy["tau"] / policy["tokens_per_second"]


def measure(pair, binaries, folder):
    """Prints a line per round. Returns the median of the ratios."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(PROMPTS.read_text().splitlines(keepends=True)[: pair.prompts]))
    ratios = []
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(TcpServices(binaries, pair.models, None))
        secure = stack.enter_context(TcpServices(binaries, pair.models, folder))
        for services in (plain, secure):  # What the services learn first.
            cycle_seconds(services, prompts, pair.tokens, folder)
        for turn in range(ROUNDS):
            order = (plain, secure) if turn % 2 == 0 else (secure, plain)
            seconds = {services: cycle_seconds(services, prompts, pair.tokens, folder) for services in order}
            ratios.append(seconds[secure] / seconds[plain])
            print(
                f"{pair.name}, round {turn + 1}: clear text {1e3 * seconds[plain]:.2f} ms, "
                f"mutual TLS {1e3 * seconds[secure]:.2f} ms, ratio {ratios[-1]:.3f}",
                flush=True,
            )
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the inflated pair")
    arguments = parser.parse_args()
    inflated = arguments.out / "inflated"
    if not (inflated / "drafter").exists():
        subprocess.run(
            [
                sys.executable,
                ROOT / "deploy/measure/inflate.py",
                "--target",
                MODELS / "target",
                "--drafter",
                MODELS / "drafter",
                "--profile",
                "cpu-1b",
                "--out",
                inflated,
            ],
            check=True,
        )
    with tempfile.TemporaryDirectory(prefix="bastion-tls.") as name:
        folder = pathlib.Path(name)
        certificates.make(folder, "DNS:localhost")
        demo = measure(Pair("demo pair", MODELS, 16, 128), arguments.bin, folder)
        large = measure(Pair("inflated pair", inflated, 3, 48), arguments.bin, folder)
    print(f"TLS multiplies the duration of a cycle by {large:.3f} (inflated pair) and {demo:.3f} (demo pair)")
    if large > 1 + MOST_ADDED:
        print(f"TLS adds more than {100 * MOST_ADDED:.0f} % to a cycle of the inflated pair", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
