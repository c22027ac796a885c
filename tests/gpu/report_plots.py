"""Two plots of a GPU report, where there is matplotlib: time of a verify over its rows, and speed-up by policy."""

from pathlib import Path

import report_figures as figures

COLOURS = ["#4c78a8", "#f2b134", "#d1495b", "#6aa84f", "#8a8a8a"]


def verify(found: dict, plt) -> object | None:
    """Against one row, by context, of the bigger pair that there is."""
    size = next((size for size in ("8b", "4b") if size in found["roofline"]), None)
    if size is None:
        return None
    entries = [entry for entry in found["roofline"][size]["forwards"] if entry["forward"] != "draft"]
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for index, context in enumerate(sorted({entry["context"] for entry in entries})):
        line = sorted((entry["rows"], entry["seconds"]) for entry in entries if entry["context"] == context)
        axes.plot(*zip(*((rows, 1e3 * seconds) for rows, seconds in line)), marker="o", color=COLOURS[index % len(COLOURS)],
                  label=f"after {context} tokens")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows of a verify")
    axes.set_ylabel("ms")
    axes.set_ylim(0)
    axes.legend(frameon=False)
    axes.set_title(f"{size.upper()} pair, {found['roofline'][size]['device']}", fontsize=9, loc="left")
    return figure


def speedups(found: dict, plt) -> object | None:
    """Over plain decoding, in process."""
    runs = [(size, figures.policies(results)) for size, results in found["decode"].items()]
    if not runs:
        return None
    figure, panels = plt.subplots(len(runs), figsize=(8, 0.9 + 0.34 * sum(len(rows) + 1 for _, rows in runs)), squeeze=False,
                                  layout="constrained")
    for axes, (size, rows) in zip(panels[:, 0], runs):
        bars = axes.barh([row["policy"] for row in rows][::-1], [row["speedup"] for row in rows][::-1], color=COLOURS[0])
        axes.bar_label(bars, [f"{row['speedup']:.2f}×, τ {row['tau']:.2f}" for row in rows][::-1], padding=4, fontsize=8)
        axes.axvline(1, color="#222222", linewidth=0.8)
        axes.set_xlim(0, 1.25 * max(row["speedup"] for row in rows))
        axes.set_title(f"tokens/s against plain, {size.upper()} pair", fontsize=9, loc="left")
    return figure


def draw(found: dict, out: Path) -> list[Path]:
    """The files; none without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    files = []
    for name, plot in (("gpu_verify", verify), ("gpu_speedups", speedups)):
        figure = plot(found, plt)
        if figure is not None:
            files.append(out / f"{name}.png")
            figure.savefig(files[-1], dpi=110)
            plt.close(figure)
    return files
