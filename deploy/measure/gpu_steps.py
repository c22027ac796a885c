"""The steps of gpu_run.py: what each one does, and how long it may take.

A step is a function that writes to run.raw. It raises NotRun if the machine lacks something, and Failed on errors.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpu_decode import (
    MAX_ROWS,
    chat,
    decode,
    in_process,
    int8,
    load,
    long_contexts,
    memory_flags,
    sampled,
    through_services,
    vocabularies,
)
from gpu_peers import NOTHING_TO_RUN
from gpu_runner import GpuRun, Pairs
from gpu_tests import kernels
from report import table
from runner import DEMO, ROOT, Failed, NotRun, Stopped

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
LEAST_SHARE = 0.6  # A step with less than this share of its time left is skipped: it would be stopped without results.


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


def roofline(size: str, run: GpuRun, pairs: Pairs) -> None:
    rows = run.pick("1,2,4,8,16,32,48,64,96,128,192,256,384,512,768,1024", "1,4,16,64")
    contexts = run.pick("16,2048,8192,32768", "16,2048")
    if not run.on_gpu:
        rows, contexts = "1,4,16,64", "16,256"
    flags = ["--rows", rows, "--contexts", contexts, "--max_rows", MAX_ROWS, "--report", run.raw / f"roofline_{size}"]
    flags += memory_flags(run, len(contexts.split(",")))
    argv = [run.program("bastion-bench"), *in_process(run, pairs.ready(size)), "--roofline", *flags]
    run.command(f"roofline_{size}/bench", argv)


def peers(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Other engines with the same weights and prompts. A process of its own, which a time limit can stop."""
    folder, name = pairs.ready(size), f"peers_{size}"
    argv = [
        sys.executable,
        ROOT / "deploy/measure/gpu_peers.py",
        "--target",
        folder / "target",
        "--drafter",
        folder / "drafter",
    ]
    argv += ["--prompts", DEMO / "prompts.jsonl", "--device", run.device, "--out", run.raw / name / "peers.json"]
    argv += [*(["--ddtree", run.ddtree] if run.ddtree else []), *(["--quick"] if run.quick else [])]
    status = run.wait(run.start(f"{name}/peers", argv))
    if status == NOTHING_TO_RUN:
        raise NotRun(run.last_line(f"{name}/peers"))
    if status != 0:
        raise run.failure(f"{name}/peers", "gpu_peers.py", status)


@dataclass(frozen=True)
class Step:
    """`seconds`: the time planned for this step, which earlier steps leave for it."""

    name: str
    part: str
    seconds: float
    work: Callable[[GpuRun, Pairs], None]


# The steps that the bars need most come first. The times are those of results/h200-2026-11-27 and a margin, and
# estimates for what that run did not have: a start of bastion-bench with the 8B pair takes about 10 s.
STEPS = [
    Step("kernels", "kernels", 85, kernels),
    Step("sweep", "sweep", 28, sweep),
    Step("pair_8b", "pairs", 5, partial(make_pair, "8b")),
    Step("roofline_8b", "roofline", 28, partial(roofline, "8b")),
    Step("decode_8b", "decode", 36, partial(decode, "8b")),
    Step("load_8b", "load", 68, partial(load, "8b")),
    Step("services_demo", "services", 12, partial(through_services, "demo")),
    Step("services_8b", "services", 18, partial(through_services, "8b")),
    Step("sampled_8b", "sampled", 18, partial(sampled, "8b")),
    Step("long_8b", "long", 30, partial(long_contexts, "8b")),
    Step("vocabulary_8b", "vocabulary", 38, partial(vocabularies, "8b")),
    Step("chat", "chat", 24, chat),
    Step("peers_8b", "peers", 62, partial(peers, "8b")),
    Step("pair_4b", "pairs", 3, partial(make_pair, "4b")),
    Step("roofline_4b", "roofline", 18, partial(roofline, "4b")),
    Step("decode_4b", "decode", 24, partial(decode, "4b")),
    Step("int8_8b", "int8", 12, partial(int8, "8b")),
    Step("sampled_load_8b", "sampled", 15, partial(load, "8b", temperature=1)),
]
PARTS = list(dict.fromkeys(step.part for step in STEPS))


def _size(step: Step) -> str:
    """The pair that a step uses: "8b", "4b", or another word if it uses none."""
    return step.name.rsplit("_", 1)[-1]


def chosen_steps(parts: list[str]) -> list[Step]:
    """The steps of these parts, and the steps that make the pairs they use."""
    sizes = {_size(step) for step in STEPS if step.part in parts}
    return [step for step in STEPS if step.part in parts or (step.part == "pairs" and _size(step) in sizes)]


def plan(steps: list[Step]) -> str:
    """The steps with their planned times, as a table."""
    rows = [[step.name, step.part, f"{step.seconds:.0f}"] for step in steps]
    return table(
        ["step", "part", "seconds planned"], [*rows, ["sum", "", f"{sum(step.seconds for step in steps):.0f}"]], (0, 1)
    )
