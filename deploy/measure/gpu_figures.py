"""Values computed from the raw output of the GPU run, and its bars: requirements on some of these values (bars.py).

This module runs no program and writes no file.

Missing or incomplete output is ignored, because an interrupted run has only part of the output.
"""

from pathlib import Path
from statistics import median

from bars import Bar, Verdict, judge, measured
from gpu_steps import SWEEPS
from gpu_tables import differing_count
from program_output import differing_prompts, forward, load_json

NOISE = 0.03  # Relative error of the ratio of two policies' rates. The policies take turns on the same prompts.
LAYERS_8B = 36
BAR_CONTEXT = 2048  # Cached tokens, in the bars `decode` and `verify`.
PAIRS = ("4b", "8b", "demo")
FULL_SHAPE = "the Qwen3-8B shape"

# Dense bf16 products, in FLOP/s, by a part of the GPU's name.
BF16_RATES = {"H100": 989e12, "H200": 989e12}
# `default` under load: at least these ratios to plain decoding, by live requests.
LOAD_RATIOS = {1: 3.2, 4: 2.4, 16: 1.9, 64: 1.2}

BARS = [
    Bar("tests", "kernel and engine tests that failed or did not run", 0, "", at_most=True),
    Bar("decode", "plain step, Qwen3-8B shape: share of the bandwidth bound", 0.78, "%", needs=FULL_SHAPE),
    Bar("decode_4b", "plain step, Qwen3-4B shape: share of the bandwidth bound", 0.68, "%", needs=FULL_SHAPE),
    Bar("attention_long", "attention, 32 rows after 32768 tokens: share of the memory bandwidth", 0.58, "%"),
    Bar("attention_long_one", "attention, 1 row after 32768 tokens: share of the memory bandwidth", 0.72, "%"),
    Bar("attention_one", "attention, 1 row after 2048 tokens: time of one layer", 6.8, "µs", at_most=True),
    Bar("attention_short", "attention, 32 rows after 2048 tokens: time of one layer", 11.0, "µs", at_most=True),
    Bar("attention_many", "attention, 64 rows after 2048 tokens: time of one layer", 15.0, "µs", at_most=True),
    Bar(
        "verify",
        "verify of 64 rows, relative to one row, Qwen3-8B shape after 2048 tokens",
        1.27,
        "×",
        at_most=True,
        needs=FULL_SHAPE,
    ),
    Bar("prompts", "products of 2048 rows, Qwen3-8B shape: share of the bf16 rate", 0.60, "%"),
    Bar(
        "adaptive",
        "`adaptive`, relative to the best of `bastion` and the fixed budgets, Qwen3-8B shape (3 % is noise)",
        1 - NOISE,
        "×",
        needs=FULL_SHAPE,
    ),
    Bar("default", "`default`, relative to plain decoding, Qwen3-8B shape, one request", 3.5, "×", needs=FULL_SHAPE),
    Bar("default_rate", "`default`, Qwen3-8B shape, one request", 870, "tokens/s", needs=FULL_SHAPE),
    *(
        Bar(f"load_{live}", f"`default` at {live} live requests, relative to plain decoding", ratio, "×", needs=FULL_SHAPE)
        for live, ratio in LOAD_RATIOS.items()
    ),
    Bar("load_plain", "`adaptive` and `default` under load, relative to plain decoding: the lowest", 0.99, "×"),
    Bar("load_best", "`default` under load, relative to the best other policy: the lowest", 0.98, "×"),
    Bar("services", "`default` through services, relative to in process, Qwen3-8B shape", 0.92, "×", needs=FULL_SHAPE),
    Bar("exact_bf16", "answers that differ from plain decoding, 8B shape in bf16, in process", 0, "", at_most=True),
    Bar("exact", "prompts whose answer from the services differs from plain decoding, demo pair in fp32", 0, "", at_most=True),
]


def load(raw: Path) -> dict:
    """All raw output that exists, by part."""
    sweeps = [found for name in SWEEPS if (found := load_json(raw / f"sweep/{name}.json"))]
    by_folder = lambda kind, file, names=PAIRS: {  # noqa: E731
        name: found for name in names if (found := load_json(raw / f"{kind}_{name}" / file))
    }
    vocabularies = [folder.name.removeprefix("vocabulary_") for folder in sorted(raw.glob("vocabulary_*"))]
    chat = load_json(raw / "chat/results.json") or {}
    return {
        "machine": load_json(raw / "machine.json") or {},
        "steps": load_json(raw / "steps.json") or {},
        "kernels": load_json(raw / "kernels/programs.json") or {},
        "sweep": {"device": sweeps[0]["device"], "figures": [figure for sweep in sweeps for figure in sweep["figures"]]}
        if sweeps
        else {},
        "roofline": by_folder("roofline", "roofline.json"),
        **{
            kind: by_folder(kind, "results.json")
            for kind in ("decode", "load", "services", "sampled", "sampled_load", "int8", "long")
        },
        # The chat model drafts all tokens where its policies are compared.
        "vocabulary": by_folder("vocabulary", "results.json", vocabularies) | ({"chat_0": chat} if chat else {}),
        "chat": chat,
        "peers": by_folder("peers", "peers.json"),
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


def tokens_per_second(results: dict, name: str) -> float | None:
    """The tokens per second of a policy over all its prompts. None if it did not run."""
    for policy in results.get("policies", []):
        if policy["policy"] == name and policy["prompts"]:
            tokens = sum(len(prompt["output_token_ids"]) for prompt in policy["prompts"])
            return tokens / sum(prompt["seconds"] for prompt in policy["prompts"])
    return None


def bf16_share(found: dict) -> dict | None:
    """The rate of the products of 2048 rows of a layer of the 8B shape, relative to what the GPU can multiply."""
    rate = next((rate for name, rate in BF16_RATES.items() if name in device_name(found)), None)
    entries = [
        entry
        for entry in found["sweep"].get("figures", [])
        if entry["part"] == "product" and entry["rows"] == 2048 and "Qwen3-8B" in entry["work"] and "head" not in entry["work"]
    ]
    if rate is None or not entries:
        return None
    micros = sum(entry["us"] for entry in entries)
    flops = sum(entry["tflops"] * 1e12 * entry["us"] for entry in entries) / micros
    return measured(flops / rate, f"{flops / 1e12:.0f} TFLOP/s")


def load_bars(results: dict) -> dict[str, dict | None]:
    """The bars of closed loops. Each ratio is the median over the rounds."""
    bars: dict[str, dict | None] = {}
    plain, best = [], []
    for level in results["levels"]:
        ratios = {arm["policy"]: arm["ratio_to_ar"]["median"] for arm in level["arms"] if arm.get("ratio_to_ar")}
        live = level["concurrency"]
        plain += [(ratios[name], f"{name} at {live}") for name in ("adaptive", "default") if name in ratios]
        if "default" not in ratios:
            continue
        bars[f"load_{live}"] = measured(ratios["default"])
        if others := {name: ratio for name, ratio in ratios.items() if name != "default"}:
            other = max(others, key=lambda name: others[name])
            best.append((ratios["default"] / others[other], f"{other} at {live}"))
    for key, values in (("load_plain", plain), ("load_best", best)):
        if values:
            bars[key] = measured(*min(values))
    return bars


def kernel_bars(found: dict) -> dict[str, dict | None]:
    """The bars of the sweep."""
    bars = {"prompts": bf16_share(found)}
    for key, rows in (("attention_long", 32), ("attention_long_one", 1)):
        if long := figure(found, "attention", "over 32768", rows):
            bars[key] = measured(long.get("share_of_memory", 0.0), f"{long['us']:.1f} µs")
    for key, rows in (("attention_one", 1), ("attention_short", 32), ("attention_many", 64)):
        if short := figure(found, "attention", f"over {BAR_CONTEXT}", rows):
            bars[key] = measured(short["us"])
    return bars


def step_bars(found: dict) -> dict[str, dict | None]:
    """The bars of plain steps and of verifies."""
    bars: dict[str, dict | None] = {}
    for key, size in (("decode", "8b"), ("decode_4b", "4b")):
        if plain := forward(found["roofline"].get(size, {}), 1, BAR_CONTEXT):
            note = f"after {BAR_CONTEXT} tokens, {1e3 * plain['seconds']:.2f} ms"
            bars[key] = measured(plain["bound_seconds"] / plain["seconds"], note)
    eight = found["roofline"].get("8b", {})
    plain, tree = forward(eight, 1, BAR_CONTEXT), forward(eight, 64, BAR_CONTEXT)
    if plain and tree:
        bars["verify"] = measured(tree["seconds"] / plain["seconds"], f"{1e3 * tree['seconds']:.2f} ms")
    return bars


def policy_bars(found: dict) -> dict[str, dict | None]:
    """The bars of policies with one request, and of texts."""
    bars: dict[str, dict | None] = {}
    decode = found["decode"].get("8b", {"policies": []})
    if ratios := relative_to_papers(decode):
        best = min(ratios, key=lambda policy: ratios[policy])
        bars["adaptive"] = measured(ratios[best], best)
    plain, default = tokens_per_second(decode, "ar"), tokens_per_second(decode, "default")
    if plain and default:
        bars["default"] = measured(default / plain, f"{default:.0f} tokens/s")
        bars["default_rate"] = measured(default)
    through = tokens_per_second(found["services"].get("8b", {}), "default")
    if default and through:
        bars["services"] = measured(through / default, f"{through:.0f} tokens/s")
    if demo := found["services"].get("demo"):
        differing = differing_prompts(demo)
        bars["exact"] = measured(len({name for names in differing.values() for name in names}), ", ".join(differing))
    if found["decode"].get("8b"):
        count, where = differing_count(found, "8b")
        bars["exact_bf16"] = measured(count, "; ".join(where))
    return bars


def measured_bars(found: dict) -> dict[str, dict | None]:
    """The measured values, by the key of the bar."""
    loads = load_bars(found["load"]["8b"]) if "8b" in found["load"] else {}
    return {"tests": failed_tests(found)} | step_bars(found) | kernel_bars(found) | policy_bars(found) | loads


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
