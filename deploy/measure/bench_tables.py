"""The tables of bastion-bench's two small reports: --roofline and --replay."""

from report import table

RATE = "_flops_per_second"  # The end of a key. Before it: the weights' format.


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
