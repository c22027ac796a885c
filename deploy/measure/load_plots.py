"""Charts of the levels of load in bastion-bench's results.json: closed loops and open loops.

Every line has its own marker and dashes, and its name at its right end, so that a chart can be read without color.
"""

import math

from chart_style import COLORS, GRID, INK, one_panel, pyplot

MARKERS = "osD^vP*Xphd"
DASHES = ("-", "--", "-.", ":")
LABEL_HEIGHT = 0.048  # Smallest distance of two labels, as a fraction of the axes.
BAR_DISTANCE = 0.02  # Distance of two error bars, as a fraction of that between two powers of two.
LEADER = "#b0b0b0"
PLAIN = "ar"


def load_charts(results: dict) -> dict:
    """Figures by file name. A figure is None if the report has fewer than two levels of its kind."""
    levels = results.get("levels", [])
    closed = [level for level in levels if "concurrency" in level]
    rates = [level for level in levels if "rate" in level]
    return {"throughput": throughput_chart(closed), "gaps": gaps_chart(closed), "arrival_rate": rate_chart(rates)}


def throughput_chart(levels: list[dict]):
    """System throughput relative to plain decoding, over concurrency, with the range over the rounds as error bars."""
    series = _series(levels, "concurrency", lambda arm: arm["ratio_to_ar"])
    if len(levels) < 2 or not series.keys() - {PLAIN}:
        return None
    figure, axes = one_panel(height=5)
    for index, (policy, points) in enumerate(series.items()):
        if policy == PLAIN:
            continue
        # The error bars of different policies stand side by side.
        shift = 2 ** (BAR_DISTANCE * (index - len(series) / 2))
        x, medians = [shift * at for at, _ in points], [ratio["median"] for _, ratio in points]
        below = [ratio["median"] - ratio["low"] for _, ratio in points]
        above = [ratio["high"] - ratio["median"] for _, ratio in points]
        axes.errorbar(x, medians, yerr=[below, above], capsize=2, elinewidth=0.7, **_style(policy, index))
    axes.axhline(1, color=INK, linewidth=0.9)
    axes.annotate(
        "plain decoding",
        (0.005, 1),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8,
        color=INK,
    )
    _concurrency_axis(axes, levels)
    _label_ends(
        axes, {policy: (points[-1][0], points[-1][1]["median"]) for policy, points in series.items() if policy != PLAIN}
    )
    axes.set_ylabel("system throughput relative to plain decoding, ×")
    return figure


def gaps_chart(levels: list[dict]):
    """p50 and p99 of the gaps between two outputs of a request, over concurrency, in two panels with one scale."""
    series = _series(levels, "concurrency", lambda arm: arm["gap_seconds"])
    if len(levels) < 2 or not series:
        return None
    figure, panels = pyplot().subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
    for axes, quantile in zip(panels, ("p50", "p99")):
        ends = {}
        for index, (policy, points) in enumerate(series.items()):
            values = [(at, 1e3 * gap[quantile]) for at, gap in points]
            axes.plot(*zip(*values), **_style(policy, index))
            ends[policy] = values[-1]
        axes.set_yscale("log")
        _plain_numbers(axes)
        _concurrency_axis(axes, levels)
        axes.set_title(f"{quantile} of the gaps between outputs", fontsize=9, loc="left", color=INK)
    # The labels need the limits that both panels share, so they come last.
    for axes, quantile in zip(panels, ("p50", "p99")):
        _label_ends(axes, {policy: (points[-1][0], 1e3 * points[-1][1][quantile]) for policy, points in series.items()})
    panels[0].set_ylabel("milliseconds")
    return figure


def rate_chart(levels: list[dict]):
    """System throughput and the median time to the first token, over the rate of arrivals, in two panels."""
    throughput = _series(levels, "rate", lambda arm: arm["system_tokens_per_second"])
    waits = _series(levels, "rate", lambda arm: arm["ttft_seconds"] and 1e3 * arm["ttft_seconds"]["p50"])
    if len(levels) < 2 or not throughput or not waits:
        return None
    figure, panels = pyplot().subplots(1, 2, figsize=(11, 5), layout="constrained")
    for axes, series in zip(panels, (throughput, waits)):
        for index, (policy, points) in enumerate(series.items()):
            axes.plot(*zip(*points), **_style(policy, index))
        axes.set_xlabel("arrivals per second")
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    offered = [(level["rate"], level["rate"] * _tokens_per_request(level)) for level in levels]
    (line,) = panels[0].plot(*zip(*offered), color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    panels[0].legend([line], ["offered"], loc="lower right", fontsize=8, frameon=False)
    top = max(value for points in throughput.values() for _, value in points)
    panels[0].set_ylim(0, 1.15 * top)
    panels[0].set_ylabel("system throughput, tokens per second")
    panels[1].set_yscale("log")
    _plain_numbers(panels[1])
    panels[1].set_ylabel("time to the first token, p50, milliseconds")
    for axes, series in zip(panels, (throughput, waits)):
        _label_ends(axes, {policy: points[-1] for policy, points in series.items()})
    return figure


# ---- data ----


def _series(levels: list[dict], key: str, value) -> dict[str, list[tuple]]:
    """By policy, the points (level[key], value(arm)) in ascending order. Leaves out values that are None."""
    series: dict[str, list[tuple]] = {}
    for level in sorted(levels, key=lambda level: level[key]):
        for arm in level["arms"]:
            found = value(arm)
            if found is not None:
                series.setdefault(arm["policy"], []).append((level[key], found))
    return series


def _tokens_per_request(level: dict) -> float:
    """The mean over all requests of the level."""
    tokens = sum(arm["all_tokens_per_second"] * arm["seconds"] for arm in level["arms"])
    return tokens / max(1, sum(arm["requests"] for arm in level["arms"]))


# ---- style ----


def _style(policy: str, index: int) -> dict:
    color = INK if policy == PLAIN else COLORS[index % len(COLORS)]
    return {
        "color": color,
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linestyle": DASHES[index % len(DASHES)],
        "linewidth": 1.4,
    }


def _concurrency_axis(axes, levels: list[dict]) -> None:
    ticks = sorted(level["concurrency"] for level in levels)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("concurrency (live requests)")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _plain_numbers(axes) -> None:
    """Labels a logarithmic y axis at 1, 2 and 5 times powers of ten, without exponents."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _label_ends(axes, ends: dict[str, tuple[float, float]]) -> None:
    """Writes each name right of the axes, at the height of its end as far as the other names leave room."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    scale = math.log if axes.get_yscale() == "log" else float
    wanted = {name: (scale(y) - scale(low)) / (scale(high) - scale(low)) for name, (_, y) in ends.items()}
    names = sorted(wanted, key=lambda name: wanted[name])
    for name, height in zip(names, _spread([wanted[name] for name in names])):
        axes.annotate(
            name,
            ends[name],
            xytext=(1.03, height),
            textcoords="axes fraction",
            fontsize=8,
            color=INK,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": LEADER, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 3},
        )


def _spread(heights: list[float]) -> list[float]:
    """Moves ascending heights apart to at least LABEL_HEIGHT, inside the axes if there is room."""
    placed = list(heights)
    for _ in range(200):
        placed = [min(max(height, 0), 1) for height in placed]
        for i in range(1, len(placed)):
            overlap = LABEL_HEIGHT - (placed[i] - placed[i - 1])
            if overlap > 1e-9:
                placed[i - 1] -= overlap / 2
                placed[i] += overlap / 2
    return placed
