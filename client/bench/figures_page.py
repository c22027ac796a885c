"""figures.md and its plots, from what is in figures.json."""

from pathlib import Path

from figures_bars import BARS, verdict

QUIET = 0.05  # Of all CPU time, used by others.
INK, GRID, MARK = "#222222", "#dddddd", "#d1495b"
COLOURS = {"plain": "#8a8a8a", "speculative": "#4c78a8", "services": "#f2b134"}


def bars_table(report: dict) -> str:
    lines = ["| bar | required | measured | verdict |", "|---|--:|--:|---|"]
    for bar in BARS:
        text, said = verdict(bar, report["sections"], report["amx"])
        lines.append(f"| {bar.what} | {bar.required} | {text} | {said} |")
    return "\n".join(lines)


def circumstances(section: dict) -> str:
    """Of a section's run; others' CPU time is what makes figures doubtful."""
    others = f"others used {100 * section['others']:.0f} % of the CPUs"
    if section["others"] > QUIET:
        others += ": **not a quiet machine, run it again**"
    return f"{'short' if section['quick'] else 'full'} run of {section['when']}, {section['seconds']:.0f} s; {others}."


def markdown(report: dict, titles: dict[str, str], plots: list[Path]) -> str:
    """The whole page; `titles` of the sections, in their order."""
    parts = ["# Figures", report["settings"], bars_table(report), *(f"![{path.stem}]({path.name})" for path in plots)]
    for name, title in titles.items():
        section = report["sections"].get(name)
        if section is not None:
            parts += [f"## {title}", f"`{name}`: {circumstances(section)}"]
            parts += [text for text in (section["why"], section["text"]) if text]
    return "\n\n".join(parts) + "\n"


def ratio_groups(sections: dict) -> list[tuple[str, dict[str, float], float]]:
    """What the ratios are to and what is wanted, ratios by name, the bar."""
    groups = []
    for pair, limit in (("demo", 1.0), ("inflated", 1.2)):
        ratios = sections.get("llama", {}).get("numbers", {}).get(pair)
        if ratios:
            groups.append((f"llama.cpp's plain in bf16, {pair} pair; wanted of plain: {limit:g}×", ratios, limit))
    ratios = sections.get("ddtree", {}).get("numbers", {}).get("ratios")
    if ratios:
        groups.append(("DDTree's code at its best budget, demo pair; wanted in process: 8×", ratios, 8.0))
    return groups


def colour(name: str) -> str:
    kind = "services" if "services" in name else "plain" if name.endswith(" ar") else "speculative"
    return COLOURS[kind]


def plot_ratios(sections: dict, plt) -> object | None:
    """A panel for each engine that we stand beside, its own rate being 1; the bar as a line."""
    groups = ratio_groups(sections)
    if not groups:
        return None
    heights = [len(ratios) + 1 for _, ratios, _ in groups]
    figure, panels = plt.subplots(len(groups), figsize=(8, 0.9 + 0.36 * sum(heights)), height_ratios=heights, squeeze=False,
                                  layout="constrained")
    for axes, (title, ratios, limit) in zip(panels[:, 0], groups):
        names = list(ratios)[::-1]
        bars = axes.barh(names, [ratios[name] for name in names], color=[colour(name) for name in names], height=0.65)
        axes.bar_label(bars, [f"{ratios[name]:.2f}×" for name in names], padding=4, fontsize=8, color=INK)
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.axvline(limit, color=MARK, linestyle="--", linewidth=1.4)
        axes.set_xlim(0, 1.14 * max(limit, *ratios.values()))
        axes.set_title(f"tokens/s against {title} (dashed)", fontsize=9, loc="left", color=INK)
    return figure


def plot_verify(sections: dict, amx: bool, plt) -> object | None:
    """Time of a verify by its rows, one row being 1; the bars as marks."""
    numbers = sections.get("machine", {}).get("numbers", {})
    pairs = [(pair, numbers[pair]) for pair in ("inflated", "demo") if pair in numbers]
    if not pairs:
        return None
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for (pair, ratios), shade in zip(pairs, (COLOURS["speculative"], COLOURS["plain"])):
        rows = sorted(int(key) for key in ratios)
        axes.plot(rows, [ratios[str(row)] for row in rows], marker="o", color=shade, label=f"{pair} pair, measured")
        if pair == "inflated":
            for row in rows[1:]:
                axes.annotate(f"{ratios[str(row)]:.2f}×", (row, ratios[str(row)]), xytext=(5, -18), textcoords="offset points",
                              fontsize=8, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    limits = [(int(bar.key.removeprefix("machine.rows")), bar.limit) for bar in BARS if "rows" in bar.key and bar.amx == amx]
    axes.scatter(*zip(*limits), marker="_", s=500, linewidths=2.5, color=MARK, zorder=3,
                 label=f"at most, inflated pair, {'with' if amx else 'without'} AMX")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(rows, [str(row) for row in rows])
    top = max(value for _, ratios in pairs for value in ratios.values())
    ticks = [tick for tick in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32) if tick <= 1.3 * top]
    axes.set_yticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_xlim(0.9, 1.3 * rows[-1])
    axes.set_ylim(0.75, 1.3 * top)
    axes.minorticks_off()
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("rows of the verify forward (root and nodes)", fontsize=9)
    axes.set_ylabel("time against one row", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def draw(report: dict, out: Path) -> list[Path]:
    """Writes the PNGs for which there are numbers; returns their paths."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    written = []
    figures = {"ratios": plot_ratios(report["sections"], plt), "verify": plot_verify(report["sections"], report["amx"], plt)}
    for name, figure in figures.items():
        if figure is not None:
            for axes in figure.axes:
                axes.spines[["top", "right"]].set_visible(False)
                axes.tick_params(labelsize=8, colors=INK)
            figure.suptitle(report["device"], fontsize=8, color=INK)
            written.append(out / f"{name}.png")
            figure.savefig(written[-1], dpi=130, facecolor="white")
            plt.close(figure)
    return written
