"""Reads the output of the measured programs.

These are results.json and roofline.json of bastion-bench, the JSON of gtest and of the transport benchmark,
and the lines that cycle_counts_test prints.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import median

HOST_STAGES = ("tree", "commit", "transfer")
STAGES = ("draft", "tree", "verify", "commit", "transfer")


def load_json(path: Path):
    """The file's content, or None if the file is missing or incomplete."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


# ---- bastion-bench: results.json ----


def differing_prompts(results: dict) -> dict[str, list[str]]:
    """By policy, the ids of the prompts whose output tokens differ from those of the first policy, plain decoding."""
    first, *others = results["policies"]
    return {
        policy["policy"]: [
            mine["id"]
            for mine, plain in zip(policy["prompts"], first["prompts"])
            if mine["output_token_ids"] != plain["output_token_ids"]
        ]
        for policy in others
    }


def differing_text(results: dict) -> str:
    """The policies whose texts differ from plain decoding, with the number of prompts. Empty: there are none."""
    return ", ".join(f"{policy}: {len(prompts)}" for policy, prompts in differing_prompts(results).items() if prompts)


def _cycle_means(policy: dict) -> dict:
    """The policy's rates, and means over its cycles in milliseconds."""
    prompts = policy["prompts"]
    cycles = max(1, sum(len(prompt["committed_lengths"]) for prompt in prompts))
    mean = {stage: 1e3 * sum(prompt["stage_seconds"][stage] for prompt in prompts) / cycles for stage in STAGES}
    whole = 1e3 * sum(prompt["seconds"] for prompt in prompts) / cycles
    nodes = [count for prompt in prompts for count in prompt.get("nodes_per_cycle", [])]
    return {
        "policy": policy["policy"],
        "rate": policy["tokens_per_second"],
        "tau": policy["tau"],
        **mean,
        "cycle": whole,
        "host": _share(sum(mean[stage] for stage in HOST_STAGES), whole),
        "nodes": sum(nodes) / len(nodes) if nodes else 0,
        "prediction_error": policy.get("verify_prediction_error_median", 0),
        "prompts": len(prompts),
    }


def policies(results: dict) -> list[dict]:
    """A row for each policy: tokens/s, speedup, τ, the means of a cycle in ms, and these shares.

    ideal  τ·T_AR / (T_verify + T_draft): the speedup if only forwards took time. T_AR is the verify time of plain decoding.
    share  measured speedup / ideal
    host   share of a cycle that tree, commit and transfer take
    speedup, ideal and share are None if plain decoding (`ar`) did not run.
    """
    rows, differing = [_cycle_means(policy) for policy in results["policies"]], differing_prompts(results)
    plain = row_of(rows, "ar")
    for row in rows:
        row["speedup"] = _share(row["rate"], plain["rate"] if plain else None)
        row["ideal"] = _share(row["tau"] * plain["verify"] if plain else None, row["verify"] + row["draft"])
        row["share"] = _share(row["speedup"], row["ideal"])
        row["differing"] = len(differing.get(row["policy"], []))
    return rows


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def row_of(rows: list[dict], policy: str) -> dict | None:
    return next((row for row in rows if row["policy"] == policy), None)


def predictions(results: dict) -> list[dict]:
    """By number of rows, over all policies: medians of the predicted and measured verify time in ms, and of the relative error."""
    by_rows = defaultdict(list)
    for policy in results["policies"]:
        for rows, predicted, seconds in policy.get("verify_trace", []):
            if seconds > 0:
                by_rows[rows].append((1e3 * predicted, 1e3 * seconds))
    return [
        {
            "rows": rows,
            "cycles": len(pairs),
            "predicted": median(p for p, _ in pairs),
            "measured": median(m for _, m in pairs),
            "error": median(abs(p - m) / m for p, m in pairs),
        }
        for rows, pairs in sorted(by_rows.items())
    ]


# ---- bastion-bench --roofline: roofline.json ----


def target_forwards(roofline: dict) -> list[dict]:
    """The forwards of the target. Excludes those of the drafter."""
    return [entry for entry in roofline.get("forwards", []) if entry["forward"] != "draft"]


def forward(roofline: dict, rows: int, context: int) -> dict | None:
    """The target's forward with `rows` rows after `context` cached tokens."""
    return next((entry for entry in target_forwards(roofline) if (entry["rows"], entry["context"]) == (rows, context)), None)


def contexts(roofline: dict) -> list[int]:
    return sorted({entry["context"] for entry in target_forwards(roofline)})


def row_ratios(roofline: dict, context: int) -> dict[int, float]:
    """The target's time by number of rows, relative to one row. Empty if one row was not measured."""
    seconds = {entry["rows"]: entry["seconds"] for entry in target_forwards(roofline) if entry["context"] == context}
    return {rows: value / seconds[1] for rows, value in sorted(seconds.items())} if 1 in seconds else {}


# ---- tests and benchmarks ----


def test_counts(output: dict) -> dict:
    """From one program's gtest JSON: tests passed, failed and skipped, and the names of those that did not pass."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    names: list[str] = []
    for suite in output["testsuites"]:
        for test in suite["testsuite"]:
            kind = "failed" if "failures" in test else "skipped" if test["result"] == "SKIPPED" else "passed"
            if test.get("status") == "RUN":
                counts[kind] += 1
                if kind != "passed":
                    names.append(f"{suite['name']}.{test['name']}: {kind}")
    return {**counts, "names": names}


def transport_times(report: dict) -> dict[str, dict[str, tuple[float, float]]]:
    """p50 and p99 in µs by carrier and setting, from transport_benchmark's JSON."""
    times: dict[str, dict[str, tuple[float, float]]] = {"inline": {}, "shared": {}}
    for entry in report["benchmarks"]:
        setting = dict(re.findall(r"(\w+):(\d+)", entry["name"]))
        name = f"{'5 × 4096, 15 × 64' if setting['large'] == '1' else '3 × 320, 7 × 64'}; {setting['compute']} µs"
        times["shared" if setting["shared"] == "1" else "inline"][name] = entry["p50_us"], entry["p99_us"]
    return times


def cycle_counts(output: str) -> dict[str, dict[str, float]]:
    """From the lines of cycle_counts_test: by policy, the number by unit."""
    found: dict[str, dict[str, float]] = {}
    for policy, text in re.findall(r"^(\S+): (.*) a cycle$", output, re.MULTILINE):
        for value, unit in re.findall(r"([\d.e+]+) (\w+)", text):
            found.setdefault(policy, {})[unit] = float(value)
    return found
