"""Charts of the results.json of `bastion-bench suite`, in the form of the papers' figures.

Every chart has one row of panels for each machine and pair of models of the report.
"""

from accuracy_plots import block_accuracy
from chart_style import COLORS, INK, LIMIT
from length_plots import generation_lengths, prompt_lengths
from panels import first_cell, legend, panel_grid, policy_label

PLAIN, GOLD, GREEN = "ar", "#c9a227", "#3a8f3a"


def suite_charts(results: dict) -> dict:
    """The charts that the suite names, by file name. A chart is None if the report lacks its data."""
    return {name: _CHARTS[name](results["panels"]) for name in results["suite"]["plots"] if name in _CHARTS}


# ---- data ----


def budget(policy: str) -> int | None:
    """N of `fixed:N`, else None."""
    return int(policy[6:]) if policy.startswith("fixed:") and policy[6:].isdigit() else None


def fixed_rows(rows: list[dict]) -> list[dict]:
    sized = [(size, row) for row in rows if (size := budget(row["policy"])) is not None]
    return [row for _, row in sorted(sized, key=lambda pair: pair[0])]


def budgets(rows: list[dict]) -> list[int]:
    """The budgets of the rows that have a fixed one."""
    return [size for row in rows if (size := budget(row["policy"])) is not None]


def oracle(rows: list[dict]) -> dict | None:
    """The fastest fixed budget."""
    return max(fixed_rows(rows), key=lambda row: row["speedup"], default=None)


# ---- panels ----


def _powers(axes, values: list[int], label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)


def _errors(rows: list[dict]) -> list[list[float]]:
    """The distances from the speedups to the ends of their 95 % intervals."""
    spreads = [row["speedup_95"] or [row["speedup"]] * 2 for row in rows]
    return [
        [max(0, row["speedup"] - low) for row, (low, _) in zip(rows, spreads)],
        [max(0, high - row["speedup"]) for row, (_, high) in zip(rows, spreads)],
    ]


# ---- charts ----


def speedup_by_dataset(panels: list[dict]):
    """Bars of the speedup by dataset, a column of panels for each temperature. The oracle is one more policy."""
    panels = [panel for panel in panels if panel["figures"]]
    if not panels:
        return None
    temperatures = sorted({row["temperature"] for panel in panels for row in panel["figures"]})
    figure, grid = panel_grid(panels, len(temperatures))
    for line, panel in zip(grid, panels):
        for axes, temperature in zip(line, temperatures):
            names = sorted({row["dataset"] for row in panel["figures"]} - {""}) or [""]
            series: dict[str, list[float]] = {}
            for name in names:
                rows = first_cell(panel, dataset=name, temperature=temperature)
                best = oracle(rows)
                for row in rows + ([best | {"policy": "oracle"}] if best else []):
                    if row["policy"] != PLAIN and budget(row["policy"]) is None:
                        series.setdefault(row["policy"], []).append(row["speedup"])
            width = 0.8 / max(1, len(series))
            for index, (policy, values) in enumerate(series.items()):
                at = [x + width * (index + 0.5 - len(series) / 2) for x in range(len(names))]
                bars = axes.bar(at, values, width, label=policy, color=COLORS[index % len(COLORS)])
                axes.bar_label(bars, [f"{value:.2f}" for value in values], fontsize=7, color=INK)
            axes.set_xticks(range(len(names)), [name or "all prompts" for name in names])
            axes.axhline(1, color=INK, linewidth=0.8)
            axes.margins(y=0.25)
            axes.set_xlabel(f"temperature {temperature:g}")
            axes.set_ylabel("speedup over plain decoding, ×")
            legend(axes)
    return figure


def acceptance_latency(panels: list[dict]):
    """BASTION, figure 2. Left: τ over the rows of a tree. Right: milliseconds of a cycle, by stage."""
    figure, grid = panel_grid(panels, 2)
    for (left, right), panel in zip(grid, panels):
        rows = fixed_rows(first_cell(panel))
        if not rows:
            return None
        sizes = [size + 1 for size in budgets(rows)]
        left.plot(sizes, [row["tau"] for row in rows], marker="o", color=COLORS[0])
        left.set_ylabel("τ, committed tokens per cycle")
        parts = {
            "draft": [row["seconds"]["draft"] for row in rows],
            "auxiliary": [
                sum(row["seconds"][stage] for stage in ("tree", "commit", "transfer", "verify_queue")) for row in rows
            ],
            "verify": [row["seconds"]["verify"] for row in rows],
        }
        below = [0.0] * len(rows)
        for (name, seconds), color in zip(parts.items(), COLORS):
            right.bar(range(len(rows)), [1e3 * value for value in seconds], bottom=below, label=name, color=color, width=0.65)
            below = [under + 1e3 * value for under, value in zip(below, seconds)]
        right.set_xticks(range(len(rows)), [str(size) for size in sizes])
        right.set_xlabel("rows of the tree, root included")
        right.set_ylabel("milliseconds of a cycle")
        _powers(left, sizes, "rows of the tree, root included")
        legend(right)
    return figure


def budget_policies(panels: list[dict]):
    """BASTION, figure 4: the speedup over the budget, the oracle, and the policies that choose their own budget."""
    figure, grid = panel_grid(panels, 1)
    for (axes,), panel in zip(grid, panels):
        rows = first_cell(panel)
        fixed = fixed_rows(rows)
        if not fixed:
            return None
        axes.errorbar(
            budgets(fixed),
            [row["speedup"] for row in fixed],
            yerr=_errors(fixed),
            marker="o",
            capsize=2,
            color=COLORS[0],
            label="fixed budget",
        )
        axes.axhline(_mean_oracle(panel), linestyle="--", color=GOLD, label="oracle")
        chosen = [row for row in rows if row["policy"] != PLAIN and budget(row["policy"]) is None]
        for row, color in zip(chosen, [GREEN, *COLORS[1:]]):
            axes.plot(
                [row["nodes"]], [row["speedup"]], marker="*", markersize=14, linestyle="", color=color, label=row["policy"]
            )
        _powers(axes, budgets(fixed), "nodes of the tree (mean, where a policy chooses)")
        axes.set_ylabel("speedup over plain decoding, ×")
        legend(axes)
    return figure


def _mean_oracle(panel: dict) -> float:
    """The mean over the datasets of the best fixed budget of each. REQUIRES: each has fixed budgets."""
    names = {row["dataset"] for row in panel["figures"]} - {""} or {""}
    return sum(max(row["speedup"] for row in fixed_rows(first_cell(panel, dataset=name))) for name in names) / len(names)


def path_score(panels: list[dict]):
    """BASTION, figure 6: expected against accepted length of the chain, cycle by cycle."""
    figure, grid = panel_grid(panels, 1)
    for (axes,), panel in zip(grid, panels):
        rows = [row for row in first_cell(panel) if row["expected_length"]["cycles"]]
        if not rows:
            return None
        lengths = rows[0]["expected_length"]
        x = [expected for expected, _ in lengths["sample"]]
        # Accepted lengths are integers; small steps keep equal ones apart.
        y = [accepted + 0.3 * ((37 * index) % 100 / 100 - 0.5) for index, (_, accepted) in enumerate(lengths["sample"])]
        axes.scatter(x, y, s=6, alpha=0.35, color=COLORS[0])
        axes.plot([0, max(x)], [0, max(x)], color=INK, linewidth=0.8)
        axes.annotate(
            f"Pearson {lengths['pearson']:.2f}, Spearman {lengths['spearman']:.2f}, {lengths['cycles']} cycles",
            (0.02, 0.94),
            xycoords="axes fraction",
            fontsize=8,
            color=INK,
        )
        axes.set_xlabel(f"expected accepted nodes of {rows[0]['policy']}, Â without the root")
        axes.set_ylabel("accepted nodes")
    return figure


def speedup_bars(panels: list[dict]):
    """Bars of the speedup with its 95 % interval, labeled with τ and the mean nodes of a tree."""
    figure, grid = panel_grid(panels, 1)
    for (axes,), panel in zip(grid, panels):
        rows = [row for row in first_cell(panel) if row["policy"] != PLAIN]
        if not rows:
            return None
        bars = axes.bar(
            [policy_label(row["policy"]) for row in rows],
            [row["speedup"] for row in rows],
            yerr=_errors(rows),
            capsize=3,
            color=[COLORS[index % len(COLORS)] for index in range(len(rows))],
            width=0.6,
        )
        axes.bar_label(
            bars,
            [f"{row['speedup']:.2f}×\nτ {row['tau']:.2f}, N {row['nodes']:.0f}" for row in rows],
            padding=3,
            fontsize=7,
            color=INK,
        )
        axes.margins(y=0.25)
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set_ylabel("speedup over plain decoding, ×")
    return figure


def verify_latency(panels: list[dict]):
    """BASTION, figure 9a: measured verify times, the bare roofline (dashed) and Static (solid), by context."""
    panels = [panel for panel in panels if panel["latency"]["points"]]
    if not panels:
        return None
    figure, grid = panel_grid(panels, 1, height=4.6)
    for (axes,), panel in zip(grid, panels):
        points = panel["latency"]["points"]
        for context, color in zip(sorted({point["context"] for point in points}), COLORS):
            line = sorted((point for point in points if point["context"] == context), key=lambda point: point["rows"])
            rows = [point["rows"] for point in line]
            axes.plot(
                rows,
                [1e3 * point["seconds"] for point in line],
                linestyle="",
                marker="o",
                color=color,
                label=f"measured, context {context}",
            )
            axes.plot(rows, [1e3 * point["roofline_seconds"] for point in line], linestyle="--", linewidth=1, color=color)
            axes.plot(rows, [1e3 * point["static_seconds"] for point in line], linewidth=1.2, color=color)
        _powers(axes, sorted({point["rows"] for point in points}), "rows of the verify forward")
        axes.set_yscale("log")
        axes.set_ylabel("milliseconds (dashed: roofline, solid: Static)")
        legend(axes)
    return figure


def budget_curve(panels: list[dict]):
    """DDTree, figure 3: τ and the speedup over the budget, with the chain as dashed lines."""
    figure, grid = panel_grid(panels, 2)
    for line, panel in zip(grid, panels):
        rows = first_cell(panel)
        fixed, chain = fixed_rows(rows), next((row for row in rows if row["policy"] == "chain"), None)
        if not fixed:
            return None
        for axes, key, label in zip(
            line, ("tau", "speedup"), ("τ, committed tokens per cycle", "speedup over plain decoding, ×")
        ):
            axes.errorbar(
                budgets(fixed),
                [row[key] for row in fixed],
                yerr=_errors(fixed) if key == "speedup" else None,
                marker="o",
                capsize=2,
                color=COLORS[0],
                label="tree",
            )
            if chain:
                axes.axhline(chain[key], linestyle="--", color=LIMIT, label="chain")
            _powers(axes, budgets(fixed), "nodes of the tree")
            axes.set_ylabel(label)
            legend(axes)
    return figure


def committed_length_bars(panels: list[dict]):
    """DDTree, figure 4: the share of cycles by committed length, of the chain and of the best fixed budget."""
    figure, grid = panel_grid(panels, 1)
    for (axes,), panel in zip(grid, panels):
        rows = first_cell(panel)
        shown = [row for row in (next((row for row in rows if row["policy"] == "chain"), None), oracle(rows)) if row]
        if not shown:
            return None
        for index, row in enumerate(shown):
            cycles = sum(count for _, count in row["committed_lengths"])
            axes.bar(
                [length + 0.4 * (index - 0.5) for length, _ in row["committed_lengths"]],
                [100 * count / cycles for _, count in row["committed_lengths"]],
                0.4,
                color=COLORS[index],
                label=f"{row['policy']} (τ {row['tau']:.2f}, {row['speedup']:.2f}×)",
            )
        axes.set_xticks(range(1, max(length for row in shown for length, _ in row["committed_lengths"]) + 1))
        axes.set_xlabel("tokens committed by a cycle")
        axes.set_ylabel("share of cycles, %")
        legend(axes)
    return figure


def throughput_bars(panels: list[dict]):
    """DynaTree, figure 3. Left: tokens per second. Right: the speedup over plain decoding."""
    figure, grid = panel_grid(panels, 2)
    for line, panel in zip(grid, panels):
        rows = first_cell(panel)[::-1]
        if not rows:
            return None
        names = [policy_label(row["policy"]) for row in rows]
        for axes, key, text in zip(line, ("stream_tokens_per_second", "speedup"), ("tokens per second", "speedup, ×")):
            bars = axes.barh(
                names,
                [row[key] for row in rows],
                height=0.65,
                xerr=_errors(rows) if key == "speedup" else None,
                capsize=3,
                color=[COLORS[3] if row["policy"] == PLAIN else COLORS[0] for row in rows],
            )
            axes.bar_label(
                bars, [f"{row[key]:.{0 if key != 'speedup' else 2}f}" for row in rows], padding=3, fontsize=8, color=INK
            )
            axes.margins(x=0.15)
            axes.set_xlabel(text)
        line[1].set_yticks([])
    return figure


_CHARTS = {
    chart.__name__: chart
    for chart in (
        speedup_by_dataset,
        acceptance_latency,
        budget_policies,
        path_score,
        speedup_bars,
        verify_latency,
        budget_curve,
        committed_length_bars,
        throughput_bars,
        prompt_lengths,
        generation_lengths,
        block_accuracy,
    )
}
