#!/usr/bin/env python3
"""Simulates 1 to 1,000 replicas behind a router: throughput, time to first token, and cost.

For each number of replicas and each router, it finds the highest rate of requests at which the 95th percentile
of the time to first token stays below a target. It prints and draws what the replicas then produce.

A replica is what one orchestrator, drafter and verifier serve. Its speed comes from a measured curve: tokens
per second by the number of live requests. Its forwards hold up to --prefill_rows prompt tokens beside the
requests that decode, as in the scheduler. It keeps the last --cached_sessions prompts, and computes only the
new part of a prompt that it has.

The router is one of: random; least (the replica with the fewest requests); affine (the replica that a hash
of the session names, or the one with the fewest requests if that replica is more than --spill requests
longer than the mean).

The simulation leaves out the network, failures and the router's own time. It prints how many messages per
second the router passes on.
"""

import argparse
import bisect
import collections
import dataclasses
import json
import random
import sys
import zlib
from pathlib import Path

import numpy as np

ROUTERS = ("random", "least", "affine")
# Tokens per second of the demo pair through the services with policy default (docs/measurements-load.md).
DEMO_CURVE = {1: 1724, 2: 2068, 4: 2590, 8: 2742, 16: 2738, 32: 2765}


@dataclasses.dataclass
class Workload:
    prefix_tokens: int  # What the requests of a session have in common.
    new_tokens: int  # What each prompt has beyond the prefix.
    output_tokens: int
    sessions_per_replica: int


@dataclasses.dataclass
class Replica:
    curve: dict  # Tokens per second by live requests.
    prefill_rate: float  # Prompt tokens per second.
    prefill_rows: int  # Prompt tokens of a forward.
    tokens_per_cycle: float
    max_running: int
    cached_sessions: int

    def rate(self, live):
        """Tokens per second with `live` requests, interpolated between the measured ones."""
        known = sorted(self.curve)
        at = bisect.bisect_left(known, live)
        if at == 0:
            return self.curve[known[0]] * live / known[0]
        if at == len(known):
            return self.curve[known[-1]]
        low, high = known[at - 1], known[at]
        share = (live - low) / (high - low)
        return self.curve[low] + share * (self.curve[high] - self.curve[low])

    def requests_per_second(self, workload):
        """The largest rate of requests whose prefixes are all cached."""
        seconds = workload.output_tokens / self.rate(self.max_running) + workload.new_tokens / self.prefill_rate
        return 1 / seconds


class Router:
    """Chooses the replica of a request. `load` is the number of requests of each replica."""

    def __init__(self, kind, replicas, spill, rng):
        self.kind, self.replicas, self.spill, self.rng = kind, replicas, spill, rng

    def choose(self, session, load):
        if self.kind == "random":
            return self.rng.randrange(self.replicas)
        if self.kind == "affine":
            home = zlib.crc32(str(session).encode()) % self.replicas
            if load[home] <= load.mean() + self.spill:
                return home
        return int(load.argmin())


class Simulation:
    """Steps of fixed length over all replicas at once. Arrays are [replicas] or [replicas, slots]."""

    def __init__(self, replica, workload, router, step):
        self.replica, self.workload, self.router, self.step = replica, workload, router, step
        shape = (router.replicas, replica.max_running)
        self.prefill = np.zeros(shape)  # Prompt tokens to compute.
        self.decode = np.zeros(shape)  # Output tokens to go. 0: the slot is free.
        self.arrived = np.zeros(shape)
        self.queues: list[collections.deque] = [collections.deque() for _ in range(router.replicas)]
        self.caches: list[collections.OrderedDict] = [collections.OrderedDict() for _ in range(router.replicas)]
        self.load = np.zeros(router.replicas)
        rates = [1.0] + [replica.rate(live) for live in range(1, replica.max_running + 1)]
        self.rates = np.array(rates)
        self.first_tokens, self.tokens, self.hits, self.requests = [], 0.0, 0, 0
        self.measures = False

    def prompt_tokens(self, at, session):
        """Prompt tokens to compute. The session becomes the newest of the cache."""
        cache = self.caches[at]
        hit = session in cache
        cache[session] = True
        cache.move_to_end(session)
        if len(cache) > self.replica.cached_sessions:
            cache.popitem(last=False)
        if self.measures:
            self.hits += hit
            self.requests += 1
        return self.workload.new_tokens + (0 if hit else self.workload.prefix_tokens)

    def arrive(self, now, session):
        at = self.router.choose(session, self.load)
        self.load[at] += 1
        self.queues[at].append((now, session))

    def admit(self):
        for at in np.flatnonzero(self.load > (self.decode > 0).sum(axis=1)):
            queue = self.queues[at]
            for slot in np.flatnonzero(self.decode[at] == 0):
                if not queue:
                    break
                self.arrived[at, slot], session = queue.popleft()
                self.prefill[at, slot] = self.prompt_tokens(at, session)
                self.decode[at, slot] = self.workload.output_tokens

    def advance(self, now):
        replica = self.replica
        prefilling = self.prefill > 0
        decoding = (self.decode > 0) & ~prefilling
        live = decoding.sum(axis=1)
        # The time of a forward: its prompt tokens, and a cycle of all requests that decode.
        rows = np.minimum(self.prefill.sum(axis=1), replica.prefill_rows)
        forward = rows / replica.prefill_rate + replica.tokens_per_cycle * live / self.rates[live]
        forwards = np.divide(self.step, forward, out=np.zeros_like(forward), where=forward > 0)
        # Prompts in the order of their length.
        budget = forwards * rows
        order = np.argsort(np.where(prefilling, self.prefill, np.inf), axis=1)
        for rank in range(int(prefilling.sum(axis=1).max(initial=0))):
            slots = order[:, rank]
            index = np.arange(len(slots))
            spent = np.minimum(budget, self.prefill[index, slots])
            self.prefill[index, slots] -= spent
            budget -= spent
        self.prefill[self.prefill < 1e-9] = 0
        if self.measures:
            begun = prefilling & (self.prefill == 0)
            self.first_tokens.extend(now + self.step - self.arrived[begun])
        progress = np.minimum(self.decode, (forwards * replica.tokens_per_cycle)[:, None]) * decoding
        self.decode -= progress
        self.decode[self.decode < 1e-9] = 0
        self.load -= (decoding & (self.decode == 0)).sum(axis=1)
        if self.measures:
            self.tokens += progress.sum()


def simulate(setup, kind, replicas, load, options):
    """The figures of a replica and a workload (`setup`). `load` is the arrivals, as a share of what replicas
    with warm caches can serve."""
    replica, workload = setup
    rng = random.Random(options.seed)
    router = Router(kind, replicas, options.spill, rng)
    run = Simulation(replica, workload, router, options.step)
    rate = load * replicas * replica.requests_per_second(workload)
    sessions = workload.sessions_per_replica * replicas
    next_arrival = rng.expovariate(rate)
    for i in range(int((options.warmup + options.seconds) / options.step)):
        now = i * options.step
        run.measures = now >= options.warmup
        while next_arrival < now + options.step:
            run.arrive(next_arrival, rng.randrange(sessions))
            next_arrival += rng.expovariate(rate)
        run.admit()
        run.advance(now)
    tokens_per_second = run.tokens / options.seconds
    p50, p95 = np.percentile(run.first_tokens, (50, 95)) if run.first_tokens else (np.nan, np.nan)
    return {
        "replicas": replicas,
        "router": kind,
        "requests_per_second": rate / replicas,
        "tokens_per_second": tokens_per_second,
        "first_token_p50": p50,
        "first_token_p95": p95,
        "hits": run.hits / max(run.requests, 1),
        "waiting": sum(len(queue) for queue in run.queues),
        "messages_per_second": tokens_per_second / options.tokens_per_message,
        "cost": options.price / 3600 * replicas / tokens_per_second * 1e6,
    }


def at_target(setup, kind, replicas, options):
    """The figures at the highest load that keeps the target, found by bisection."""
    low, high, best = 0.0, 1.0, None
    for _ in range(options.bisections):
        load = (low + high) / 2
        figures = simulate(setup, kind, replicas, load, options)
        if figures["first_token_p95"] <= options.target and figures["waiting"] <= replicas:
            low, best = load, figures
        else:
            high = load
    return best


def print_table(figures):
    print(
        f"{'replicas':>8} {'router':>7} {'requests/s each':>16} {'tokens/s each':>14} {'first token p50, p95 (s)':>25} "
        f"{'cached':>7} {'cost of 10^6 tokens':>20} {'messages/s':>11}"
    )
    for one in figures:
        first = f"{one['first_token_p50']:.3f}, {one['first_token_p95']:.3f}"
        print(
            f"{one['replicas']:8} {one['router']:>7} {one['requests_per_second']:16.1f} "
            f"{one['tokens_per_second'] / one['replicas']:14.0f} {first:>25} {one['hits']:7.0%} "
            f"{one['cost']:20.3f} {one['messages_per_second']:11.0f}"
        )


def draw(figures, path):
    from chart_style import COLORS, INK, pyplot

    plots = [
        ("tokens per second and replica", lambda one: one["tokens_per_second"] / one["replicas"]),
        ("time to first token, median, s", lambda one: one["first_token_p50"]),
        ("cost of 10⁶ tokens", lambda one: one["cost"]),
    ]
    figure, panels = pyplot().subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axes, (label, value) in zip(panels, plots):
        for index, kind in enumerate(ROUTERS):
            points = [(one["replicas"], value(one)) for one in figures if one["router"] == kind]
            axes.plot(*zip(*points), marker="osD"[index], linestyle=("-", "--", "-.")[index], color=COLORS[index], label=kind)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("replicas")
        axes.set_title(label, fontsize=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(title="router", fontsize=8)
    figure.savefig(path, dpi=110, facecolor="white")


def curve_of(path, policy):
    """Tokens per second by live requests, from a results.json of bastion-bench with --concurrency."""
    with open(path, encoding="utf-8") as file:
        levels = json.load(file)["levels"]
    curve = {
        level["concurrency"]: arm["system_tokens_per_second"]
        for level in levels
        for arm in level["arms"]
        if arm["policy"] == policy
    }
    if not curve:
        sys.exit(f"scaling: {path} has no arm {policy}: pass --policies ar,{policy} to bastion-bench")
    return curve


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results", help="results.json of bastion-bench --concurrency 1,2,4,… (default: the demo pair's curve)"
    )
    parser.add_argument("--policy", default="default", help="the arm of --results")
    parser.add_argument("--replicas", default="1,3,10,30,100,300,1000")
    parser.add_argument("--target", type=float, default=0.25, help="time to first token, p95, in seconds")
    parser.add_argument("--bisections", type=int, default=6)
    parser.add_argument("--prefill_rate", type=float, default=3000, help="prompt tokens per second of a replica")
    parser.add_argument("--prefill_rows", type=int, default=256)
    parser.add_argument("--tokens_per_cycle", type=float, default=1.5)
    parser.add_argument("--max_running", type=int, default=16)
    parser.add_argument("--cached_sessions", type=int, default=40)
    parser.add_argument("--sessions", type=int, default=30, help="sessions per replica")
    parser.add_argument("--prefix_tokens", type=int, default=300)
    parser.add_argument("--new_tokens", type=int, default=60)
    parser.add_argument("--output_tokens", type=int, default=128)
    parser.add_argument("--spill", type=float, default=6, help="requests above the mean at which affine spills")
    parser.add_argument("--tokens_per_message", type=float, default=2)
    parser.add_argument("--price", type=float, default=0.10, help="of a replica and hour, in any currency")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warmup", type=float, default=20)
    parser.add_argument("--step", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file for the picture")
    return parser.parse_args(arguments)


def main():
    options = parse()
    curve = curve_of(options.results, options.policy) if options.results else DEMO_CURVE
    replica = Replica(
        curve,
        options.prefill_rate,
        options.prefill_rows,
        options.tokens_per_cycle,
        options.max_running,
        options.cached_sessions,
    )
    workload = Workload(options.prefix_tokens, options.new_tokens, options.output_tokens, options.sessions)
    figures = []
    for replicas in map(int, options.replicas.split(",")):
        for kind in ROUTERS:
            best = at_target((replica, workload), kind, replicas, options)
            print(f"{replicas} replicas, {kind}: {'done' if best else 'cannot keep the target'}", flush=True)
            figures += [best] if best else []
    print_table(figures)
    if options.out:
        draw(figures, options.out)


if __name__ == "__main__":
    main()
