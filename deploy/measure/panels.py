"""What the charts of suites share: the figures of a panel, and the grid of axes with a row for each panel."""

from pathlib import Path
from textwrap import wrap

from chart_style import GRID, INK, pyplot


def panel_title(panel: dict) -> str:
    return f"{panel['device']}, {Path(panel['target']).parent.name}"


def cells(panel: dict, **wanted) -> list[dict]:
    """The figures with these values, by default those of all prompts."""
    wanted = {"dataset": ""} | wanted
    return [row for row in panel["figures"] if all(row[key] == value for key, value in wanted.items())]


def first_cell(panel: dict, **wanted) -> list[dict]:
    """The figures of the first cell of the grid."""
    rows = cells(panel, **wanted)
    keys = ("temperature", "concurrency", "prompt_tokens", "max_new_tokens")
    return [row for row in rows if all(row[key] == rows[0][key] for key in keys)]


def policy_label(policy: str) -> str:
    """The name of a policy, on several lines if it is long."""
    return "\n".join(wrap(policy.replace(",", ", "), 26)).replace(", ", ",")


def panel_grid(panels: list[dict], columns: int, height: float = 4.0):
    figure, axes = pyplot().subplots(
        len(panels),
        columns,
        figsize=(8 if columns == 1 else 5.2 * columns, height * len(panels)),
        squeeze=False,
        layout="constrained",
    )
    for row, panel in zip(axes, panels):
        row[0].set_title(panel_title(panel), fontsize=8, loc="left", color=INK)
        for one in row:
            one.grid(color=GRID, linewidth=0.6)
            one.set_axisbelow(True)
    return figure, axes


def legend(axes) -> None:
    axes.legend(fontsize=8, frameon=False)
