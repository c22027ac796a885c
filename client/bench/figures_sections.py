"""The sections of figures.py: what is run for each, and what it measured."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import figures_bars as bars
from compare_common import INSTALL, ROOT, Answer, Arm, CompareError, rounds, services, table

BIN = ROOT / "build/release/bin"
BENCH = Path(__file__).resolve().parent
COMPARE_PYTHON = ROOT / "build/compare_venv/bin/python"
DEMO = ROOT / "deploy/demo_model"
INFLATED_BYTES = 4 << 30  # The pair and its GGUF, and room to breathe.
CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


class NotRun(Exception):
    """Why a section cannot run here, and what to do."""


class Failed(Exception):
    """What broke though all was there."""


def cpu_flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


class Run:
    """Settings, and how programs are run."""

    def __init__(self, args: argparse.Namespace):
        self.out, self.quick, self.threads, self._inflated = args.out, args.quick, args.threads, args.inflated
        self.raw = args.out / "raw"
        self.raw.mkdir(parents=True, exist_ok=True)
        self.flags = cpu_flags()
        self.amx = "amx_bf16" in self.flags

    def pick(self, full, quick):
        return quick if self.quick else full

    def program(self, name: str) -> Path:
        if not (BIN / name).exists():
            raise NotRun(f"{name} is not built: run deploy/local/build.sh")
        return BIN / name

    def command(self, name: str, argv: list, may_fail: bool = False) -> str:
        """What it wrote to stdout, which is kept in raw/NAME.out, beside NAME.log."""
        done = subprocess.run([str(part) for part in argv], capture_output=True, text=True)
        (self.raw / f"{name}.out").write_text(done.stdout)
        (self.raw / f"{name}.log").write_text(done.stderr)
        if done.returncode != 0 and not may_fail:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise Failed(f"{Path(str(argv[0])).name}, status {done.returncode}: {said} (raw/{name}.log)")
        return done.stdout

    def inflated(self) -> Path:
        """The pair of profile cpu-1b, made where there is none."""
        folder = self._inflated or self.out / "inflated"
        if (folder / "drafter/model.safetensors").exists():
            return folder
        if self._inflated:
            raise NotRun(f"{folder} holds no pair: make one with client/bench/inflate.py")
        if shutil.disk_usage(self.out).free < INFLATED_BYTES:
            raise NotRun(f"an inflated pair wants {INFLATED_BYTES >> 30} GiB of disk: free them, or give --inflated DIR")
        self.command("inflate", [sys.executable, BENCH / "inflate.py", "--target", DEMO / "target", "--drafter",
                                 DEMO / "drafter", "--profile", "cpu-1b", "--out", folder])
        return folder

    def stages(self, pair: Path) -> list:
        models = ["--target", pair / "target", "--drafter", pair / "drafter", "--drafter_dtype", "auto"]
        return [*models, "--threads", self.threads]

    def prompts(self, count: int) -> list[str]:
        return (DEMO / "prompts.jsonl").read_text().splitlines()[:count]

    def bench(self, name: str, pair: Path, prompts: list[str], *flags) -> dict:
        """results.json of a bastion-bench run, which stays in raw/NAME."""
        folder = self.raw / name
        folder.mkdir(exist_ok=True)
        (folder / "prompts.jsonl").write_text("\n".join(prompts) + "\n")
        self.command(name, [self.program("bastion-bench"), *self.stages(pair), "--prompts", folder / "prompts.jsonl",
                            "--report", folder, "--ignore_eos", *flags])
        return json.loads((folder / "results.json").read_text())


def add_answers(arms: dict[str, Arm], prefix: str, results: dict) -> None:
    for policy in results["policies"]:
        name = f"{prefix} {policy['policy']}"
        answers = arms.setdefault(name, Arm(name)).answers
        for prompt in policy["prompts"]:
            answers.append(Answer(prompt["output_token_ids"], prompt["seconds"], len(prompt["committed_lengths"])))


# ---- sections: each returns what was measured for its bars, numbers for the plots, and text ----


def pairs(run: Run, text: list[str]) -> dict[str, Path]:
    """The demo pair, and the inflated one where there can be one; else `text` is told why not."""
    try:
        return {"demo": DEMO, "inflated": run.inflated()}
    except NotRun as error:
        text.append(f"The inflated pair did not run here: {error}.")
        return {"demo": DEMO}


def machine(run: Run) -> dict:
    numbers, text, found = {}, [], {}
    text.append("CPU flags: " + ", ".join(f"{flag} {'yes' if flag in run.flags else 'no'}" for flag in CPU_FLAGS))
    for name, pair in pairs(run, text).items():
        folder = run.raw / f"roofline_{name}"
        said = run.command(folder.name, [run.program("bastion-bench"), "--roofline", *run.stages(pair), "--report", folder])
        roofline = json.loads((folder / "roofline.json").read_text())
        numbers[name] = {str(rows): value for rows, value in bars.rows_ratio(roofline).items()}
        numbers["device"] = roofline["device"]
        text += [f"The {name} pair:", said.strip()]
        if name == "inflated":
            found = bars.roofline_bars(roofline)
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def inflated(run: Run) -> dict:
    policies = "ar,chain,fixed:4,fixed:8,adaptive,default" + (",fixed:16,fixed:32,fixed:64" if run.amx else "")
    results = run.bench("inflated", run.inflated(), run.prompts(run.pick(8, 3)), "--policies", policies, "--max_new_tokens",
                        run.pick(64, 32))
    figures = bars.policy_figures(results)
    speedup = bars.measured(figures["adaptive"]["speedup"])
    return {"measured": {"inflated.adaptive": speedup, "inflated.adaptive_amx": speedup,
                         "inflated.share": bars.lowest_share(figures)}, "numbers": figures, "text": bars.policy_table(figures)}


def demo(run: Run) -> dict:
    policies = "ar,chain,fixed:4,fixed:8,fixed:16,bastion,adaptive,default"
    results = run.bench("demo", DEMO, run.prompts(run.pick(32, 16)), "--policies", policies, "--max_new_tokens", 64)
    figures = bars.policy_figures(results)
    return {"measured": {"demo.share": bars.lowest_share(figures), "demo.host": bars.largest_host(figures)}, "numbers": figures,
            "text": bars.policy_table(figures)}


def compare(run: Run, name: str, pair: Path, script: str, *flags) -> list[Arm]:
    """The arms of a comparison, run by the Python that has its packages."""
    if not COMPARE_PYTHON.exists():
        raise NotRun(INSTALL)
    run.program("bastion-bench")
    report = run.raw / f"{name}.json"
    run.command(name, [COMPARE_PYTHON, BENCH / script, *run.stages(pair), "--policies", "ar,adaptive,default", "--report", report,
                       *flags])
    return [Arm(arm["name"], [Answer(**answer) for answer in arm["answers"]]) for arm in json.loads(report.read_text())]


def llama(run: Run) -> dict:
    found, numbers, text = {}, {}, []
    sizes = {"demo": run.pick((32, 4, 64), (12, 4, 64)), "inflated": run.pick((8, 2, 64), (2, 1, 32))}
    for name, pair in pairs(run, text).items():
        count, turns, tokens = sizes[name]
        types = "bf16" if run.quick and name == "inflated" else "bf16,f16"
        arms = compare(run, f"llama_{name}", pair, "compare_llama_cpp.py", "--types", types, "--count", count, "--rounds", turns,
                       "--max_new_tokens", tokens)
        reference = next(arm for arm in arms if arm.name == "llama.cpp bf16")
        ours = [arm for arm in arms if arm.name.startswith("bastion")]
        plain = next(arm for arm in ours if arm.name == "bastion ar")
        found[f"llama.{name}"] = bars.measured(bars.ratio(plain, reference))
        key = "llama.speculative" + ("_demo" if name == "demo" else "")
        found[key] = bars.best_ratio([arm for arm in ours if arm is not plain], reference)
        numbers[name] = {arm.name: bars.ratio(arm, reference) for arm in ours}
        text += [f"The {name} pair:", table(arms, reference)]
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def ddtree(run: Run) -> dict:
    from compare_ddtree import fetch

    try:
        fetch(ROOT / "build/compare/ddtree")
    except CompareError as error:
        raise NotRun(str(error)) from error
    flags = run.pick(["--count", 16, "--rounds", 4],
                     ["--count", 4, "--rounds", 2, "--max_new_tokens", 48, "--budgets", "4,8,16,32", "--hf_dtypes", "float32"])
    arms = compare(run, "ddtree", DEMO, "compare_ddtree.py", *flags)
    reference = max((arm for arm in arms if arm.name.startswith("DDTree")), key=Arm.rate)
    ours = [arm for arm in arms if arm.name.startswith("bastion")]
    local = [arm for arm in ours if arm.name in ("bastion adaptive", "bastion default")]
    ratios = {arm.name: bars.ratio(arm, reference) for arm in ours}
    return {"measured": {"ddtree.best": bars.best_ratio(local, reference)}, "text": table(arms, reference),
            "numbers": {"reference": reference.name, "ratios": ratios}}


def service_settings(run: Run) -> argparse.Namespace:
    """What services() wants."""
    for name in ("bastion-verifier", "bastion-drafter", "bastion-orchestrator", "bastionctl"):
        run.program(name)
    return argparse.Namespace(bench=run.program("bastion-bench"), target=DEMO / "target", drafter=DEMO / "drafter", dtype="bf16",
                              drafter_dtype="auto", threads=run.threads)


def beside_services(run: Run, carrier: str, *flags) -> dict[str, Arm]:
    """Arms "local POLICY" and "CARRIER POLICY", on the same prompts in turns."""
    arms: dict[str, Arm] = {}
    settings = ["--policies", "ar,adaptive,default", "--max_new_tokens", 64]
    shares = rounds(run.prompts(run.pick(32, 16)), run.pick(4, 2))
    with services(service_settings(run), *flags) as endpoint:
        for index, share in enumerate(shares):
            turns = [("local", []), (carrier, ["--endpoint", endpoint])]
            for where, more in turns if index % 2 == 0 else turns[::-1]:
                add_answers(arms, where, run.bench(f"services_{carrier}_{where}_{index}", DEMO, share, *settings, *more))
    return arms


def through_services(run: Run) -> dict:
    found, numbers, text = {}, {}, []
    helps = subprocess.run([run.program("bastion-verifier"), "--helpfull"], capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        carriers = {"inline": [], "shared": ["--shared_memory", f"{folder}/shm"]}
        if "--shared_memory" not in helps:
            del carriers["shared"]
            text.append("Shared memory did not run: the binaries are older than it; run deploy/local/build.sh.")
        for carrier, flags in carriers.items():
            arms = beside_services(run, carrier, *flags)
            for policy in ("ar", "adaptive", "default"):
                value = bars.ratio(arms[f"{carrier} {policy}"], arms[f"local {policy}"])
                numbers[f"{carrier} {policy}"] = value
                found[f"services.{carrier}_{policy}"] = bars.measured(value)
            text.append(table(list(arms.values()), arms["local ar"]))
    return {"measured": found, "numbers": numbers, "text": "\n\n".join(text)}


def transport(run: Run) -> dict:
    file = run.raw / "transport.json"
    run.command("transport", [run.program("transport_benchmark"), f"--benchmark_out={file}", "--benchmark_out_format=json",
                              *run.pick([], ["--benchmark_filter=large:1"])])
    times = bars.transport_times(json.loads(file.read_text()))
    found = {f"transport.{carrier}": bars.measured(max(p50 for p50, _ in settings.values()))
             for carrier, settings in times.items()}
    lines = ["| features, marginals; engines compute | gRPC p50 / p99 µs | shared memory p50 / p99 µs |", "|---|--:|--:|"]
    cell = lambda pair: f"{pair[0]:.0f} / {pair[1]:.0f}"  # noqa: E731
    lines += [f"| {name} | {cell(times['inline'][name])} | {cell(times['shared'][name])} |" for name in times["inline"]]
    return {"measured": found, "numbers": times, "text": "\n".join(lines)}


def startup(run: Run) -> dict:
    settings, seconds = service_settings(run), []
    for _ in range(3):
        began = time.perf_counter()
        with services(settings):
            seconds.append(time.perf_counter() - began)
    return {"measured": {"startup.seconds": bars.measured(median(seconds))}, "numbers": seconds,
            "text": "Seconds until `bastionctl health` is content: " + ", ".join(f"{value:.2f}" for value in seconds)}


def counts(run: Run) -> dict:
    output = run.command("counts", [run.program("cycle_counts_test")], may_fail=True)
    found = bars.counts(output)
    units = ["allocations", "bytes", "instructions"]
    lines = ["| policy, a cycle | " + " | ".join(units) + " |", "|---|" + "--:|" * len(units)]
    lines += [f"| {policy} | " + " | ".join(f"{counted[unit]:g}" if unit in counted else "–" for unit in units) + " |"
              for policy, counted in found.items()]
    return {"measured": {"counts.failed": bars.measured(bars.failed_tests(output))}, "numbers": found, "text": "\n".join(lines)}


def int8(run: Run) -> dict:
    prompts = run.prompts(run.pick(32, 8))
    (run.raw / "rounding.jsonl").write_text("\n".join(prompts) + "\n")
    said = run.command("rounding", [run.program("bastion-bench"), "--rounding", *run.stages(DEMO), "--prompts",
                                    run.raw / "rounding.jsonl", "--max_new_tokens", 64])
    arms: dict[str, Arm] = {}
    for index, share in enumerate(rounds(prompts, 4)):
        for dtype in ("bf16", "int8") if index % 2 == 0 else ("int8", "bf16"):
            add_answers(arms, dtype, run.bench(f"int8_{dtype}_{index}", DEMO, share, "--policies", "ar", "--dtype", dtype))
    value = bars.ratio(arms["int8 ar"], arms["bf16 ar"])
    return {"measured": {}, "numbers": {"ratio": value}, "text": f"{said.strip()}\n\nPlain in int8 against plain in bf16: "
            f"{value:.2f}× ({arms['int8 ar'].rate():.0f} and {arms['bf16 ar'].rate():.0f} tokens/s)."}


SECTIONS: dict[str, tuple[str, Callable[[Run], dict]]] = {
    "machine": ("The machine, and how near forwards come to it", machine),
    "inflated": ("Policies, inflated pair, in process", inflated),
    "demo": ("Policies, demo pair, in process", demo),
    "llama": ("llama.cpp on the same weights", llama),
    "ddtree": ("DDTree's published code on the same pair", ddtree),
    "services": ("Three services against one process", through_services),
    "transport": ("Round trips", transport),
    "startup": ("Start-up", startup),
    "counts": ("Counts", counts),
    "int8": ("int8 target", int8),
}
