"""Values computed from the raw output of the GPU run, and its bars: requirements on some of these values (bars.py).

This module runs no program and writes no file.

Missing or incomplete output is ignored, because an interrupted run has only part of the output.
"""

from pathlib import Path
from statistics import median

from bars import Bar, Verdict, judge, measured
from gpu_steps import SWEEPS
from program_output import differing_prompts, forward, load_json

NOISE = 0.03  # Relative error of the ratio of two policies' rates. The policies take turns on the same prompts.
LAYERS_8B = 36
BAR_CONTEXT = 2048  # Cached tokens, in the bars `decode` and `verify`.
FULL_SHAPE = "the Qwen3-8B shape"

BARS = [
    Bar("tests", "kernel and engine tests that failed or did not run", 0, "", at_most=True),
    Bar("decode", "plain step, Qwen3-8B shape: share of the bandwidth bound", 0.80, "%", needs=FULL_SHAPE),
    Bar("attention_long", "attention, 32 rows after 32768 tokens: share of the memory bandwidth", 0.70, "%"),
    Bar("attention_short", "attention, 32 rows after 2048 tokens: time of one layer", 9.0, "µs", at_most=True),
    Bar("attention_one", "attention, 1 row after 2048 tokens: time of one layer", 6.8, "µs", at_most=True),
    Bar("attention_many", "attention, 64 rows after 2048 tokens: time of one layer", 15.0, "µs", at_most=True),
    Bar(
        "verify",
        "verify of 64 rows, relative to one row, Qwen3-8B shape after 2048 tokens",
        1.15,
        "×",
        at_most=True,
        needs=FULL_SHAPE,
    ),
    Bar(
        "adaptive",
        "`adaptive`, relative to the best of `bastion` and the fixed budgets, Qwen3-8B shape (3 % is noise)",
        1 - NOISE,
        "×",
        needs=FULL_SHAPE,
    ),
    Bar("exact_bf16", "prompts whose answer differs from plain decoding, 8B shape in bf16, in process", 0, "", at_most=True),
    Bar("exact", "prompts whose answer from the services differs from plain decoding, demo pair in fp32", 0, "", at_most=True),
]


def load(raw: Path) -> dict:
    """All raw output that exists, by part."""
    sweeps = [found for name in SWEEPS if (found := load_json(raw / f"sweep/{name}.json"))]
    by_folder = lambda kind, file: {  # noqa: E731
        folder.name.removeprefix(kind): found for folder in sorted(raw.glob(f"{kind}*")) if (found := load_json(folder / file))
    }
    return {
        "machine": load_json(raw / "machine.json") or {},
        "steps": load_json(raw / "steps.json") or {},
        "kernels": load_json(raw / "kernels/programs.json") or {},
        "sweep": {"device": sweeps[0]["device"], "figures": [figure for sweep in sweeps for figure in sweep["figures"]]}
        if sweeps
        else {},
        "roofline": by_folder("roofline_", "roofline.json"),
        "decode": by_folder("decode_", "results.json"),
        "services": by_folder("services_", "results.json"),
    }


def device_name(found: dict) -> str:
    """The name of the GPU, or "unknown device"."""
    reports = [*found["roofline"].values(), *found["decode"].values(), *found["services"].values()]
    names = [found["sweep"].get("device", {}).get("name"), *(report.get("device") for report in reports)]
    return next((name for name in names if name), "unknown device")


def figure(found: dict, part: str, work: str, rows: int) -> dict | None:
    """The sweep's measurement of `part` with `rows` rows whose description ends with `work`."""
    return next(
        (
            entry
            for entry in found["sweep"].get("figures", [])
            if entry["part"] == part and entry["work"].endswith(work) and entry["rows"] == rows
        ),
        None,
    )


def relative_to_papers(results: dict) -> dict[str, float]:
    """For `bastion` and each fixed budget that ran: rate of `adaptive` / rate of that policy, median over prompts.

    Empty if `adaptive` did not run.
    """
    rates = {
        policy["policy"]: [len(p["output_token_ids"]) / p["seconds"] for p in policy["prompts"]]
        for policy in results["policies"]
    }
    others = [name for name in rates if name.startswith("fixed:") or name == "bastion"]
    return (
        {name: median(mine / other for mine, other in zip(rates["adaptive"], rates[name])) for name in others}
        if "adaptive" in rates
        else {}
    )


def failed_tests(found: dict) -> dict | None:
    """The number of failed and skipped tests. A program that crashed without naming a test counts as one."""
    if not found["kernels"]:
        return None
    results = found["kernels"].values()
    bad = [result.get("failed", 0) + result.get("skipped", 0) for result in results]
    total = sum(max(count, 1 if result["status"] != 0 or not result["complete"] else 0) for count, result in zip(bad, results))
    return measured(total, f"{sum(result.get('passed', 0) for result in results)} passed, {len(found['kernels'])} programs")


def measured_bars(found: dict) -> dict[str, dict | None]:
    """The measured values, by the key of the bar."""
    bars = {"tests": failed_tests(found)}
    eight = found["roofline"].get("8b", {})
    plain, tree = forward(eight, 1, BAR_CONTEXT), forward(eight, 64, BAR_CONTEXT)
    if plain:
        bars["decode"] = measured(
            plain["bound_seconds"] / plain["seconds"], f"after {BAR_CONTEXT} tokens, {1e3 * plain['seconds']:.2f} ms"
        )
    if plain and tree:
        bars["verify"] = measured(tree["seconds"] / plain["seconds"], f"{1e3 * tree['seconds']:.2f} ms")
    if long := figure(found, "attention", "over 32768", 32):
        bars["attention_long"] = measured(long.get("share_of_memory", 0.0), f"{long['us']:.1f} µs")
    for key, rows in (("attention_one", 1), ("attention_short", 32), ("attention_many", 64)):
        if short := figure(found, "attention", f"over {BAR_CONTEXT}", rows):
            bars[key] = measured(short["us"])
    if ratios := relative_to_papers(found["decode"].get("8b", {"policies": []})):
        best = min(ratios, key=lambda policy: ratios[policy])
        bars["adaptive"] = measured(ratios[best], best)
    for key, results in (("exact", found["services"].get("demo")), ("exact_bf16", found["decode"].get("8b"))):
        if results:
            differing = differing_prompts(results)
            bars[key] = measured(len({name for names in differing.values() for name in names}), ", ".join(differing))
    return bars


def judge_all(found: dict) -> list[Verdict]:
    bars, machine = measured_bars(found), found["machine"]

    def excluded(bar: Bar) -> str:
        if machine.get("device") != "cuda":
            return "no GPU was used"
        return "the run changed the shape of its models" if bar.needs == FULL_SHAPE and machine.get("shape") else ""

    return [judge(bar, bars.get(bar.key), excluded=excluded(bar)) for bar in BARS]


def microseconds(found: dict, part: str, work: str, rows: int) -> float | None:
    """The sweep's time in µs, interpolated between the two nearest row counts. None outside the sweep's range."""
    points = sorted(
        (entry["rows"], entry["us"])
        for entry in found["sweep"].get("figures", [])
        if entry["part"] == part and entry["work"] == work
    )
    below, above = [p for p in points if p[0] <= rows], [p for p in points if p[0] >= rows]
    if not below or not above:
        return None
    (low, begin), (high, end) = below[-1], above[0]
    return begin if low == high else begin + (end - begin) * (rows - low) / (high - low)


def kernel_shares(found: dict, rows: int, context: int = BAR_CONTEXT) -> dict | None:
    """The time of a step of the 8B shape according to the sweep: µs by kernel, their sum, and the measured time of the step.

    The time of a kernel includes the idle time before the next kernel. None if the sweep lacks a kernel.
    """
    # Older reports have cuBLASLt's products only, and an activation of its own.
    exact = any(entry["part"] == "product" for entry in found["sweep"].get("figures", []))
    product = "product" if exact else "gemm"
    of_step = {
        name: ((product, f"Qwen3-8B {name} {shape}"), LAYERS_8B)
        for name, shape in (("qkv", "6144 x 4096"), ("o", "4096 x 4096"), ("gate_up", "24576 x 4096"), ("down", "4096 x 12288"))
    }
    of_step["head"] = (product, "Qwen3-8B head 151936 x 4096"), 1
    of_step["attention"] = ("attention", f"32:8 heads of 128 over {context}"), LAYERS_8B
    of_step["norms"] = ("rowwise", "norm"), 2 * LAYERS_8B + 1
    of_step["rotate and store"] = ("rowwise", "qkv"), LAYERS_8B
    if not exact:
        of_step["activation"] = ("rowwise", "silu"), LAYERS_8B
    of_step["embedding"] = ("rowwise", "embed"), 1
    of_step["choice"] = ("choose", "greedy"), 1
    kernels = {}
    for name, ((part, work), count) in of_step.items():
        time = microseconds(found, part, work, rows)
        if time is None:
            return None
        kernels[name] = time * count
    step = forward(found["roofline"].get("8b", {}), rows, context)
    return {
        "rows": rows,
        "context": context,
        "kernels": kernels,
        "sum": sum(kernels.values()),
        "measured": 1e6 * step["seconds"] if step else None,
    }
