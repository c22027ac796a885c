"""The parts of a comparison's report that show the levels of load: the field `levels` of results.json, and its tables."""

from load_figures import Targets, figures, level_name, ratio_to_plain
from report import table

# A window with a smaller share of the tokens says little.
SMALL_SHARE = 0.5
# The bins of a reliability table. Their widths are equal.
BINS = 10

# A bin is [count, accepted, sum of the stated probabilities].
Bins = list[list[float]]


def levels_json(levels: list[dict], targets: Targets) -> list[dict]:
    """The field `levels` of results.json. docs/measuring-load.md describes it."""
    names = ("concurrency", "rate", "arrivals")
    return [
        {name: level[name] for name in names if name in level}
        | {"arms": [_arm_json(arm, level, targets) for arm in level["arms"]]}
        for level in levels
    ]


def level_tables(levels: list[dict], targets: Targets) -> str:
    """A table per level, with a line per policy."""
    return "".join(_level_table(level, targets) + _reliability_table(level) for level in levels)


def _arm_json(arm: dict, level: dict, targets: Targets) -> dict:
    result = figures(arm["rounds"], level, targets) | {
        "policy": arm["policy"],
        "ratio_to_ar": ratio_to_plain(arm, level),
        "rounds": [figures([run], level, targets) for run in arm["rounds"]],
    }
    before, after = (_reliability(arm, when) for when in ("before", "after"))
    if _count(before) > 0:
        result["reliability"] = {"before": _reliability_json(before), "after": _reliability_json(after)}
    return result


# ---- the levels ----


def _level_table(level: dict, targets: Targets) -> str:
    head = ["policy", "tokens/s, system", "vs ar, median of rounds (range)", "tokens/s, stream p50", "TTFT ms p50", "p99"]
    head += ["gap ms p50", "p90", "p99", "goodput", "fairness"]
    found = [figures(arm["rounds"], level, targets) for arm in level["arms"]]
    rows = [_level_row(arm, level, each) for arm, each in zip(level["arms"], found)]
    text = f"\n### {level_name(level)}\n\n{table(head, rows)}\n"
    share = min([1.0, *(each["window_share"] for each in found)])
    if share < SMALL_SHARE:
        text += (
            f"\nOnly {100 * share:.0f} % of the tokens of an arm came while the loop was full. "
            "More requests (--repeat) make the figures more exact.\n"
        )
    if rejected := sum(each["rejected"] for each in found):
        text += f"\nThe server refused {rejected} requests.\n"
    return text


def _level_row(arm: dict, level: dict, found: dict) -> list[str]:
    def cell(key: str, quantile: str, scale: float) -> str:
        return f"{scale * found[key][quantile]:.1f}" if found[key] else "–"

    ratio = ratio_to_plain(arm, level)
    return [
        arm["policy"],
        f"{found['system_tokens_per_second']:.1f}",
        f"{ratio['median']:.2f}× ({ratio['low']:.2f}–{ratio['high']:.2f})" if ratio else "–",
        cell("stream_tokens_per_second", "p50", 1),
        *(cell("ttft_seconds", quantile, 1e3) for quantile in ("p50", "p99")),
        *(cell("gap_seconds", quantile, 1e3) for quantile in ("p50", "p90", "p99")),
        f"{found['goodput_tokens_per_second']:.1f}",
        f"{found['fairness']:.3f}",
    ]


# ---- reliability ----


def _reliability(arm: dict, when: str) -> Bins:
    """The bins of all rounds, added up. `when`: "before" or "after" calibration."""
    bins: Bins = [[0, 0, 0.0] for _ in range(BINS)]
    for run in arm["rounds"]:
        for mine, more in zip(bins, (run["reliability"] or {}).get(when, [])):
            for index, value in enumerate(more):
                mine[index] += value
    return bins


def _count(bins: Bins) -> float:
    return sum(count for count, _, _ in bins)


def _calibration_error(bins: Bins) -> float:
    """The mean of |mean stated − accepted share| over the bins, weighted by their counts."""
    error = 0.0
    for _, accepted, stated in bins:
        error += abs(stated - accepted)
    return error / _count(bins)


def _reliability_json(bins: Bins) -> dict | None:
    if _count(bins) == 0:
        return None
    return {
        "expected_calibration_error": _calibration_error(bins),
        "bins": [
            {"count": count, "mean_stated": stated / max(1, count), "accepted_share": accepted / max(1, count)}
            for count, accepted, stated in bins
        ],
    }


def _reliability_table(level: dict) -> str:
    """Empty if no arm collected it."""
    rows = []
    for arm in level["arms"]:
        before, after = (_reliability(arm, when) for when in ("before", "after"))
        for name, bins in (
            (arm["policy"] + (", before" if _count(after) > 0 else ""), before),
            (f"{arm['policy']}, after", after),
        ):
            if _count(bins) > 0:
                rows.append([name, f"{_calibration_error(bins):.4f}", *map(_bin_cell, bins)])
    if not rows:
        return ""
    head = ["policy", "calibration error", *(f"from {index / BINS:.1f}" for index in range(BINS))]
    return f"\nStated probability → accepted share (nodes), by stated probability.\n\n{table(head, rows)}\n"


def _bin_cell(values: list[float]) -> str:
    """Mean stated probability, accepted share and count: "0.31 → 0.28 (1204)"."""
    count, accepted, stated = values
    return f"{stated / count:.2f} → {accepted / count:.2f} ({count})" if count else "–"
