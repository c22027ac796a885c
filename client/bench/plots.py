#!/usr/bin/env python3
"""Draws the plots of one bastion-bench report: `plots.py OUTDIR` reads OUTDIR/results.json, writes PNGs beside it.

tokens_per_second.png   decode rate by policy, with the speedup over `ar`
committed_length.png    how often a cycle committed 1, 2, 3 … tokens, by policy
verify_time.png         predicted and measured verify time over rows (from `verify_trace`, see below)
stages.png              where the milliseconds of a cycle go, as stacked bars

`verify_trace` of a policy, where present: [[rows, predicted seconds, measured seconds], ...], one entry per cycle.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

STAGES = ["draft", "tree", "verify", "commit", "transfer"]
COLOURS = ["#4c78a8", "#f2b134", "#d1495b", "#6aa84f", "#8a8a8a"]


def tokens_per_second(report: dict, axes: plt.Axes) -> None:
    """One horizontal bar per policy, the fastest on top."""
    policies = sorted(report["policies"], key=lambda p: p["tokens_per_second"])
    rates = [p["tokens_per_second"] for p in policies]
    bars = axes.barh([p["policy"] for p in policies], rates, color=COLOURS[0])
    axes.bar_label(bars, [f"{p['tokens_per_second']:.0f}  ({p['speedup_vs_ar']:.2f}×, τ {p['tau']:.2f})"
                          for p in policies], padding=4, fontsize=8)
    axes.set_xlim(0, max(rates) * 1.35)
    axes.set_xlabel("decode rate, tokens per second (prefill left out)")


def committed_length(report: dict, axes: plt.Axes) -> None:
    """Share of cycles by committed length, one line per policy."""
    for policy in report["policies"]:
        lengths = Counter(n for prompt in policy["prompts"] for n in prompt["committed_lengths"])
        total = sum(lengths.values())
        if total == 0 or set(lengths) == {1}:
            continue
        x = range(1, max(lengths) + 1)
        axes.plot(x, [100 * lengths[n] / total for n in x], marker="o", label=f"{policy['policy']} (τ {policy['tau']:.2f})")
    axes.set_xlabel("tokens committed by a cycle")
    axes.set_ylabel("share of cycles, %")
    if axes.lines:
        axes.legend(fontsize=8)


def verify_time(report: dict, axes: plt.Axes) -> bool:
    """Every cycle as a dot, medians of both times as lines; False if the report has no trace."""
    by_rows = defaultdict(list)
    for policy in report["policies"]:
        for rows, predicted, measured in policy.get("verify_trace", []):
            by_rows[rows].append((1e3 * predicted, 1e3 * measured))
    if not by_rows:
        return False
    rows = sorted(by_rows)
    dots = [(r, m) for r in rows for _, m in by_rows[r]]
    axes.scatter(*zip(*dots), s=4, alpha=0.25, color=COLOURS[4], label="measured, each cycle")
    axes.plot(rows, [median(m for _, m in by_rows[r]) for r in rows], color=COLOURS[2], label="measured, median")
    axes.plot(rows, [median(p for p, _ in by_rows[r]) for r in rows], color=COLOURS[0], label="predicted, median")
    axes.set_xlabel("rows of the verify forward (root and nodes)")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(0, sorted(m for _, m in dots)[int(0.99 * (len(dots) - 1))] * 1.2)
    axes.legend(fontsize=8)
    return True


def stages(report: dict, axes: plt.Axes) -> None:
    """Mean milliseconds of each stage per cycle, stacked, one bar per policy."""
    names = [p["policy"] for p in report["policies"]]
    left = [0.0] * len(names)
    for stage, colour in zip(STAGES, COLOURS):
        widths = []
        for policy in report["policies"]:
            cycles = sum(len(p["committed_lengths"]) for p in policy["prompts"])
            seconds = sum(p["stage_seconds"].get(stage, 0.0) for p in policy["prompts"])
            widths.append(1e3 * seconds / max(cycles, 1))
        axes.barh(names, widths, left=left, color=colour, label=stage)
        left = [a + b for a, b in zip(left, widths)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per cycle")
    axes.legend(fontsize=8, ncol=len(STAGES), loc="lower center", bbox_to_anchor=(0.5, 1.0))


def subtitle(report: dict) -> str:
    settings = report.get("settings", {})
    parts = [str(report.get("device", "")), Path(str(report.get("target", ""))).name]
    parts += [f"{key} {settings[key]}" for key in ("temperature", "concurrency") if key in settings]
    return ", ".join(p for p in parts if p)


def draw(report: dict, out: Path) -> list[Path]:
    """Writes the PNGs; returns their paths."""
    written = []
    for plot in (tokens_per_second, committed_length, verify_time, stages):
        figure, axes = plt.subplots(figsize=(8, 1.6 + 0.4 * max(6, len(report["policies"]))), layout="constrained")
        if plot(report, axes) is not False:
            axes.spines[["top", "right"]].set_visible(False)
            figure.suptitle(subtitle(report), fontsize=8)
            written.append(out / f"{plot.__name__}.png")
            figure.savefig(written[-1], dpi=130)
        plt.close(figure)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="the folder given to bastion-bench as --report")
    args = parser.parse_args()
    try:
        report = json.loads((args.report / "results.json").read_text())
        paths = draw(report, args.report)
    except (OSError, ValueError, KeyError) as error:
        print(f"plots: {args.report / 'results.json'}: {error!r}", file=sys.stderr)
        return 1
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
