"""System throughput of closed loops, by the same definition as bastion-bench (load_figures.py), and a table."""

from dataclasses import dataclass, field
from statistics import median

from report import number, table
from runner import Failed


@dataclass
class Stream:
    """The tokens of a request in a closed loop, and the seconds at which they came."""

    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@dataclass
class LoadArm:
    """An engine with a policy, and its system throughput by concurrency, one value for each round."""

    name: str
    rates: dict[int, list[float]] = field(default_factory=dict)

    def add(self, concurrency: int, rate: float) -> None:
        self.rates.setdefault(concurrency, []).append(rate)


def system_rate(streams: list[Stream], concurrency: int) -> float:
    """Tokens per second while the loop is full.

    It is full from the time when each of the first `concurrency` requests has its first token, to the first end of a
    request that no other request replaces. `streams` are in the order in which they began, at least `concurrency`.
    """
    begin = max(stream.times[0] for stream in streams[:concurrency])
    end = sorted(stream.times[-1] for stream in streams)[len(streams) - concurrency]
    if begin >= end:
        raise Failed(f"the loop of {concurrency} requests was never full; raise --count or --max_new_tokens")
    return sum(begin < at <= end for stream in streams for at in stream.times) / (end - begin)


def add_levels(arms: dict[str, LoadArm], prefix: str, results: dict) -> None:
    """Adds the closed loops of bastion-bench's results.json to the arms "PREFIX POLICY"."""
    for level in results["levels"]:
        for arm in level["arms"]:
            name = f"{prefix} {arm['policy']}"
            arms.setdefault(name, LoadArm(name)).add(level["concurrency"], arm["system_tokens_per_second"])


def round_ratios(arm: LoadArm, reference: LoadArm, concurrency: int) -> list[float]:
    """The arm's throughput relative to the reference's, by round."""
    return [mine / theirs for mine, theirs in zip(arm.rates[concurrency], reference.rates[concurrency], strict=True)]


def loads_table(arms: list[LoadArm], reference: LoadArm) -> str:
    """System throughput by concurrency. All ratios are relative to the reference at the same concurrency."""
    rows = []
    for concurrency in reference.rates:
        for arm in arms:
            ratios = round_ratios(arm, reference, concurrency)
            rows.append(
                [
                    str(concurrency),
                    arm.name,
                    number(median(arm.rates[concurrency]), 1),
                    number(median(ratios), 2, "×"),
                    f"{number(min(ratios))} to {number(max(ratios))}",
                ]
            )
    head = ["concurrency", "engine, policy", "tokens/s, system", f"median ratio to {reference.name}", "range over the rounds"]
    return table(head, rows, text_columns=(1,))
