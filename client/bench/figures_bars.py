"""What figures.py requires, and what it concludes from raw output. Nothing is run here."""

import re
from dataclasses import dataclass
from statistics import median

from compare_common import Arm

HOST_STAGES = ("tree", "commit", "transfer")
FORMATS = {"%": lambda value: f"{100 * value:.1f} %", "×": lambda value: f"{value:.2f}×", "": lambda value: f"{value:g}",
           "µs": lambda value: f"{value:.0f} µs", "s": lambda value: f"{value:.1f} s"}


@dataclass(frozen=True)
class Bar:
    """One requirement; `key` begins with its section's name."""

    key: str
    what: str
    limit: float
    unit: str
    most: bool = False  # The limit is the most; else the least.
    amx: bool | None = None  # Asked only of CPUs with AMX, or without; None: of all.

    @property
    def required(self) -> str:
        return f"{'≤' if self.most else '≥'} {FORMATS[self.unit](self.limit)}"

    def met(self, value: float) -> bool:
        return value <= self.limit if self.most else value >= self.limit


BARS = [
    Bar("machine.decode", "plain step of the inflated pair: share of the measured read bandwidth", 0.85, "%"),
    Bar("machine.rows16", "verify of 16 rows against one, inflated pair, with AMX", 1.15, "×", most=True, amx=True),
    Bar("machine.rows32", "verify of 32 rows against one, inflated pair, with AMX", 1.5, "×", most=True, amx=True),
    Bar("machine.rows64", "verify of 64 rows against one, inflated pair, with AMX", 1.7, "×", most=True, amx=True),
    Bar("machine.rows4", "verify of 4 rows against one, inflated pair, without AMX", 1.2, "×", most=True, amx=False),
    Bar("machine.rows8", "verify of 8 rows against one, inflated pair, without AMX", 2.0, "×", most=True, amx=False),
    Bar("inflated.adaptive_amx", "`adaptive` against plain, inflated pair, with AMX", 2.0, "×", amx=True),
    Bar("inflated.adaptive", "`adaptive` against plain, inflated pair, without AMX", 1.3, "×", amx=False),
    Bar("inflated.share", "every policy's share of τ·T_AR/(T_verify+T_draft), inflated pair", 0.85, "%"),
    Bar("demo.share", "every policy's share of τ·T_AR/(T_verify+T_draft), demo pair", 0.85, "%"),
    Bar("demo.host", "host's share of a cycle (tree, commit, transfer), demo pair", 0.05, "%", most=True),
    Bar("llama.demo", "plain against llama.cpp in bf16, demo pair", 1.0, "×"),
    Bar("llama.inflated", "plain against llama.cpp in bf16, inflated pair", 1.2, "×"),
    Bar("llama.speculative_demo", "speculative against llama.cpp's plain, demo pair, with AMX", 1.5, "×", amx=True),
    Bar("llama.speculative", "speculative against llama.cpp's plain, inflated pair, with AMX", 1.5, "×", amx=True),
    Bar("ddtree.best", "in process against DDTree's published code at its best budget, demo pair", 8.0, "×"),
    Bar("services.inline_adaptive", "services against in process, gRPC, `adaptive`", 0.8, "%"),
    Bar("services.inline_default", "services against in process, gRPC, `default`", 0.8, "%"),
    Bar("services.shared_adaptive", "services against in process, shared memory, `adaptive`", 0.8, "%"),
    Bar("services.shared_default", "services against in process, shared memory, `default`", 0.8, "%"),
    Bar("transport.shared", "a cycle's messages beyond the compute, shared memory, largest p50", 120, "µs", most=True),
    Bar("transport.inline", "a cycle's messages beyond the compute, gRPC, largest p50", 400, "µs", most=True),
    Bar("startup.seconds", "three services to SERVING, demo pair, median", 3.0, "s", most=True),
    Bar("counts.failed", "counts of a cycle above their limits", 0, "", most=True),
]


def measured(value: float, note: str = "") -> dict:
    return {"value": value, "note": note}


def verdict(bar: Bar, sections: dict, amx: bool) -> tuple[str, str]:
    """What was measured, and met, missed or why it did not run. `sections`: of figures.json, by name."""
    section = sections.get(bar.key.split(".")[0])
    found = section and section["measured"].get(bar.key)
    if bar.amx is not None and bar.amx != amx:
        return "–", f"not run here: this CPU has {'no ' if bar.amx else ''}AMX"
    if found is None:
        return "–", "not run here: left out" if section is None else section["why"] or "not run here: see its section"
    text = FORMATS[bar.unit](found["value"]) + (f" ({found['note']})" if found["note"] else "")
    return text, "met" if bar.met(found["value"]) else "**missed**"


def all_met(sections: dict, amx: bool) -> bool:
    """No bar that ran is missed, and no section broke."""
    missed = any(verdict(bar, sections, amx)[1] == "**missed**" for bar in BARS)
    return not missed and not any(section["why"].startswith("failed") for section in sections.values())


# ---- what raw output says ----


def rows_ratio(roofline: dict) -> dict[int, float]:
    """Seconds of a target's forward by its rows, against one row."""
    seconds = {entry["rows"]: entry["seconds"] for entry in roofline["forwards"] if entry["forward"] != "draft"}
    return {rows: value / seconds[1] for rows, value in seconds.items()}


def roofline_bars(roofline: dict) -> dict[str, dict]:
    decode = next(entry for entry in roofline["forwards"] if entry["rows"] == 1)
    found = {"machine.decode": measured(decode["bound_seconds"] / decode["seconds"])}
    for rows, ratio in rows_ratio(roofline).items():
        found[f"machine.rows{rows}"] = measured(ratio)
    return found


def policy_figures(results: dict) -> dict[str, dict]:
    """By policy, from results.json: tokens/s, τ, means of a cycle in ms, and shares.

    ideal  τ·T_AR/(T_verify+T_draft), T_AR being plain's verify: the speedup if nothing but forwards took time
    share  of it that the measured speedup is
    host   share of a cycle that tree, commit and transfer take
    """
    figures = {}
    for policy in results["policies"]:
        prompts = policy["prompts"]
        cycles = sum(len(prompt["committed_lengths"]) for prompt in prompts)
        mean = {stage: 1e3 * sum(prompt["stage_seconds"][stage] for prompt in prompts) / cycles
                for stage in ("draft", "verify", *HOST_STAGES)}
        whole = 1e3 * sum(prompt["seconds"] for prompt in prompts) / cycles
        figures[policy["policy"]] = {"rate": policy["tokens_per_second"], "tau": policy["tau"], **mean, "cycle": whole,
                                     "host": sum(mean[stage] for stage in HOST_STAGES) / whole}
    plain = figures["ar"]
    for found in figures.values():
        found["speedup"] = found["rate"] / plain["rate"]
        found["ideal"] = found["tau"] * plain["verify"] / (found["verify"] + found["draft"])
        found["share"] = found["speedup"] / found["ideal"]
    return figures


def policy_table(figures: dict[str, dict]) -> str:
    lines = ["| policy | tokens/s | vs ar | of the ideal | τ | draft ms | verify ms | host ms | host's share |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for policy, found in figures.items():
        host = sum(found[stage] for stage in HOST_STAGES)
        lines.append(f"| {policy} | {found['rate']:.1f} | {found['speedup']:.2f}× | {100 * found['share']:.0f} % of "
                     f"{found['ideal']:.2f}× | {found['tau']:.2f} | {found['draft']:.3f} | {found['verify']:.3f} | {host:.3f} | "
                     f"{100 * found['host']:.1f} % |")
    return "\n".join(lines)


def lowest_share(figures: dict[str, dict]) -> dict:
    policy = min((name for name in figures if name != "ar"), key=lambda name: figures[name]["share"])
    return measured(figures[policy]["share"], policy)


def largest_host(figures: dict[str, dict]) -> dict:
    policy = max(figures, key=lambda name: figures[name]["host"])
    return measured(figures[policy]["host"], policy)


def ratio(arm: Arm, reference: Arm) -> float:
    """Of rates, the median over prompts."""
    return median(mine / theirs for mine, theirs in zip(arm.rates(), reference.rates(), strict=True))


def best_ratio(arms: list[Arm], reference: Arm) -> dict:
    best = max(arms, key=lambda arm: ratio(arm, reference))
    return measured(ratio(best, reference), f"{best.name} against {reference.name}")


def transport_times(report: dict) -> dict[str, dict[str, tuple[float, float]]]:
    """p50 and p99 in µs by carrier and setting, from the benchmark's JSON."""
    times = {"inline": {}, "shared": {}}
    for entry in report["benchmarks"]:
        setting = dict(re.findall(r"(\w+):(\d+)", entry["name"]))
        name = f"{'5 × 4096, 15 × 64' if setting['large'] == '1' else '3 × 320, 7 × 64'}; {setting['compute']} µs"
        times["shared" if setting["shared"] == "1" else "inline"][name] = entry["p50_us"], entry["p99_us"]
    return times


def counts(output: str) -> dict[str, dict[str, float]]:
    """What cycle_counts_test printed: by policy, number by unit."""
    found = {}
    for policy, text in re.findall(r"^(\S+): (.*) a cycle$", output, re.MULTILINE):
        for number, unit in re.findall(r"([\d.e+]+) (\w+)", text):
            found.setdefault(policy, {})[unit] = float(number)
    return found


def failed_tests(output: str) -> int:
    """Of one gtest program; its output must be whole."""
    passed = re.search(r"^\[  PASSED  \] (\d+) test", output, re.MULTILINE)
    if passed is None:
        raise ValueError("no summary of the tests")
    failed = re.search(r"^\[  FAILED  \] (\d+) test", output, re.MULTILINE)
    return int(failed[1]) if failed else 0
