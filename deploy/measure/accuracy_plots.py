"""The chart of how often drafters are right (SpecBlock, figure 5)."""

from accuracy_tables import drafter_label, reached_shares
from chart_style import COLORS
from panels import first_cell, legend, panel_grid, policy_label

LEAST = 10  # Cases of a point. Fewer show chance.


def block_accuracy(panels: list[dict]):
    """Left: the share of cycles that go on at each depth, by policy. Right: the share of right tokens by block and position."""
    if not any(found["blocks"] for panel in panels for found in panel.get("accuracies", [])):
        return None
    figure, grid = panel_grid(panels, 2)
    for (left, right), panel in zip(grid, panels):
        for color, row in zip(COLORS, (row for row in first_cell(panel) if row["depths"])):
            shares = reached_shares(row, LEAST)
            left.plot(range(1, len(shares) + 1), shares, marker="o", color=color, label=policy_label(row["policy"]))
        left.set_xlabel("depth")
        left.set_ylabel("accepted, if the depth before was")
        for color, found in zip(COLORS, panel.get("accuracies", [])):
            begin = 1
            for number, block in enumerate(found["blocks"]):
                shares = [correct / tried for tried, correct in block if tried >= LEAST]
                label = drafter_label(found) if number == 0 else None
                right.plot(range(begin, begin + len(shares)), shares, marker="o", color=color, label=label)
                begin += len(block)
        right.set_xlabel("position; a line for each block")
        right.set_ylabel("right, if the tokens before are")
        for axes in (left, right):
            axes.set_ylim(0, 1)
            legend(axes)
    return figure
