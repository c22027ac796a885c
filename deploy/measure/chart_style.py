"""The style of all plots: colors, panels, and how figures are written."""

import importlib.util
from pathlib import Path

INK, GRID, LIMIT = "#222222", "#dddddd", "#d1495b"
COLORS = ["#4c78a8", "#f2b134", "#6aa84f", "#8a8a8a", "#9467bd"]


def is_available() -> bool:
    """Whether this Python has matplotlib."""
    return importlib.util.find_spec("matplotlib") is not None


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def one_panel(height: float = 4.6):
    return pyplot().subplots(figsize=(8, height), layout="constrained")


def save(figures: dict, folder: Path, title: str) -> list[Path]:
    """Writes folder/NAME.png for each figure that is not None, with `title` above it. Returns the paths."""
    plt, written = pyplot(), []
    for name, figure in figures.items():
        if figure is None:
            continue
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8, colors=INK)
            axes.xaxis.label.set(size=9, color=INK)
            axes.yaxis.label.set(size=9, color=INK)
        figure.suptitle(title, fontsize=8, color=INK)
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=130, facecolor="white")
        plt.close(figure)
    return written
