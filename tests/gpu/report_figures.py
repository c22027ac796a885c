"""What the raw output of tests/gpu/run.sh says: numbers and bars. Nothing is run or written here; what is missing or broken is
left out, as a run that was cut short has only a part."""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "client/bench"))
import figures_bars  # noqa: E402

NOISE = 0.03  # Of a ratio of two policies, on the same prompts in turns.
LAYERS_8B = 36
SWEEPS = ("device", "gemm", "attention", "choose", "rowwise")


@dataclass(frozen=True)
class Bar:
    """One requirement; `most`: the limit is the most, else the least. `of_pair`: asked of the Qwen3-8B shape."""

    key: str
    what: str
    limit: float
    unit: str
    most: bool = False
    of_pair: bool = False

    def format(self, value: float) -> str:
        if self.unit == "%":
            return f"{100 * value:.1f} %"
        return f"{value:.2f}×" if self.unit == "×" else f"{value:.2f} µs" if self.unit == "µs" else f"{value:g}"

    @property
    def required(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.format(self.limit)}"


BARS = [
    Bar("tests", "tests of the kernels and of the engines that failed or did not run", 0, "", most=True),
    Bar("decode", "plain step, Qwen3-8B shape: share of the bandwidth bound", 0.80, "%", of_pair=True),
    Bar("attention_long", "attention, 32 rows after 32768 tokens: share of the memory's bandwidth", 0.70, "%"),
    Bar("attention_short", "attention, 32 rows after 2048 tokens: one layer", 9.0, "µs", most=True),
    Bar("verify", "verify of 64 rows against one, Qwen3-8B shape after 2048 tokens", 1.15, "×", most=True, of_pair=True),
    Bar("adaptive", "`adaptive` against the best fixed budget, Qwen3-8B shape (3 % are noise)", 1 - NOISE, "×", of_pair=True),
    Bar("exact", "prompts whose text changes through services, demo pair in fp32", 0, "", most=True),
]


def load_json(path: Path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None  # Not there, or not whole.


def test_counts(output: dict) -> dict:
    """Passed, failed and skipped of one program's gtest JSON, and the names of those that did not pass."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "names": []}
    for suite in output["testsuites"]:
        for test in suite["testsuite"]:
            kind = "failed" if "failures" in test else "skipped" if test["result"] == "SKIPPED" else "passed"
            if test.get("status") == "RUN":
                counts[kind] += 1
                if kind != "passed":
                    counts["names"].append(f"{suite['name']}.{test['name']}: {kind}")
    return counts


def differing_prompts(results: dict) -> dict[str, list[str]]:
    """By policy, the prompts whose tokens are not those of the first policy."""
    first, *others = results["policies"]
    return {policy["policy"]: [mine["id"] for mine, plain in zip(policy["prompts"], first["prompts"])
                               if mine["output_token_ids"] != plain["output_token_ids"]] for policy in others}


def load(raw: Path) -> dict:
    """Everything that is there."""
    sweeps = [found for name in SWEEPS if (found := load_json(raw / f"sweep/{name}.json"))]
    by_folder = lambda kind, file: {  # noqa: E731
        folder.name.removeprefix(kind): found for folder in sorted(raw.glob(f"{kind}*")) if (found := load_json(folder / file))}
    return {"machine": load_json(raw / "machine.json") or {}, "steps": load_json(raw / "steps.json") or {},
            "kernels": load_json(raw / "kernels/programs.json") or {},
            "sweep": {"device": sweeps[0]["device"], "figures": [figure for sweep in sweeps for figure in sweep["figures"]]}
            if sweeps else {},
            "roofline": by_folder("roofline_", "roofline.json"), "decode": by_folder("decode_", "results.json"),
            "services": by_folder("services_", "results.json")}


def device_name(found: dict) -> str:
    """The GPU's if one was used."""
    reports = [*found["roofline"].values(), *found["decode"].values(), *found["services"].values()]
    names = [found["sweep"].get("device", {}).get("name"), *(report.get("device") for report in reports)]
    return next((name for name in names if name), "unknown: nothing told its device")


def forward(roofline: dict, rows: int, context: int) -> dict | None:
    """Of the target."""
    return next((entry for entry in roofline.get("forwards", []) if entry["forward"] != "draft" and entry["rows"] == rows
                 and entry["context"] == context), None)


def figure(found: dict, part: str, work: str, rows: int) -> dict | None:
    """Of the sweep, whose work ends like this."""
    return next((entry for entry in found["sweep"].get("figures", []) if entry["part"] == part and entry["work"].endswith(work)
                 and entry["rows"] == rows), None)


def against_fixed(results: dict) -> dict[str, float]:
    """Rate of `adaptive` against each fixed budget, the median over prompts."""
    rates = {policy["policy"]: [len(p["output_token_ids"]) / p["seconds"] for p in policy["prompts"]]
             for policy in results["policies"]}
    fixed = [name for name in rates if name.startswith("fixed:")]
    return {name: median(mine / other for mine, other in zip(rates["adaptive"], rates[name])) for name in fixed} \
        if "adaptive" in rates else {}


def failed_tests(found: dict) -> tuple[float, str] | None:
    """A program that ended badly without naming a test counts as one; a skipped test did not run."""
    if not found["kernels"]:
        return None
    ends = found["kernels"].values()
    bad = [end.get("failed", 0) + end.get("skipped", 0) for end in ends]
    total = sum(max(count, 1 if end["status"] != 0 or not end["whole"] else 0) for count, end in zip(bad, ends))
    return total, f"{sum(end.get('passed', 0) for end in ends)} passed, {len(found['kernels'])} programs"


def measured_bars(found: dict) -> dict[str, tuple[float, str]]:
    """Value and note of each bar that ran."""
    bars = {"tests": failed_tests(found)}
    eight = found["roofline"].get("8b", {})
    plain, tree = forward(eight, 1, 2048), forward(eight, 64, 2048)
    if plain:
        bars["decode"] = plain["bound_seconds"] / plain["seconds"], f"after 2048 tokens, {1e3 * plain['seconds']:.2f} ms"
    if plain and tree:
        bars["verify"] = tree["seconds"] / plain["seconds"], f"{1e3 * tree['seconds']:.2f} ms"
    if long := figure(found, "attention", "over 32768", 32):
        bars["attention_long"] = long.get("share_of_memory", 0.0), f"{long['us']:.1f} µs"
    if short := figure(found, "attention", "over 2048", 32):
        bars["attention_short"] = short["us"], ""
    if ratios := against_fixed(found["decode"].get("8b", {"policies": []})):
        best = min(ratios, key=ratios.get)
        bars["adaptive"] = ratios[best], best
    if "demo" in found["services"]:
        differing = differing_prompts(found["services"]["demo"])
        bars["exact"] = len({name for names in differing.values() for name in names}), ", ".join(differing)
    return {key: value for key, value in bars.items() if value is not None}


def judged(found: dict) -> list[dict]:
    """All bars, with what was measured and met, missed or not run."""
    measured, machine, verdicts = measured_bars(found), found["machine"], []
    for bar in BARS:
        value, note = measured.get(bar.key, (None, ""))
        verdict = "not run" if value is None else "met" if (value <= bar.limit if bar.most else value >= bar.limit) else "missed"
        nothing = "no GPU" if machine.get("device") != "cuda" else "other shapes" if bar.of_pair and machine.get("shape") else ""
        verdict = f"says nothing: {nothing}" if nothing and value is not None else verdict
        verdicts.append({"key": bar.key, "what": bar.what, "required": bar.required, "value": value, "note": note,
                         "measured": "–" if value is None else bar.format(value), "verdict": verdict})
    return verdicts


def policies(results: dict) -> list[dict]:
    """A row for each policy: rate, speed-up, τ, means of a cycle in ms, how well verifies were predicted."""
    figures = figures_bars.policy_figures(results)
    differing = differing_prompts(results)
    rows = []
    for policy in results["policies"]:
        nodes = [count for prompt in policy["prompts"] for count in prompt.get("nodes_per_cycle", [])]
        rows.append({"policy": policy["policy"], **figures[policy["policy"]], "nodes": sum(nodes) / len(nodes) if nodes else 0,
                     "prediction_error": policy.get("verify_prediction_error_median", 0),
                     "differing": len(differing.get(policy["policy"], [])), "prompts": len(policy["prompts"])})
    return rows


def predictions(results: dict) -> list[dict]:
    """Predicted and measured verifies by rows, over all policies: medians in ms, and of the relative error."""
    by_rows = defaultdict(list)
    for policy in results["policies"]:
        for rows, predicted, measured in policy.get("verify_trace", []):
            by_rows[rows].append((predicted, measured))
    return [{"rows": rows, "cycles": len(pairs), "predicted": 1e3 * median(p for p, _ in pairs),
             "measured": 1e3 * median(m for _, m in pairs), "error": median(abs(p - m) / m for p, m in pairs if m > 0)}
            for rows, pairs in sorted(by_rows.items()) if any(m > 0 for _, m in pairs)]


def microseconds(found: dict, part: str, work: str, rows: int) -> float | None:
    """Of the sweep; between two row counts that it has, on the line between them."""
    points = sorted((entry["rows"], entry["us"]) for entry in found["sweep"].get("figures", [])
                    if entry["part"] == part and entry["work"] == work)
    below, above = [p for p in points if p[0] <= rows], [p for p in points if p[0] >= rows]
    if not below or not above:
        return None
    (low, begin), (high, end) = below[-1], above[0]
    return begin if low == high else begin + (end - begin) * (rows - low) / (high - low)


def kernel_shares(found: dict, rows: int, context: int = 2048) -> dict | None:
    """What a step of the 8B shape takes by the sweep, in µs by kernel with the gap behind it, beside what was measured."""
    of_step = {name: (("gemm", f"Qwen3-8B {name} {shape}"), LAYERS_8B) for name, shape in (
        ("qkv", "6144 x 4096"), ("o", "4096 x 4096"), ("gate_up", "24576 x 4096"), ("down", "4096 x 12288"))}
    of_step["head"] = ("gemm", "Qwen3-8B head 151936 x 4096"), 1
    of_step["attention"] = ("attention", f"32:8 heads of 128 over {context}"), LAYERS_8B
    of_step["norms"] = ("rowwise", "norm"), 2 * LAYERS_8B + 1
    of_step["rotate and store"] = ("rowwise", "qkv"), LAYERS_8B
    of_step["activation"] = ("rowwise", "silu"), LAYERS_8B
    of_step["embedding"] = ("rowwise", "embed"), 1
    of_step["choice"] = ("choose", "greedy"), 1
    times = {name: microseconds(found, part, work, rows) for name, ((part, work), _) in of_step.items()}
    if any(time is None for time in times.values()):
        return None
    kernels = {name: times[name] * count for name, (_, count) in of_step.items()}
    step = forward(found["roofline"].get("8b", {}), rows, context)
    return {"rows": rows, "context": context, "kernels": kernels, "sum": sum(kernels.values()),
            "measured": 1e6 * step["seconds"] if step else None}
