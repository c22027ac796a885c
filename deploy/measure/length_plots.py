"""The plots of suites over lengths, of prompts and of answers. One row of plots for each panel."""

from chart_style import COLORS, INK
from panels import cells, legend, panel_grid, policy_label

PLAIN = "ar"


def prompt_lengths(panels: list[dict]):
    """DynaTree, figure 8. Left: tokens per second over the prompt length. Right: the speedup."""
    return _over_lengths(panels, "prompt_tokens", "tokens of the prompt")


def generation_lengths(panels: list[dict]):
    """DynaTree, figure 6. Left: tokens per second over the new tokens. Right: the speedup."""
    return _over_lengths(panels, "max_new_tokens", "new tokens")


def _over_lengths(panels: list[dict], key: str, label: str):
    """Tokens per second, and the speedup, over the setting `key`. None if it has one value."""
    figure, grid = panel_grid(panels, 2)
    for line, panel in zip(grid, panels):
        if len({row[key] for row in panel["figures"]}) < 2:
            return None
        for axes, value, name in zip(line, ("stream_tokens_per_second", "speedup"), ("tokens per second", "speedup, ×")):
            for index, policy in enumerate(dict.fromkeys(row["policy"] for row in panel["figures"])):
                rows = sorted((row for row in cells(panel, policy=policy) if row["concurrency"] == 1), key=lambda row: row[key])
                axes.plot(
                    [row[key] for row in rows],
                    [row[value] for row in rows],
                    marker="o",
                    color=INK if policy == PLAIN else COLORS[index % len(COLORS)],
                    label=policy_label(policy),
                )
            axes.set_xlabel(label)
            axes.set_ylabel(name)
            legend(axes)
    return figure
