#!/usr/bin/env python3
"""Draws training runs of bastion-train: loss and τ over time.

usage: training_plot.py [--out FOLDER] RUN…     RUN: an --out folder of bastion-train, or its training.jsonl

Writes FOLDER/training.png (default: the first RUN's folder). The left panel shows the loss, averaged over a
twentieth of the run, and the right one the τ that the judge measured, for each policy.
"""

import argparse
import json
from pathlib import Path

from chart_style import COLORS, pyplot, save

AVERAGED = 20  # A point of the loss is the mean of this fraction of the run.
MARKERS = "osD^vP"


def read_log(run: Path) -> tuple[list[dict], list[dict]]:
    """The entries with a loss, and those with τ. A resumed run has repeated some steps: the last entry counts."""
    path = run / "training.jsonl" if run.is_dir() else run
    if not path.exists():
        raise SystemExit(f"training_plot: {path} does not exist; give the --out folder of a bastion-train run")
    losses: dict[int, dict] = {}
    judgements: dict[int, dict] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        (judgements if "tau" in entry else losses)[entry["step"]] = entry
    return [losses[step] for step in sorted(losses)], [judgements[step] for step in sorted(judgements)]


def smoothed(losses: list[dict]) -> list[tuple[float, float]]:
    """(minutes, mean loss) of consecutive parts of the run."""
    size = max(1, len(losses) // AVERAGED)
    parts = [losses[begin : begin + size] for begin in range(0, len(losses), size)]
    return [(part[-1]["seconds"] / 60, sum(entry["loss"] for entry in part) / len(part)) for part in parts]


def draw(runs: list[tuple[str, list[dict], list[dict]]]):
    """A figure with the losses and the judgements of runs (name, losses, judgements)."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for index, (name, losses, judgements) in enumerate(runs):
        color = COLORS[index % len(COLORS)]
        left.plot(*zip(*smoothed(losses)), color=color, label=name)
        for place, policy in enumerate(judgements[0]["tau"] if judgements else []):
            points = [(entry["seconds"] / 60, entry["tau"][policy]) for entry in judgements]
            label = f"{name} {policy}" if len(runs) > 1 else policy
            right.plot(*zip(*points), color=color, marker=MARKERS[place % len(MARKERS)], label=label)
    left.set(xlabel="minutes of training", ylabel="loss (nats per label)")
    right.set(xlabel="minutes of training", ylabel="τ (committed tokens per cycle)")
    for axes in (left, right):
        axes.grid(color="#dddddd", linewidth=0.5)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, frameon=False)
    return figure


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--out", type=Path, help="folder of training.png. Default: the first run's")
    options.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="--out folder of bastion-train")
    args = options.parse_args()
    runs = [(run.name if run.is_dir() else run.parent.name, *read_log(run)) for run in args.runs]
    for name, losses, _ in runs:
        if not losses:
            raise SystemExit(f"training_plot: run {name} has no entries yet")
    first = args.runs[0] if args.runs[0].is_dir() else args.runs[0].parent
    for path in save({"training": draw(runs)}, args.out or first, ""):
        print(path)


if __name__ == "__main__":
    main()
