#!/usr/bin/env python3
"""Runs the services at full load for a long time and checks that nothing grows and nothing slows down.

Two runs of an hour. The second one ends the drafter or the verifier with kill -9 once a minute, in turns,
and starts it again two seconds later. Every second, the resources of the services are sampled. The
report has a picture of them. The exit status is 1 if a limit is exceeded.

takes: 120 minutes
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import matplotlib

from demo_services import DemoServices

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

CONCURRENCY = 8
# The share of the run in which memory may grow, while caches and statistics fill.
SETTLED_SHARE = 1 / 3
MEMORY_LIMIT = 1.02
P50_LIMIT, P99_LIMIT = 1.05, 1.30
RESTART_PAUSE_SECONDS = 2

Sample = collections.namedtuple("Sample", "seconds service megabytes threads descriptors")
Minute = collections.namedtuple("Minute", "minute tokens_per_second p50_ms p99_ms")


def sample(seconds, service, pid):
    """Returns None if the process has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        return Sample(
            seconds, service, int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))
        )
    except (OSError, KeyError):
        return None


class Sampler(threading.Thread):
    """Samples the resources of the services once a second."""

    def __init__(self, services):
        super().__init__()
        self.services = services
        self.samples = []
        self.ended = threading.Event()
        self.start_time = time.monotonic()

    def run(self):
        while not self.ended.wait(1):
            seconds = time.monotonic() - self.start_time
            for name, process in list(self.services.processes.items()):
                taken = sample(seconds, name, process.pid)
                if taken is not None:
                    self.samples.append(taken)


class Restarter:
    """Ends the drafter and the verifier in turns, and starts them again."""

    def __init__(self, services):
        self.services = services
        self.restarts = 0

    def restart_next(self):
        name = ("drafter", "verifier")[self.restarts % 2]
        process = self.services.processes[name]
        process.kill()
        process.wait()
        time.sleep(RESTART_PAUSE_SECONDS)
        self.services.start(name)
        self.restarts += 1


def measure_minute(services, minute, seconds, out):
    """Loads the services for some seconds. Returns the figures, or raises RuntimeError."""
    report = out / "bench"
    done = subprocess.run(
        services.bench_command(
            "--policies",
            "default",
            "--concurrency",
            str(CONCURRENCY),
            "--repeat",
            "10000",
            "--duration",
            str(seconds),
            "--max_new_tokens",
            "128",
            "--report",
            str(report),
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"minute {minute}: bastion-bench failed:\n{done.stdout}\n{done.stderr}")
    with open(report / "results.json", encoding="utf-8") as file:
        return figures_of(json.load(file), minute)


def figures_of(results, minute):
    [level] = results["levels"]
    [arm] = level["arms"]
    return Minute(minute, arm["system_tokens_per_second"], 1e3 * arm["gap_seconds"]["p50"], 1e3 * arm["gap_seconds"]["p99"])


def check(samples, minutes, length, restarts):
    """The exceeded limits, one text each, and a line per service about its resources."""
    exceeded, lines = [], []
    settled = SETTLED_SHARE * length
    for name in ("orchestrator", "drafter", "verifier"):
        if restarts and name != "orchestrator":
            continue  # A process lives for two minutes.
        own = [s for s in samples if s.service == name and s.seconds >= settled]
        tenth = max(1, len(own) // 10)
        # Medians of the first and the last tenth: single samples include temporary buffers.
        for what, limit in (("megabytes", MEMORY_LIMIT), ("threads", 1), ("descriptors", 1)):
            values = [getattr(s, what) for s in own]
            first = statistics.median(values[:tenth])
            last = statistics.median(values[-tenth:])
            lines.append(f"{name:13}{what:13}{first:10.1f}{last:10.1f}{last / first:8.3f}")
            if last > limit * first:
                exceeded.append(f"{name}: {what} grew from {first:.1f} to {last:.1f}")
    if not restarts:
        late = [m for m in minutes if m.minute * 60 >= settled]
        third = max(1, len(late) // 3)
        for what, limit in (("p50_ms", P50_LIMIT), ("p99_ms", P99_LIMIT)):
            first = statistics.median(getattr(m, what) for m in late[:third])
            last = statistics.median(getattr(m, what) for m in late[-third:])
            lines.append(f"{'gaps':13}{what:13}{first:10.2f}{last:10.2f}{last / first:8.3f}")
            if last > limit * first:
                exceeded.append(f"{what} of the gaps rose from {first:.2f} to {last:.2f}")
    return exceeded, lines


def draw(samples, minutes, path):
    _, axes = pyplot.subplots(4, 1, sharex=True, figsize=(9, 10), constrained_layout=True)
    for axis, what in zip(axes, ("megabytes", "threads", "descriptors")):
        for name in ("orchestrator", "drafter", "verifier"):
            own = [s for s in samples if s.service == name]
            axis.plot([s.seconds / 60 for s in own], [getattr(s, what) for s in own], label=name, linewidth=1)
        axis.set_ylabel(what)
        axis.set_ylim(bottom=0)
    axes[0].legend()
    axes[3].plot([m.minute + 0.5 for m in minutes], [m.p50_ms for m in minutes], label="p50")
    axes[3].plot([m.minute + 0.5 for m in minutes], [m.p99_ms for m in minutes], label="p99")
    axes[3].set_ylabel("gap between outputs, ms")
    axes[3].set_yscale("log")
    axes[3].set_xlabel("minutes")
    axes[3].legend()
    pyplot.savefig(path, dpi=100)


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0]._fields)
        writer.writerows(rows)


def soak(arguments, restarts):
    """One run. Writes the report to a folder, and returns whether all limits hold."""
    out = arguments.out / ("soak-restarts" if restarts else "soak")
    out.mkdir(parents=True, exist_ok=True)
    minutes = []
    with DemoServices(arguments.bin) as services:
        sampler = Sampler(services)
        sampler.start()
        restarter = Restarter(services)
        try:
            for minute in range(arguments.minutes):
                # In the middle of the minute: a new call is refused while there is no verifier.
                restart = threading.Timer(30, restarter.restart_next)
                if restarts:
                    restart.start()
                minutes.append(measure_minute(services, minute, 60, out))
                print(
                    f"minute {minute + 1} of {arguments.minutes}: "
                    f"{minutes[-1].tokens_per_second:.0f} tokens/s, "
                    f"gaps {minutes[-1].p50_ms:.2f} ms (p50), {minutes[-1].p99_ms:.1f} ms (p99)",
                    flush=True,
                )
        finally:
            restart.cancel()
            sampler.ended.set()
            sampler.join()
    write_csv(out / "samples.csv", sampler.samples)
    write_csv(out / "minutes.csv", minutes)
    draw(sampler.samples, minutes, out / "soak.png")
    exceeded, lines = check(sampler.samples, minutes, arguments.minutes * 60, restarts)
    print(f"{'service':13}{'figure':13}{'settled':>10}{'end':>10}{'ratio':>8}")
    print("\n".join(lines))
    print(f"report: {out}/soak.png, samples.csv, minutes.csv")
    for text in exceeded:
        print(f"exceeded: {text}", file=sys.stderr)
    return not exceeded


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the reports")
    parser.add_argument("--minutes", type=int, default=60, help="length of each run")
    parser.add_argument("--only", choices=("plain", "restarts"), help="one of the two runs")
    arguments = parser.parse_args()
    runs = [restarts for name, restarts in (("plain", False), ("restarts", True)) if arguments.only in (None, name)]
    if not all([soak(arguments, restarts) for restarts in runs]):
        sys.exit(1)


if __name__ == "__main__":
    main()
