"""What run.py runs: each function is one step, leaves raw output under run.raw, and raises Failed if something is amiss."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from report_figures import differing_prompts, load_json, test_counts
from runner import DEMO, Failed, NotHere, Pairs, Run, Stopped

SWEEPS = ("device", "gemm", "attention", "choose", "rowwise")
POLICIES = "ar,chain,fixed:4,fixed:16,fixed:32,fixed:64,adaptive,default"
TOGETHER = 12  # Test programs that run beside each other.
SHARDS = {"cuda_kernels_attention_test": 8, "cuda_parity_test": 4}  # What they compare with takes the CPU's time.


# ---- kernels ----


@dataclass(frozen=True)
class Shard:
    """A part of a test program's tests, as gtest divides them."""

    program: str
    index: int

    @property
    def name(self) -> str:
        return f"kernels/{self.program}.{self.index}"

    def start(self, run: Run) -> subprocess.Popen:
        environment = {"GTEST_TOTAL_SHARDS": SHARDS.get(self.program, 1), "GTEST_SHARD_INDEX": self.index}
        return run.start(self.name, [run.pack / self.program, f"--gtest_output=json:{run.raw / self.name}.json",
                                     "--gtest_brief=1"], environment)

    def end(self, run: Run, status: int | None, seconds: float) -> dict:
        """What is kept of it; says a line. Status None: it was not begun, or stopped."""
        output = load_json(run.raw / f"{self.name}.json")
        counts = test_counts(output) if output else {}
        if output:
            text = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
        else:
            text = "no time was left" if status is None else f"ended with status {status}: {run.last_words(self.name)}"
        run.say(f"  {self.name.removeprefix('kernels/')}: {text} ({seconds:.1f} s)")
        return {"status": status, "seconds": seconds, "whole": bool(output), **counts}


def one_program(ends: list[dict]) -> dict:
    """Of its shards' ends."""
    together = {kind: sum(end.get(kind, 0) for end in ends) for kind in ("passed", "failed", "skipped")}
    return {"status": next((end["status"] for end in ends if end["status"] != 0), 0), "whole": all(end["whole"] for end in ends),
            "seconds": max(end["seconds"] for end in ends), "names": [name for end in ends for name in end.get("names", [])],
            **together}


def run_shards(run: Run, waiting: list[Shard]) -> dict[Shard, dict]:
    """Several at a time, until all are over or the time is."""
    running, ends = {}, {}
    while waiting or running:
        while waiting and len(running) < (TOGETHER if run.on_gpu else 1):
            shard = waiting.pop(0)
            running[shard] = shard.start(run), time.monotonic()
        late = time.monotonic() > run.ends
        if late:
            run.stop(*(process for process, _ in running.values()))
        for shard, (process, began) in list(running.items()):
            if late or process.poll() is not None:
                del running[shard]
                ends[shard] = shard.end(run, None if late else run.wait(process), time.monotonic() - began)
        if late:
            ends |= {shard: shard.end(run, None, 0.0) for shard in waiting}
            break
        time.sleep(0.02)
    return ends


def kernels(run: Run, _: Pairs) -> None:
    names = sorted(path.name for path in run.pack.glob("cuda_*_test"))
    if not names:
        raise Failed("no cuda_*_test was packed")
    # Those with most to do first.
    shards = [Shard(name, index) for name in sorted(names, key=lambda name: -SHARDS.get(name, 1))
              for index in range(SHARDS.get(name, 1))]
    ends = run_shards(run, shards)
    programs = {name: one_program([end for shard, end in ends.items() if shard.program == name]) for name in names}
    (run.raw / "kernels/programs.json").write_text(json.dumps(programs, indent=1))
    broken = [name for name, end in programs.items() if end["status"] != 0 or not end["whole"] or
              end["failed"] or (run.on_gpu and end["skipped"])]
    if broken:
        raise Failed("not green: " + ", ".join(broken))


def sweep(run: Run, _: Pairs) -> None:
    if not run.on_gpu:
        raise NotHere("the sweep measures a GPU")
    broken = {}
    for part in SWEEPS:
        file = run.raw / f"sweep/{part}.json"
        try:
            run.command(f"sweep/{part}", [run.program("cuda_kernels_benchmark"), "--only", part, "--out", file])
            run.say(f"  {part}: {len(json.loads(file.read_text())['figures'])} figures")
        except Stopped:
            raise
        except Failed as error:
            broken[part] = str(error)
            run.say(f"  {part}: {error}")
    if broken:
        raise Failed(f"not {', '.join(broken)}: {next(iter(broken.values()))}")


# ---- pairs and what runs on them ----


def pair(size: str, run: Run, pairs: Pairs) -> None:
    pairs.finish(size)


def engine_flags(run: Run) -> list:
    """Of what computes, service or bench."""
    table = ["--gemm_table", run.gemm_table] if run.on_gpu else []
    return ["--device", run.device, "--threads", 4 if run.on_gpu else 2, *table]


def in_process(run: Run, folder: Path) -> list:
    return [run.program("bastion-bench"), "--target", folder / "target", "--drafter", folder / "drafter", "--drafter_dtype",
            "auto", *engine_flags(run)]


def roofline(size: str, run: Run, pairs: Pairs) -> None:
    rows = run.pick("1,2,4,8,16,32,48,64,96,128,192,256,384,512", "1,4,16,64")
    contexts = run.pick("16,2048,8192,16384", "16,2048")
    if not run.on_gpu:
        rows, contexts = "1,4,16,64", "16,256"
    name = f"roofline_{size}"
    run.command(f"{name}/bench", [*in_process(run, pairs.ready(size)), "--roofline", "--rows", rows, "--contexts", contexts,
                                  "--report", run.raw / name])


def some_prompts(run: Run, folder: str, count: int) -> Path:
    file = run.raw / folder / "prompts.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (DEMO / "prompts.jsonl").read_text().splitlines()[:count]
    file.write_text("\n".join(lines) + "\n")
    return file


def bench(run: Run, name: str, argv: list, exact: bool) -> None:
    """A run over prompts. Texts may differ where products of more rows round otherwise, but for `exact`."""
    status = run.wait(run.start(f"{name}/bench", [*argv, "--report", run.raw / name]))
    file = run.raw / name / "results.json"
    if not file.exists():
        raise Failed(f"bastion-bench, status {status}: {run.last_words(f'{name}/bench')}")
    differing = differing_prompts(json.loads(file.read_text()))
    several = {policy: len(prompts) for policy, prompts in differing.items() if prompts}
    if several:
        run.say("  texts that differ from plain decoding's: " + ", ".join(f"{p}: {n}" for p, n in several.items()))
    if exact and several:
        raise Failed("texts differ from plain decoding's, and must not")
    if status != 0 and not several:
        raise Failed(f"bastion-bench, status {status}: {run.last_words(f'{name}/bench')}")


def decode(size: str, run: Run, pairs: Pairs) -> None:
    name = f"decode_{size}"
    prompts = some_prompts(run, name, run.pick(8, 2))
    bench(run, name, [*in_process(run, pairs.ready(size)), "--prompts", prompts, "--policies", POLICIES, "--max_new_tokens",
                      run.pick(64, 16), "--ignore_eos"], exact=False)


def await_health(run: Run, name: str, address: str, services: list[subprocess.Popen]) -> None:
    ask = [run.program("bastionctl"), "health", "--endpoint", address]
    while True:
        try:
            if run.wait(run.start(f"{name}/health", ask)) == 0:
                return
        except Stopped:
            raise Stopped("the services did not come up in time") from None
        for process in services:
            if process.poll() is not None:
                service = Path(process.args[0]).name
                raise Failed(f"{service} ended with status {process.returncode}: {run.last_words(f'{name}/{service}')}")
        time.sleep(0.2)


def start_services(run: Run, name: str, folder: Path, dtype: str) -> tuple[str, list[subprocess.Popen]]:
    """The orchestrator's address, and all three. Sockets lie in a short path beside the pairs."""
    sockets = run.pairs / name
    shutil.rmtree(sockets, ignore_errors=True)
    sockets.mkdir(parents=True)
    address = {service: f"unix://{sockets}/{service}.sock" for service in ("verifier", "drafter", "orchestrator")}

    def start(service: str, *flags) -> subprocess.Popen:
        program = f"bastion-{service}"
        return run.start(f"{name}/{program}", [run.program(program), "--target", folder / "target", "--listen",
                                               address[service], *flags])

    engine = [*engine_flags(run), "--dtype", dtype, "--shared_memory", sockets / "shm"]
    prior = ["--prior", folder / "drafter"] if (folder / "drafter/transition_prior.safetensors").exists() else []
    return address["orchestrator"], [
        start("verifier", *engine),
        start("drafter", *engine, "--drafter", folder / "drafter", "--verifier", address["verifier"]),
        start("orchestrator", "--verifier", address["verifier"], "--drafter", address["drafter"], *prior)]


def services(size: str, run: Run, pairs: Pairs) -> None:
    folder, dtype = (DEMO, "fp32") if size == "demo" else (pairs.ready(size), "bf16")
    name = f"services_{size}"
    prompts = some_prompts(run, name, run.pick(32 if size == "demo" else 8, 3))
    address, processes = start_services(run, name, folder, dtype)
    try:
        await_health(run, name, address, processes)
        run.say("  the services are up")
        bench(run, name, [run.program("bastion-bench"), "--endpoint", address, "--target", folder / "target", "--prompts",
                          prompts, "--policies", "ar,fixed:16,default", "--max_new_tokens", run.pick(48, 16), "--ignore_eos"],
              exact=size == "demo")
    finally:
        run.stop(*processes)


@dataclass(frozen=True)
class Step:
    """`seconds`: what it has at least, later steps' share left aside."""

    name: str
    part: str
    seconds: float
    work: Callable[[Run, Pairs], None]


# What the bars need most comes first.
STEPS = [
    Step("kernels", "kernels", 100, kernels),
    Step("sweep", "sweep", 80, sweep),
    Step("pair_8b", "pairs", 30, partial(pair, "8b")),
    Step("roofline_8b", "roofline", 60, partial(roofline, "8b")),
    Step("decode_8b", "decode", 70, partial(decode, "8b")),
    Step("services_demo", "services", 30, partial(services, "demo")),
    Step("services_8b", "services", 60, partial(services, "8b")),
    Step("pair_4b", "pairs", 10, partial(pair, "4b")),
    Step("roofline_4b", "roofline", 40, partial(roofline, "4b")),
    Step("decode_4b", "decode", 40, partial(decode, "4b")),
]
PARTS = list(dict.fromkeys(step.part for step in STEPS))


def chosen_steps(parts: list[str]) -> list[Step]:
    """Steps of the parts, and the pairs that they run on."""
    sizes = {step.name.rsplit("_", 1)[1] for step in STEPS if step.part in parts and "_" in step.name}
    return [step for step in STEPS if step.part in parts or (step.part == "pairs" and step.name.rsplit("_", 1)[1] in sizes)]
