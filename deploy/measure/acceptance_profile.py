#!/usr/bin/env python3
"""Draws an acceptance profile that has the acceptance of a paper, for --replayed_profile.

usage: acceptance_profile.py --name NAME --source TEXT --positions P [--chain TAU]
                             [--tree TAU --nodes N] [--blocks B] --out FILE
       acceptance_profile.py --show FILE [--nodes N]

A block is what a drafter predicts after one root. At each position, the confidence p is drawn from a beta
distribution, the candidate of rank r has the probability p (1 - p)^r, and the rank of the target's token is drawn
from these probabilities: the drafter is calibrated. The mean of the confidence is fitted to the committed length of a
chain (--chain), and its spread to that of the best tree with N nodes (--tree). With only one of them, the spread is
that of the profile of DFlash. The lengths count the root's token, as tau does in the papers.
"""

import argparse
import heapq
import json
import pathlib
import sys

import numpy as np

CANDIDATES = 64  # The engine asks for at most this many.
ROUNDS = 30  # An interval of a parameter is halved this often.
SPREAD = 0.865  # The profile of DFlash has this spread.


def draw_blocks(mean, spread, positions, blocks, seed=1):
    """The confidences [B, P] and ranks [B, P], -1 where the token is not among the candidates.

    spread 0: every confidence is the mean. Near 1: most are near 0 or 1.
    """
    random = np.random.default_rng(seed)
    scale = (1 - spread) / spread
    # Both gamma draws have the same seeds for all parameters, so that lengths change smoothly.
    shape = (blocks, positions)
    uniform = random.random((2, *shape))
    top = quantiles(uniform[0], mean * scale, (1 - mean) * scale)
    top = np.clip(top, 1e-3, 1 - 1e-3)
    ranks = np.floor(np.log1p(-uniform[1]) / np.log1p(-top)).astype(int)
    ranks[ranks >= CANDIDATES] = -1
    return top, ranks


def quantiles(uniform, a, b):
    """The quantiles of a beta distribution, from the table of its cumulated density."""
    # A grid that is fine near both ends, where the density may be infinite.
    half = np.logspace(-9, np.log10(0.5), 4000)
    grid = np.concatenate([half, 1 - half[::-1][1:]])
    middle = (grid[1:] + grid[:-1]) / 2
    density = np.exp((a - 1) * np.log(middle) + (b - 1) * np.log1p(-middle)) * np.diff(grid)
    # What lies below the first point and above the last one.
    density = np.concatenate([[grid[0] ** a / a], density, [(1 - grid[-1]) ** b / b]])
    cumulated = np.cumsum(density)
    points = np.concatenate([[0.0], grid, [1.0]])
    return np.interp(uniform, np.concatenate([[0.0], cumulated]) / cumulated[-1], points)


def chain_length(ranks):
    """The mean committed length of chains of the first candidates."""
    return 1 + np.cumprod(ranks == 0, axis=1).sum(axis=1).mean()


def accepted_nodes(top, ranks, nodes):
    """The accepted nodes of one block's best tree: its `nodes` most probable paths."""
    first, step = np.log(top), np.log1p(-top)
    positions = len(top)
    depth = 0  # The accepted path ends here.
    # A path of the heap: its log-probability, its depth, the rank of its last node, and whether the nodes above that
    # node are the target's tokens.
    heap = [(-first[0], 1, 0, True)]
    for _ in range(nodes):
        if not heap:
            break
        score, length, rank, on_path = heapq.heappop(heap)
        is_true = on_path and rank == ranks[length - 1]
        depth = max(depth, length if is_true else 0)
        if rank + 1 < CANDIDATES:
            heapq.heappush(heap, (score - step[length - 1], length, rank + 1, on_path))
        if length < positions:
            heapq.heappush(heap, (score - first[length], length + 1, 0, is_true))
    return depth


def tree_length(top, ranks, nodes):
    return 1 + np.mean([accepted_nodes(t, r, nodes) for t, r in zip(top, ranks)])


def halve(low, high, is_too_high):
    """The point of [low, high] where is_too_high changes from false to true."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_too_high(middle) else (middle, high)
    return (low + high) / 2


def fit(options):
    def draw(mean, spread):
        return draw_blocks(mean, spread, options.positions, options.blocks)

    def with_mean(spread, length, wanted):
        return draw(halve(0.05, 0.995, lambda mean: length(*draw(mean, spread)) > wanted), spread)

    def chain(_, ranks):
        return chain_length(ranks)

    def tree(top, ranks):
        return tree_length(top, ranks, options.nodes)

    if options.chain is None:
        return with_mean(SPREAD, tree, options.tree)
    if options.tree is None:
        return with_mean(SPREAD, chain, options.chain)
    # The more the confidences differ, the fewer tokens a tree adds to a chain.
    spread = halve(0.02, 0.98, lambda spread: tree(*with_mean(spread, chain, options.chain)) < options.tree)
    print(f"spread {spread:.3f}")
    return with_mean(spread, chain, options.chain)


def describe(top, ranks, nodes):
    print(f"{len(top)} blocks of {top.shape[1]} positions; chain {chain_length(ranks):.3f}")
    for count in nodes:
        print(f"best tree of {count} nodes: {tree_length(top, ranks, count):.3f}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--name")
    parser.add_argument("--source", default="")
    parser.add_argument("--positions", type=int, default=15)
    parser.add_argument("--chain", type=float)
    parser.add_argument("--tree", type=float)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--show", type=pathlib.Path)
    options = parser.parse_args()
    if options.show:
        blocks = json.loads(options.show.read_text())["blocks"]
        top = np.array([block["top"] for block in blocks])
        describe(top, np.array([block["ranks"] for block in blocks]), [16, 64, options.nodes])
        return
    if not (options.name and options.out and (options.chain or options.tree)):
        sys.exit("acceptance_profile.py: give --name, --out, and --chain or --tree; or --show")
    top, ranks = fit(options)
    top = np.round(top, 3)
    describe(top, ranks, [16, 64, options.nodes])
    blocks = [{"top": t.tolist(), "ranks": r.tolist()} for t, r in zip(top, ranks)]
    options.out.write_text(json.dumps({"name": options.name, "source": options.source, "blocks": blocks}) + "\n")


if __name__ == "__main__":
    main()
