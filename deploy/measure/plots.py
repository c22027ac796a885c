#!/usr/bin/env python3
"""Draws all plots of this project, for the CPU figures, the GPU run and the reports of bastion-bench.

    plots.py FOLDER

draws the plots of one bastion-bench report: it reads FOLDER/results.json and writes PNG files to FOLDER.

tokens_per_second.png   decode rate by policy, with the speedup over `ar`
committed_length.png    how often a cycle committed 1, 2, 3, ... tokens, by policy
verify_time.png         predicted and measured verify time by number of rows, if the report has a `verify_trace`
stages.png              mean milliseconds of a cycle by stage; live requests share them by their rows

A report with several levels of load also has:

throughput.png          system throughput relative to `ar`, over concurrency
gaps.png                p50 and p99 of the gaps between outputs, over concurrency
arrival_rate.png        system throughput and time to the first token, over the rate of arrivals

The report of a suite (`bastion-bench suite`) has the plots that the suite names (suite_plots.py).
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from chart_style import COLORS, GRID, INK, LIMIT, is_available, one_panel, pyplot, save
from load_plots import load_charts
from program_output import STAGES, policies, predictions
from report import number
from suite_plots import suite_charts

SPECULATIVE, SERVICES, PLAIN = COLORS[0], COLORS[1], COLORS[3]
COARSE_TICKS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FINE_TICKS = (0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2)


# ---- charts of any report ----


@dataclass(frozen=True)
class BarPanel:
    """Horizontal bars, one for each name. `baseline`: a thin line. `limit`: a dashed line."""

    title: str
    values: dict[str, float]
    labels: dict[str, str]
    baseline: float | None = None
    limit: float | None = None


def _bar_color(name: str) -> str:
    return SERVICES if "services" in name else PLAIN if name.split(" ")[-1] == "ar" else SPECULATIVE


def bar_chart(panels: list[BarPanel]):
    """Stacked panels. Gray bars are plain decoding, yellow bars go through services. None without panels."""
    if not panels:
        return None
    heights = [len(panel.values) + 1 for panel in panels]
    figure, grid = pyplot().subplots(
        len(panels), figsize=(8, 0.9 + 0.36 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for axes, panel in zip(grid[:, 0], panels):
        names = list(panel.values)[::-1]
        bars = axes.barh(names, [panel.values[name] for name in names], color=[_bar_color(name) for name in names], height=0.65)
        axes.bar_label(bars, [panel.labels[name] for name in names], padding=4, fontsize=8, color=INK)
        if panel.baseline is not None:
            axes.axvline(panel.baseline, color=INK, linewidth=0.8)
        if panel.limit is not None:
            axes.axvline(panel.limit, color=LIMIT, linestyle="--", linewidth=1.4)
        room = 1.08 + 0.012 * max(len(label) for label in panel.labels.values())
        axes.set_xlim(0, room * max(panel.limit or 0, *panel.values.values()))
        axes.set_title(panel.title, fontsize=9, loc="left", color=INK)
    return figure


def verify_chart(series: dict[str, dict[int, float]], limits: dict[int, float], limit_label: str):
    """Verify time by number of rows, relative to one row. None without series.

    `limits`: by number of rows, the limits (bars.py) for the first series. Labels the first series at these rows and
    at its last point.
    """
    series = {label: ratios for label, ratios in series.items() if ratios}
    if not series:
        return None
    figure, axes = one_panel()
    for (label, ratios), color in zip(series.items(), COLORS):
        axes.plot(list(ratios), list(ratios.values()), marker="o", color=color, label=label)
    first = next(iter(series.values()))
    for rows in {rows for rows in limits if rows in first} | {max(first)}:
        value = first[rows]
        # The label is above a point that misses its limit, and below any other point.
        offset = (-36, 8) if value > limits.get(rows, value) else (5, -14)
        axes.annotate(f"{value:.2f}×", (rows, value), xytext=offset, textcoords="offset points", fontsize=8, color=INK)
    if limits:
        axes.scatter(
            list(limits), list(limits.values()), marker="_", s=500, linewidths=2.5, color=LIMIT, zorder=3, label=limit_label
        )
    values = [*(value for ratios in series.values() for value in ratios.values()), *limits.values()]
    _log_axes(axes, sorted({rows for ratios in series.values() for rows in ratios}), (min(values), max(values)))
    axes.set_xlabel("rows of the verify forward (root and nodes)")
    axes.set_ylabel("time relative to one row")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def _log_axes(axes, rows: list[int], values: tuple[float, float]) -> None:
    """Makes both axes logarithmic, with plain numbers as ticks. `values`: the smallest and the largest."""
    low, high = values
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(rows, [str(row) for row in rows])
    ticks = [tick for tick in (FINE_TICKS if high < 1.8 else COARSE_TICKS) if 0.8 * low <= tick <= 1.3 * high]
    axes.set_yticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_xlim(0.9, 1.3 * rows[-1])
    axes.set_ylim(0.75 * low, 1.3 * high)
    axes.minorticks_off()
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def rate_panel(rows: list[dict], title: str) -> BarPanel:
    """Tokens per second by policy. `rows`: from program_output.policies()."""
    return BarPanel(
        title,
        {row["policy"]: row["rate"] for row in rows},
        {row["policy"]: f"{row['rate']:.0f}  ({number(row['speedup'], 2, '×')}, τ {row['tau']:.2f})" for row in rows},
    )


def speedup_panel(rows: list[dict], title: str) -> BarPanel:
    """Speedup over plain decoding by policy. `rows`: from program_output.policies()."""
    return BarPanel(
        title,
        {row["policy"]: row["speedup"] for row in rows},
        {row["policy"]: f"{row['speedup']:.2f}×, τ {row['tau']:.2f}" for row in rows},
        baseline=1.0,
    )


# ---- charts of bastion-bench's results.json ----


def committed_length_chart(results: dict):
    """The share of cycles by committed length, one line for each speculative policy. None if no policy speculated."""
    lines = {}
    for policy in results["policies"]:
        lengths = Counter(length for prompt in policy["prompts"] for length in prompt["committed_lengths"])
        if lengths and set(lengths) != {1}:
            lines[f"{policy['policy']} (τ {policy['tau']:.2f})"] = lengths
    if not lines:
        return None
    figure, axes = one_panel()
    styles = [(style, color) for style in ("-", "--", ":") for color in COLORS]
    for (label, lengths), (style, color) in zip(lines.items(), styles):
        x = range(1, max(lengths) + 1)
        axes.plot(x, [100 * lengths[length] / lengths.total() for length in x], style, marker="o", color=color, label=label)
    axes.set_xlabel("tokens committed by a cycle")
    axes.set_ylabel("share of cycles, %")
    axes.set_xticks(range(1, max(length for lengths in lines.values() for length in lengths) + 1))
    axes.legend(fontsize=8, frameon=False)
    return figure


def verify_time_chart(results: dict):
    """Each cycle's verify time as a dot, the predicted and measured medians as lines. None without a trace."""
    dots = [(rows, 1e3 * seconds) for policy in results["policies"] for rows, _, seconds in policy.get("verify_trace", [])]
    found = predictions(results)
    if not found:
        return None
    figure, axes = one_panel()
    rows = [entry["rows"] for entry in found]
    axes.scatter(*zip(*dots), s=4, alpha=0.25, color=PLAIN, label="measured, each cycle")
    axes.plot(rows, [entry["measured"] for entry in found], marker=".", color=COLORS[1], label="measured, median")
    axes.plot(rows, [entry["predicted"] for entry in found], marker=".", color=COLORS[0], label="predicted, median")
    axes.set_xlabel("rows of the verify forward (root and nodes)")
    axes.set_ylabel("milliseconds")
    # Outliers above the 99th percentile would flatten everything else.
    axes.set_ylim(0, 1.2 * sorted(seconds for _, seconds in dots)[int(0.99 * (len(dots) - 1))])
    axes.legend(fontsize=8, frameon=False)
    return figure


def stages_chart(rows: list[dict]):
    """Mean milliseconds that a request has in a cycle, by stage, one bar for each policy. `rows`: from program_output.policies()."""
    figure, axes = one_panel(height=1.2 + 0.36 * len(rows))
    names, left = [row["policy"] for row in rows], [0.0] * len(rows)
    for stage, color in zip(STAGES, COLORS):
        widths = [row[stage] for row in rows]
        axes.barh(names, widths, left=left, color=color, height=0.65, label=stage)
        left = [begin + width for begin, width in zip(left, widths)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per cycle and request")
    axes.legend(fontsize=8, frameon=False, ncol=len(STAGES), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def draw_bench_report(results: dict, folder: Path) -> list[Path]:
    """Writes the plots of one bastion-bench report. Returns their paths."""
    if "suite" in results:
        suite = results["suite"]
        return save(suite_charts(results), folder, f"{suite['name']}: {suite['title']}")
    rows, settings = policies(results), results.get("settings", {})
    by_rate = sorted(rows, key=lambda row: -row["rate"])

    def title(*keys: str) -> str:
        return ", ".join(
            part
            for part in (
                str(results.get("device", "")),
                Path(str(results.get("target", ""))).name,
                *(f"{key} {settings[key]}" for key in keys if settings.get(key) is not None),
            )
            if part
        )

    return save(
        {
            "tokens_per_second": bar_chart([rate_panel(by_rate, "decode rate, tokens per second (without prefill)")]),
            "committed_length": committed_length_chart(results),
            "verify_time": verify_time_chart(results),
            "stages": stages_chart(rows),
        },
        folder,
        title("temperature", "concurrency"),
    ) + save(load_charts(results), folder, title("temperature"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the report (bastion-bench --report)")
    args = parser.parse_args()
    file = args.folder / "results.json"
    if not is_available():
        print(
            f"plots: {sys.executable} has no matplotlib: use build/venv/bin/python (created by deploy/local/setup.sh)",
            file=sys.stderr,
        )
        return 1
    try:
        paths = draw_bench_report(json.loads(file.read_text()), args.folder)
    except (OSError, ValueError, KeyError) as error:
        print(f"plots: cannot draw {file}: {error!r}", file=sys.stderr)
        return 1
    print("\n".join(map(str, paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
