#!/usr/bin/env python3
"""Draws docs/images/speed.svg from the table of docs/measurements.md, section "The chat pair".

Needs matplotlib: build/venv/bin/python docs/images/draw.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

DOCS = Path(__file__).resolve().parent.parent
SECTION = "## The chat pair"
# Rows of the table, from the bottom of the picture to the top.
LABELS = {
    "fixed:16": "fixed tree, 16 nodes",
    "chain": "chain (DFlash)",
    "bastion": "BASTION's tree",
    "fixed:4": "fixed tree, 4 nodes",
    "default": "default",
    "adaptive": "adaptive",
}
# Readable on light and on dark backgrounds.
INK, OTHER, OWN = "#707a84", "#6d87a3", "#2f78c4"


def speeds(page: str) -> dict[str, float]:
    """By policy, the speed relative to plain decoding."""
    found = {}
    for line in page[page.index(SECTION) + len(SECTION) :].split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in LABELS:
            found[cells[0]] = float(cells[2].rstrip("×"))
    missing = [policy for policy in LABELS if policy not in found]
    if missing:
        raise SystemExit(f"{SECTION} in docs/measurements.md has no row for {', '.join(missing)}")
    return found


def draw(values: dict[str, float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8.6, 3.4))
    for at, policy in enumerate(LABELS):
        color = OWN if policy in ("adaptive", "default") else OTHER
        axes.barh(at, values[policy], height=0.7, color=color)
        axes.text(
            values[policy] - 0.02, at, f"{values[policy]:.2f}×", color="white", ha="right", va="center", fontweight="bold"
        )
    axes.axvline(1, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.text(1.0, len(LABELS) - 0.42, "plain decoding", color=INK, ha="center", va="bottom")
    axes.set_yticks(range(len(LABELS)), LABELS.values())
    axes.set_ylim(-0.6, len(LABELS) - 0.45)
    axes.set_xlim(0, 2.25)
    axes.set_xticks([0, 0.5, 1, 1.5, 2], ["0", "0.5×", "1×", "1.5×", "2×"])
    axes.set_xlabel("tokens per second, relative to plain decoding")
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None})


def main() -> None:
    plt.rcParams.update(
        {
            "font.size": 11,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "ytick.major.size": 0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "svg.hashsalt": "bastion",
        }
    )
    draw(speeds((DOCS / "measurements.md").read_text(encoding="utf-8")), DOCS / "images" / "speed.svg")


if __name__ == "__main__":
    main()
