"""The steps of gpu_run.py. A step is a function that writes to run.raw, and raises Failed on errors."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpu_runner import GpuRun, Pairs
from gpu_tests import kernels
from program_output import differing_text
from runner import DEMO, Failed, NotRun, ServiceSettings, Stopped, demo_prompts, pair_flags

SWEEPS = (
    "device",
    "gemm",
    "product",
    "product_sm80",
    "product_int8",
    "attention",
    "attention_sm80",
    "experts",
    "choose",
    "rowwise",
)
QUICK_POLICIES = "ar,chain,fixed:4,fixed:16,bastion,adaptive,default"
POLICIES = "ar,chain,fixed:4,fixed:16,fixed:32,fixed:64,fixed:128,fixed:256,fixed:512,fixed:1024,bastion,adaptive,default"
LOAD_POLICIES = "ar,fixed:4,ngram:2,adaptive,default"
LOADS = "1,4,16,64"  # Requests that are live at the same time.
MAX_ROWS = 1025  # The largest fixed size and the root.


def sweep(run: GpuRun, _: Pairs) -> None:
    """Times the kernels. If one part fails, the others still run."""
    if not run.on_gpu:
        raise NotRun("the sweep measures a GPU")
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
        raise Failed(f"{', '.join(broken)} failed: {next(iter(broken.values()))}")


def make_pair(size: str, run: GpuRun, pairs: Pairs) -> None:
    pairs.finish(size)


def engine_flags(run: GpuRun) -> list:
    """Flags of an engine, in a service or in bastion-bench."""
    table = ["--gemm_table", run.gemm_table] if run.on_gpu else []
    return ["--device", run.device, "--threads", 4 if run.on_gpu else 2, *table]


def in_process(run: GpuRun, folder: Path) -> list:
    """Flags of bastion-bench."""
    return [*pair_flags(folder), *engine_flags(run)]


def roofline(size: str, run: GpuRun, pairs: Pairs) -> None:
    rows = run.pick("1,2,4,8,16,32,48,64,96,128,192,256,384,512,768,1024", "1,4,16,64")
    contexts = run.pick("16,2048,8192,16384", "16,2048")
    if not run.on_gpu:
        rows, contexts = "1,4,16,64", "16,256"
    name = f"roofline_{size}"
    run.command(
        f"{name}/bench",
        [
            run.program("bastion-bench"),
            *in_process(run, pairs.ready(size)),
            "--roofline",
            "--rows",
            rows,
            "--contexts",
            contexts,
            "--max_rows",
            MAX_ROWS,
            "--report",
            run.raw / name,
        ],
    )


def say_differing(run: GpuRun, results: dict) -> None:
    if text := differing_text(results):
        run.say(f"  texts that differ from plain decoding (policy: prompts): {text}")


def decode(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies in process. Texts may differ from plain decoding: products of more rows round differently."""
    flags = [
        *in_process(run, pairs.ready(size)),
        "--policies",
        run.pick(POLICIES, QUICK_POLICIES),
        "--max_rows",
        MAX_ROWS,
        "--max_new_tokens",
        run.pick(64, 16),
        "--ignore_eos",
    ]
    results = run.bench(f"decode_{size}", demo_prompts(run.pick(8, 2)), flags, exact=False)
    say_differing(run, results)
    for warning in results.get("warnings", []):
        run.say(f"  {warning}")


def load(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies under load, in process: closed loops."""
    flags = [
        *in_process(run, pairs.ready(size)),
        "--policies",
        LOAD_POLICIES,
        "--concurrency",
        run.pick(LOADS, "1,4"),
        "--max_new_tokens",
        run.pick(64, 8),
        "--ignore_eos",
    ]
    say_differing(run, run.bench(f"load_{size}", demo_prompts(run.pick(128, 8)), flags, exact=False))


def through_services(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies through services. The demo pair runs in fp32, where texts must not differ."""
    folder, dtype = (DEMO, "fp32") if size == "demo" else (pairs.ready(size), "bf16")
    name, exact = f"services_{size}", size == "demo"
    settings = ServiceSettings(folder / "target", folder / "drafter", engine_flags(run), dtype, dtype, shared_memory=True)
    with run.services(name, settings) as endpoint:
        run.say("  the services are ready")
        flags = [
            "--endpoint",
            endpoint,
            "--target",
            folder / "target",
            "--policies",
            "ar,fixed:16,default",
            "--max_new_tokens",
            run.pick(64, 16),
            "--ignore_eos",
        ]
        say_differing(run, run.bench(name, demo_prompts(run.pick(32 if exact else 8, 3)), flags, exact))


@dataclass(frozen=True)
class Step:
    """`seconds`: the time that earlier steps leave for this step."""

    name: str
    part: str
    seconds: float
    work: Callable[[GpuRun, Pairs], None]


# The steps that the bars need most come first.
STEPS = [
    Step("kernels", "kernels", 100, kernels),
    Step("sweep", "sweep", 60, sweep),
    Step("pair_8b", "pairs", 30, partial(make_pair, "8b")),
    Step("roofline_8b", "roofline", 50, partial(roofline, "8b")),
    Step("decode_8b", "decode", 60, partial(decode, "8b")),
    Step("load_8b", "load", 70, partial(load, "8b")),
    Step("services_demo", "services", 30, partial(through_services, "demo")),
    Step("services_8b", "services", 50, partial(through_services, "8b")),
    Step("pair_4b", "pairs", 10, partial(make_pair, "4b")),
    Step("roofline_4b", "roofline", 25, partial(roofline, "4b")),
    Step("decode_4b", "decode", 25, partial(decode, "4b")),
]
PARTS = list(dict.fromkeys(step.part for step in STEPS))


def chosen_steps(parts: list[str]) -> list[Step]:
    """The steps of these parts, and the steps that make the pairs they use."""
    sizes = {step.name.rsplit("_", 1)[1] for step in STEPS if step.part in parts and "_" in step.name}
    return [step for step in STEPS if step.part in parts or (step.part == "pairs" and step.name.rsplit("_", 1)[1] in sizes)]
