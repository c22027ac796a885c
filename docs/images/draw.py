#!/usr/bin/env python3
"""Draws docs/images/speed.svg from the table of docs/measurements.md, section "Transition prior".

Needs matplotlib: build/venv/bin/python docs/images/draw.py
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

DOCS = Path(__file__).resolve().parent.parent
SECTION = "## Transition prior"
# Rows of the table at temperature 0, from the bottom of the picture to the top.
ROWS = ["fixed:64", "fixed:16", "fixed:4", "ngram:4 (no drafter)", "adaptive"]
LABELS = {"fixed:64": "fixed tree, 64 nodes", "fixed:16": "fixed tree, 16 nodes", "fixed:4": "fixed tree, 4 nodes",
          "ngram:4 (no drafter)": "prior alone, no drafter", "adaptive": "adaptive"}
# Readable on light and on dark backgrounds.
INK, WITHOUT, WITH = "#707a84", "#6d87a3", "#2f78c4"
HEIGHT = 0.38  # Height of a bar. A row has height 1.


def speeds(page: str) -> dict[str, tuple[float | None, float | None]]:
    """By policy, the speed without the prior and with it (column "both"), at temperature 0."""
    section = page[page.index(SECTION):]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] in ROWS and cells[1] == "0":
            found[cells[0]] = (speed(cells[2]), speed(cells[5]))
    missing = [row for row in ROWS if row not in found]
    if missing:
        raise SystemExit(f"{SECTION} in docs/measurements.md has no row for {', '.join(missing)}")
    return found


def speed(cell: str) -> float | None:
    """The speed in a cell such as "2.67, 1.55×". None: the cell has no speed."""
    match = re.search(r"([\d.]+)×", cell)
    return float(match.group(1)) if match else None


def draw(values: dict[str, tuple[float | None, float | None]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8.6, 3.9))
    for at, row in enumerate(ROWS):
        without, with_prior = values[row]
        has_both = without is not None
        if has_both:
            bar(axes, at - HEIGHT / 2, without, WITHOUT)
        bar(axes, at + (HEIGHT / 2 if has_both else 0), with_prior, WITH, note="default" if row == "adaptive" else "")
    axes.axvline(1, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(1.0, len(ROWS) - 0.42, "plain decoding", color=INK, ha="center", va="bottom")
    axes.set_yticks(range(len(ROWS)), [LABELS[row] for row in ROWS])
    axes.set_ylim(-0.6, len(ROWS) - 0.45)
    axes.set_xlim(0, 2.45)
    axes.set_xticks([0, 0.5, 1, 1.5, 2], ["0", "0.5×", "1×", "1.5×", "2×"])
    axes.set_xlabel("tokens per second, relative to plain decoding")
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=c) for c in (WITH, WITHOUT)],
                ["with the transition prior", "without"], loc="lower right", frameon=False, labelcolor=INK)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None})


def bar(axes, at: float, value: float, color: str, *, note: str = "") -> None:
    axes.barh(at, value, height=HEIGHT, color=color)
    axes.text(value - 0.02, at, f"{value:.2f}×", color="white", ha="right", va="center", fontweight="bold")
    axes.text(value + 0.02, at, note, color=INK, va="center", fontweight="bold")


def main() -> None:
    plt.rcParams.update({"font.size": 11, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK,
                         "ytick.color": INK, "ytick.major.size": 0, "axes.spines.top": False,
                         "axes.spines.right": False, "axes.spines.left": False, "svg.hashsalt": "bastion"})
    draw(speeds((DOCS / "measurements.md").read_text(encoding="utf-8")), DOCS / "images" / "speed.svg")


if __name__ == "__main__":
    main()
