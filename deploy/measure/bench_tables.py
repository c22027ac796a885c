"""The tables of bastion-bench's small reports: --roofline, --replay and --rejection_sampling."""

import itertools

from report import number, percent, table

RATE = "_flops_per_second"  # The end of a key. Before it: the weights' format.
SUMS = ("reached", "accepted", "overlap", "top")  # Sums over the cycles that reached a position.


def roofline(measurements: dict) -> str:
    """The machine's limits, and how close each forward comes to them."""
    rates = {key.removesuffix(RATE): rate for key, rate in measurements.items() if key.endswith(RATE)}
    products = ", ".join(f"{rate / 1e9:.0f} GFLOP/s in {weights}" for weights, rate in rates.items() if rate > 0)
    limits = f"read {measurements['read_bytes_per_second'] / 1e9:.1f} GB/s" + (
        f"; matrix products {products}" if products else ""
    )
    forwards = measurements["forwards"]
    one_row = {entry["context"]: entry["seconds"] for entry in reversed(forwards) if entry["forward"] == "decode"}
    rows = []
    for entry in forwards:
        seconds = entry["seconds"]
        rows.append(
            [
                entry["forward"],
                str(entry["context"]),
                str(entry["rows"]),
                f"{entry['bytes'] / 1e6:.1f}",
                f"{entry['flops'] / 1e9:.2f}",
                f"{1e3 * entry['bound_seconds']:.3f}",
                f"{1e3 * seconds:.3f}",
                f"{100 * entry['bound_seconds'] / seconds:.0f} %",
                f"{seconds / one_row.get(entry['context'], forwards[0]['seconds']):.2f}×",
            ]
        )
    head = ["forward", "context", "rows", "MB", "GFLOP", "bound ms", "measured ms", "bound / measured", "vs one row"]
    return f"{measurements['device']}\n{limits}\n\n{table(head, rows)}\n"


def replay(measurements: dict) -> str:
    """The errors of each latency estimator, and what they cost. "–": the recording has no choice of sizes."""
    rows = []
    for entry in measurements["estimators"]:
        regret = ["–", "–"]
        if "regret_share" in entry:
            regret = [f"{entry['regret_tokens_per_second']:.1f}", f"{100 * entry['regret_share']:.2f} %"]
        errors = [f"{100 * entry[key]:.1f} %" for key in ("median_error", "p95_error")]
        rows.append([entry["name"], f"{1e3 * entry['rmse_seconds']:.3f}", *errors, *regret])
    return (
        f"{measurements['device']}: {measurements['cycles']} cycles, "
        f"{measurements['compared_cycles']} with a choice of sizes.\n\n"
        + table(["estimator", "RMSE ms", "median error", "p95 error", "regret tokens/s", "regret"], rows)
        + "\n"
    )


def rejection_sampling(measurements: dict) -> str:
    """τ and acceptance of chains by the keyed choice, and by rejection sampling (SpS). Then the same for each position."""
    rows, by_position = [], []
    for chain in measurements["chains"]:
        keyed, sampled = chain["keyed"], chain["sampled"]
        rows.append(
            [
                chain["policy"],
                number(_mean(keyed["committed"], keyed["cycles"])),
                *_shares(_total(keyed), "accepted", "top", "overlap"),
                number(_mean(sampled["committed"], sampled["cycles"])),
                *_shares(_total(sampled), "accepted", "overlap"),
                str(sampled["cycles"]),
            ]
        )
        for position, (by_key, by_ratio) in enumerate(
            itertools.zip_longest(keyed["positions"], sampled["positions"], fillvalue=dict.fromkeys(SUMS, 0)), start=1
        ):
            by_position.append(
                [
                    chain["policy"],
                    str(position),
                    str(by_key["reached"]),
                    *_shares(by_key, "accepted", "top", "overlap"),
                    str(by_ratio["reached"]),
                    *_shares(by_ratio, "accepted", "overlap"),
                ]
            )
    settings = measurements["settings"]
    by_key = ["accepted", "p(argmax q)", "Σ min(p, q)"]
    by_ratio = ["accepted", "Σ min(p, q)"]
    return (
        f"{measurements['device']}: {measurements['target']} with {measurements['drafter']}, "
        f"T = {settings['temperature']:g}, seed {settings['seed']}\n\n"
        + table(["policy", "keyed τ", *by_key, "SpS τ", *by_ratio, "SpS cycles"], rows)
        + "\n\n"
        + table(["policy", "position", "keyed: reached", *by_key, "SpS: reached", *by_ratio], by_position)
        + "\n"
    )


def _mean(part: float, count: int) -> float | None:
    return part / count if count else None


def _total(sums: dict) -> dict:
    return {key: sum(position[key] for position in sums["positions"]) for key in SUMS}


def _shares(position: dict, *keys: str) -> list[str]:
    return [percent(_mean(position[key], position["reached"])) for key in keys]
