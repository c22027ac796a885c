"""The figures of a load: system throughput, latencies, goodput and fairness. Reads the runs of measurements.json.

Only what comes in a window counts: after its beginning, and not after its end.

  Closed loop: the window begins when each of the first `concurrency` requests has its first token (warm-up), and ends when a
  request ends that no other one replaces (drain). Before and after, fewer requests share the server than the level says.
  Open loop: the window goes from the first arrival to the last end, because the time that an overloaded server needs to
  catch up belongs to the load.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench_statistics import jains_index, lower_median, quantile, ratio, total


@dataclass(frozen=True)
class Targets:
    """Limits for a good request, in seconds."""

    gap: float = math.inf  # For the 99th percentile of the request's gaps.
    ttft: float = math.inf  # For the time to its first token.


def level_name(level: dict) -> str:
    """The level as text: "concurrency 4", "rate 2.5/s" or "arrivals in FILE"."""
    if "concurrency" in level:
        return f"concurrency {level['concurrency']}"
    return f"rate {level['rate']:g}/s" if "rate" in level else f"arrivals in {level['arrivals']}"


def window(run: dict, level: dict) -> tuple[float, float]:
    """Begin and end, in seconds since the load began. Equal if the loop was never full."""
    requests = run["requests"]
    if not requests:
        return 0.0, 0.0
    if "concurrency" not in level:
        return requests[0]["arrived"], _last_end(run)
    live = level["concurrency"]
    if len(requests) < live:
        return 0.0, 0.0
    begin = max([0.0, *(request["deltas"][0][0] for request in requests[:live] if request["deltas"])])
    # All but the last `live` ends are followed by a new request.
    end = sorted(request["ended"] for request in requests)[len(requests) - live]
    return begin, end


def figures(runs: Sequence[dict], level: dict, targets: Targets) -> dict:
    """The figures of all runs together. docs/measuring-load.md describes them. Quantiles are None if nothing counts."""
    windows = [window(run, level) for run in runs]
    counted = [(request, _counted(request, within)) for run, within in zip(runs, windows) for request in run["requests"]]
    window_seconds = total(max(0.0, end - begin) for begin, end in windows)
    seconds = total(_last_end(run) for run in runs)
    tokens = sum(len(request["output_token_ids"]) for request, _ in counted)
    window_tokens = sum(each.tokens for _, each in counted)
    requests = [request for request, _ in counted]
    rates = [
        len(request["output_token_ids"]) / (request["ended"] - request["arrived"])
        for request in requests
        if request["ended"] > request["arrived"]
    ]
    return {
        "requests": len(requests),
        "rejected": sum(run["rejected"] for run in runs),
        "seconds": seconds,
        "window_seconds": window_seconds,
        "window_share": ratio(window_tokens, tokens),
        "system_tokens_per_second": ratio(window_tokens, window_seconds),
        "all_tokens_per_second": ratio(tokens, seconds),
        "goodput_tokens_per_second": ratio(sum(each.tokens for _, each in counted if each.meets(targets)), window_seconds),
        "fairness": jains_index(rates),
        "ttft_seconds": _quantiles([each.ttft for _, each in counted if each.ttft is not None]),
        "gap_seconds": _quantiles([gap for _, each in counted for gap in each.gaps]),
        "token_seconds": _quantiles([seconds for _, each in counted for seconds in each.token_seconds]),
        "stream_tokens_per_second": _quantiles(
            [len(request["output_token_ids"]) / request["seconds"] for request in requests if request["seconds"] > 0]
        ),
    }


def throughput(runs: Sequence[dict], level: dict) -> float:
    """System tokens per second."""
    return figures(runs, level, Targets())["system_tokens_per_second"]


def ratio_to_plain(arm: dict, level: dict) -> dict | None:
    """The arm's throughput divided by that of `ar` in the same round: median and range. None if `ar` has none in a round."""
    plain = next((other for other in level["arms"] if other["policy"] == "ar"), None)
    if plain is None:
        return None
    ratios = []
    for mine, its in zip(arm["rounds"], plain["rounds"]):
        reference = throughput([its], level)
        if reference <= 0:
            return None
        ratios.append(throughput([mine], level) / reference)
    return {"median": lower_median(ratios), "low": min(ratios), "high": max(ratios)} if ratios else None


def _last_end(run: dict) -> float:
    return max([0.0, *(request["ended"] for request in run["requests"])])


def _quantiles(values: list[float]) -> dict | None:
    return {f"p{percent}": quantile(values, percent / 100) for percent in (50, 90, 99)} if values else None


@dataclass(frozen=True)
class _Counted:
    """What counts of one request."""

    tokens: int
    ttft: float | None
    gaps: list[float]
    token_seconds: list[float]  # One value per token: the gap before a delta, divided among its tokens.

    def meets(self, targets: Targets) -> bool:
        in_time = self.ttft is None or self.ttft <= targets.ttft
        return in_time and (not self.gaps or quantile(self.gaps, 0.99) <= targets.gap)


def _counted(request: dict, within: tuple[float, float]) -> _Counted:
    begin, end = within
    tokens, ttft, gaps, token_seconds = 0, None, [], []
    before = None
    for at, count in request["deltas"]:
        if begin < at <= end:
            tokens += count
            if before is None:
                ttft = at - request["arrived"]
            else:
                gaps.append(at - before)
                token_seconds += [(at - before) / count] * count
        before = at
    return _Counted(tokens, ttft, gaps, token_seconds)
