"""The sections of cpu_figures.py.

Each section is a function that returns a dictionary: `measured` (values for its bars), `numbers` (for figures.json and the
plots) and `text` (Markdown).
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import arms as arms_file
import program_output as outputs
from arms import Arm, add_answers, arms_table, best_ratio, ratio, rounds
from bars import measured
from compare_common import INSTALL
from report import policies_table, table
from runner import DEMO, ROOT, MeasureError, NotRun, Runner, ServiceSettings, demo_prompts, inflate_command, pair_flags

COMPARE_PYTHON = ROOT / "build/compare_venv/bin/python"
INFLATED_BYTES = 4 << 30  # The pair, its copy for llama.cpp, and a reserve.
CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def cpu_flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


@dataclass(kw_only=True)
class CpuRun(Runner):
    """The settings of one run of cpu_figures.py. `given_pair`: an existing inflated pair, or None."""

    out: Path
    threads: int
    given_pair: Path | None

    @property
    def amx(self) -> bool:
        return "amx_bf16" in cpu_flags()

    def inflated(self) -> Path:
        """The pair of profile cpu-1b. Makes it if it does not exist."""
        folder = self.given_pair or self.out / "inflated"
        if (folder / "drafter/model.safetensors").exists():
            return folder
        if self.given_pair:
            raise NotRun(f"{folder} has no pair; make one with deploy/measure/inflate.py --profile cpu-1b")
        if shutil.disk_usage(self.out).free < INFLATED_BYTES:
            raise NotRun(f"the inflated pair needs {INFLATED_BYTES >> 30} GiB of disk; or pass --inflated DIR")
        self.command("inflate", inflate_command("cpu-1b", folder))
        return folder

    def models(self, pair: Path) -> list:
        """Flags of bastion-bench."""
        return [*pair_flags(pair), "--threads", self.threads]

    def decode(self, name: str, pair: Path, prompts: list[str], *flags) -> dict:
        """results.json of bastion-bench. All prompts run to the limit."""
        return self.bench(name, prompts, [*self.models(pair), "--ignore_eos", *flags])


# ---- shared by several sections ----


def pairs(run: CpuRun, text: list[str]) -> dict[str, Path]:
    """The demo pair, and the inflated pair if it can be made. Otherwise, appends the reason to `text`."""
    try:
        return {"demo": DEMO, "inflated": run.inflated()}
    except NotRun as error:
        text.append(f"The inflated pair did not run: {error}.")
        return {"demo": DEMO}


def lowest_share(rows: list[dict]) -> dict:
    """The smallest share of the ideal (program_output.policies) that a speculative policy reaches, and its name."""
    row = min((row for row in rows if row["policy"] != "ar"), key=lambda row: row["share"])
    return measured(row["share"], row["policy"])


def largest_host(rows: list[dict]) -> dict:
    """The largest share of a cycle that a policy spends outside the forwards, and its name."""
    row = max(rows, key=lambda row: row["host"])
    return measured(row["host"], row["policy"])


def roofline_bars(roofline: dict) -> dict[str, dict]:
    """Values for the bars machine.*"""
    context = outputs.contexts(roofline)[0]
    decode = outputs.forward(roofline, 1, context)
    found = {"machine.decode": measured(decode["bound_seconds"] / decode["seconds"])} if decode else {}
    for rows, value in outputs.row_ratios(roofline, context).items():
        found[f"machine.rows{rows}"] = measured(value)
    return found


def compare(run: CpuRun, name: str, pair: Path, script: str, *flags) -> list[Arm]:
    """Runs a comparison script with the Python that has its packages. Returns its arms."""
    if not COMPARE_PYTHON.exists():
        raise NotRun(INSTALL)
    run.program("bastion-bench")
    file = run.raw / f"{name}.json"
    run.command(
        name,
        [
            COMPARE_PYTHON,
            ROOT / "deploy/measure" / script,
            *run.models(pair),
            "--programs",
            run.programs,
            "--policies",
            "ar,adaptive,default",
            "--report",
            file,
            *flags,
        ],
    )
    return arms_file.load(file)


def service_settings(run: CpuRun, shared_memory: bool = False) -> ServiceSettings:
    return ServiceSettings(DEMO / "target", DEMO / "drafter", ["--threads", run.threads], shared_memory=shared_memory)


# ---- the sections ----


def machine(run: CpuRun) -> dict:
    flags = cpu_flags()
    numbers: dict[str, Any] = {}
    found: dict[str, dict] = {}
    text = ["CPU flags: " + ", ".join(f"{flag} {'yes' if flag in flags else 'no'}" for flag in CPU_FLAGS)]
    for name, pair in pairs(run, text).items():
        folder = run.raw / f"roofline_{name}"
        said = run.output(folder.name, [run.program("bastion-bench"), "--roofline", *run.models(pair), "--report", folder])
        roofline = json.loads((folder / "roofline.json").read_text())
        ratios = outputs.row_ratios(roofline, outputs.contexts(roofline)[0])
        numbers |= {name: {str(rows): value for rows, value in ratios.items()}, "device": roofline["device"]}
        text += [f"The {name} pair:", said.strip()]
        if name == "inflated":
            found = roofline_bars(roofline)
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def inflated(run: CpuRun) -> dict:
    policies = run.pick("ar,chain,fixed:4,fixed:8,fixed:16,bastion,adaptive,default", "ar,fixed:4,adaptive,default")
    results = run.decode(
        "inflated", run.inflated(), demo_prompts(run.pick(8, 3)), "--policies", policies, "--max_new_tokens", run.pick(64, 32)
    )
    rows = outputs.policies(results)
    adaptive = outputs.row_of(rows, "adaptive")
    assert adaptive is not None  # It is one of the policies.
    speedup = measured(adaptive["speedup"])
    return {
        "measured": {"inflated.adaptive": speedup, "inflated.adaptive_amx": speedup, "inflated.share": lowest_share(rows)},
        "numbers": rows,
        "text": policies_table(rows),
    }


def demo(run: CpuRun) -> dict:
    policies = "ar,chain,fixed:4,fixed:8,fixed:16,bastion,adaptive,default"
    results = run.decode("demo", DEMO, demo_prompts(run.pick(32, 16)), "--policies", policies, "--max_new_tokens", 64)
    rows = outputs.policies(results)
    return {
        "measured": {"demo.share": lowest_share(rows), "demo.host": largest_host(rows)},
        "numbers": rows,
        "text": policies_table(rows),
    }


def llama(run: CpuRun) -> dict:
    found: dict[str, dict] = {}
    numbers: dict[str, dict] = {}
    text: list[str] = []
    sizes = {"demo": run.pick((32, 4, 64), (12, 4, 64)), "inflated": run.pick((8, 2, 64), (2, 1, 32))}
    for name, pair in pairs(run, text).items():
        count, turns, tokens = sizes[name]
        types = "bf16" if run.quick and name == "inflated" else "bf16,f16"
        arms = compare(
            run,
            f"llama_{name}",
            pair,
            "compare_llama_cpp.py",
            "--types",
            types,
            "--count",
            count,
            "--rounds",
            turns,
            "--max_new_tokens",
            tokens,
        )
        reference = next(arm for arm in arms if arm.name == "llama.cpp bf16")
        ours = [arm for arm in arms if arm.name.startswith("bastion")]
        plain = next(arm for arm in ours if arm.name == "bastion ar")
        found[f"llama.{name}"] = measured(ratio(plain, reference))
        key = "llama.speculative" + ("_demo" if name == "demo" else "")
        found[key] = best_ratio([arm for arm in ours if arm is not plain], reference)
        numbers[name] = {arm.name: ratio(arm, reference) for arm in ours}
        text += [f"The {name} pair:", arms_table(arms, reference)]
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def ddtree(run: CpuRun) -> dict:
    from compare_ddtree import fetch

    try:
        fetch(ROOT / "build/compare/ddtree")
    except MeasureError as error:
        raise NotRun(str(error)) from error
    flags = run.pick(
        ["--count", 16, "--rounds", 4],
        ["--count", 4, "--rounds", 2, "--max_new_tokens", 48, "--budgets", "4,8,16,32", "--hf_dtypes", "float32"],
    )
    arms = compare(run, "ddtree", DEMO, "compare_ddtree.py", *flags)
    reference = max((arm for arm in arms if arm.name.startswith("DDTree")), key=Arm.rate)
    ours = [arm for arm in arms if arm.name.startswith("bastion")]
    local = [arm for arm in ours if arm.name in ("bastion adaptive", "bastion default")]
    return {
        "measured": {"ddtree.best": best_ratio(local, reference)},
        "text": arms_table(arms, reference),
        "numbers": {"reference": reference.name, "ratios": {arm.name: ratio(arm, reference) for arm in ours}},
    }


def local_and_services(run: CpuRun, carrier: str) -> dict[str, Arm]:
    """Arms "local POLICY" and "CARRIER POLICY", which answer the same prompts in turns."""
    arms: dict[str, Arm] = {}
    settings = ["--policies", "ar,adaptive,default", "--max_new_tokens", 64]
    shares = rounds(demo_prompts(run.pick(32, 16)), run.pick(4, 2))
    with run.services(f"services_{carrier}", service_settings(run, carrier == "shared")) as endpoint:
        for index, share in enumerate(shares):
            turns = [("local", []), (carrier, ["--endpoint", endpoint])]
            for where, more in turns if index % 2 == 0 else turns[::-1]:
                add_answers(arms, where, run.decode(f"services_{carrier}_{where}_{index}", DEMO, share, *settings, *more))
    return arms


def through_services(run: CpuRun) -> dict:
    found: dict[str, dict] = {}
    numbers: dict[str, float] = {}
    text: list[str] = []
    for carrier in ("inline", "shared"):
        arms = local_and_services(run, carrier)
        for policy in ("ar", "adaptive", "default"):
            value = ratio(arms[f"{carrier} {policy}"], arms[f"local {policy}"])
            numbers[f"{carrier} {policy}"] = value
            found[f"services.{carrier}_{policy}"] = measured(value)
        text.append(arms_table(list(arms.values()), arms["local ar"]))
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def transport(run: CpuRun) -> dict:
    file = run.raw / "transport.json"
    run.command(
        "transport",
        [
            run.program("transport_benchmark"),
            f"--benchmark_out={file}",
            "--benchmark_out_format=json",
            *run.pick([], ["--benchmark_filter=large:1"]),
        ],
    )
    times = outputs.transport_times(json.loads(file.read_text()))
    found = {f"transport.{carrier}": measured(max(p50 for p50, _ in settings.values())) for carrier, settings in times.items()}
    cell = lambda pair: f"{pair[0]:.0f} / {pair[1]:.0f}"  # noqa: E731
    rows = [[name, cell(times["inline"][name]), cell(times["shared"][name])] for name in times["inline"]]
    head = [
        "features (rows × F), marginals (P × K); compute time of each engine",
        "gRPC p50 / p99 µs",
        "shared memory p50 / p99 µs",
    ]
    return {"measured": found, "numbers": times, "text": table(head, rows)}


def startup(run: CpuRun) -> dict:
    settings, seconds = service_settings(run), []
    for _ in range(3):
        began = time.perf_counter()
        with run.services("startup", settings):
            seconds.append(time.perf_counter() - began)
    return {
        "measured": {"startup.seconds": measured(median(seconds))},
        "numbers": seconds,
        "text": "Seconds until `bastionctl health` succeeds: " + ", ".join(f"{value:.2f}" for value in seconds),
    }


def counts(run: CpuRun) -> dict:
    file, printed = run.raw / "counts.json", run.raw / "counts.out"
    file.unlink(missing_ok=True)
    program = run.program("cycle_counts_test")
    status = run.wait(run.start("counts", [program, f"--gtest_output=json:{file}"], output=printed))
    tests = outputs.load_json(file)
    if tests is None:
        raise run.failure("counts", program, status)
    found, units = outputs.cycle_counts(printed.read_text()), ["allocations", "bytes", "instructions"]
    rows = [
        [policy, *(f"{counted[unit]:g}" if unit in counted else "–" for unit in units)] for policy, counted in found.items()
    ]
    return {
        "measured": {"counts.failed": measured(outputs.test_counts(tests)["failed"])},
        "numbers": found,
        "text": table(["policy, a cycle", *units], rows),
    }


def int8(run: CpuRun) -> dict:
    prompts = demo_prompts(run.pick(32, 8))
    (run.raw / "rounding.jsonl").write_text("\n".join(prompts) + "\n")
    said = run.output(
        "rounding",
        [
            run.program("bastion-bench"),
            "--rounding",
            *run.models(DEMO),
            "--prompts",
            run.raw / "rounding.jsonl",
            "--max_new_tokens",
            64,
        ],
    )
    arms: dict[str, Arm] = {}
    for index, share in enumerate(rounds(prompts, 4)):
        for dtype in ("bf16", "int8") if index % 2 == 0 else ("int8", "bf16"):
            add_answers(arms, dtype, run.decode(f"int8_{dtype}_{index}", DEMO, share, "--policies", "ar", "--weights", dtype))
    value = ratio(arms["int8 ar"], arms["bf16 ar"])
    return {
        "measured": {},
        "numbers": {"ratio": value},
        "text": f"{said.strip()}\n\nPlain decoding in int8, relative to bf16: {value:.2f}× "
        f"({arms['int8 ar'].rate():.0f} and {arms['bf16 ar'].rate():.0f} tokens/s).",
    }


# By name: the title, and the function.
SECTIONS: dict[str, tuple[str, Callable[[CpuRun], dict]]] = {
    "machine": ("The machine, and how close forwards come to its limits", machine),
    "inflated": ("Policies, inflated pair, in process", inflated),
    "demo": ("Policies, demo pair, in process", demo),
    "llama": ("llama.cpp on the same weights", llama),
    "ddtree": ("DDTree's published code on the same pair", ddtree),
    "services": ("Three services, compared with one process", through_services),
    "transport": ("Round trips", transport),
    "startup": ("Startup", startup),
    "counts": ("Counts of a cycle", counts),
    "int8": ("int8 target", int8),
}
