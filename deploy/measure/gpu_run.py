#!/usr/bin/env python3
"""Tests and measures everything that needs a GPU.

    tests/gpu/run.sh [--pack PATH] [--out DIR] [--only PART,...] [--ddtree DIR] [--quick] [--device cuda|cpu]

The machine needs a GPU and a python3 with torch and numpy. It needs no compiler, because the
programs come from tests/gpu/pack.sh. run.sh unpacks them, finds torch's libraries and starts this
script. The parts:
  kernels    tests of the GPU kernels and of the engines on a GPU. A skipped test counts as failed
  sweep      times of the kernels: the matrix products of Qwen3-4B and 8B, attention, launches
  pairs      grows the demo pair to these two shapes while other parts run. Needs 28 GB of memory
             or disk
  roofline   plain steps, and verifies of 1 to 512 rows after 16 to 32768 tokens, both pairs
  decode     policies on the same prompts in process, both pairs
  load       policies with 1, 4, 16 and 64 live requests, 8B pair
  services   three services over shared memory: the demo pair in fp32, and the 8B pair
  sampled    temperature 1: policies in process, and with 1, 16 and 64 live requests, 8B pair
  long       policies after contexts of 8,192 and 32,768 tokens, 8B pair
  vocabulary `default` and `chain` with each size of the draft vocabulary, 8B pair
  chat       SmolLM2-135M and its drafter, if its file was packed (pack.sh --add) or is named
  peers      Hugging Face transformers and, with --ddtree, DDTree's official code, on the 8B pair. Needs
             transformers, and torch with CUDA, in the same Python
Every part has a planned time, and a time limit, which is longer if earlier parts took less. If a part
fails or runs out of time, the others still run. A step is skipped if less than 60 % of its planned time is
left before the deadline, and the report names it. The most important steps come first.

The environment variable PYTHON names an interpreter. Default: build/venv/bin/python if it exists,
else python3. deploy/measure/gpu_report.py merges the reports of several runs.

Exit status: 0 if every part ran and every test passed. A missed bar does not change it.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import gpu_report
from gpu_runner import GpuRun, Pairs
from gpu_steps import LEAST_SHARE, PARTS, Step, chosen_steps, plan
from runner import ROOT, Failed, NotRun, Stopped

DEADLINE = 525.0
PAIR_BYTES = {"cuda": 30 << 30, "cpu": 1 << 30}


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say what to measure."""
    what = parser.add_argument_group("what to measure")
    what.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help="comma-separated parts. Default: all")
    what.add_argument("--quick", action="store_true", help="fewer prompts, rows and contexts")
    what.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu tries the script on a machine without a GPU: pairs are tiny, kernel tests may be "
        "skipped, and all figures are meaningless. Default: cuda",
    )
    what.add_argument(
        "--shape", default="", metavar="JSON", help="changes to both pairs' shapes, as for inflate.py --shape. Default: none"
    )
    what.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE,
        metavar="SECONDS",
        help=f"time for all parts together. Default: {DEADLINE:.0f}",
    )
    what.add_argument("--plan", action="store_true", help="print the steps and their planned times, and end")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name files and folders."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--pack",
        type=Path,
        default=ROOT / "build/cuda/pack",
        metavar="PATH",
        help="folder or archive made by tests/gpu/pack.sh. Default: build/cuda/pack",
    )
    files.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build/gpu/results",
        metavar="DIR",
        help="folder for gpu_results.json, gpu_results.md, gpu_raw.tar.gz and, with matplotlib, plots. "
        "They are rewritten after every step. Default: build/gpu/results",
    )
    files.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="folder to keep pairs and raw output in. Default: a temporary folder, in memory if there is enough",
    )
    files.add_argument(
        "--chat_model",
        type=Path,
        metavar="PATH",
        help="GGUF file or folder of SmolLM2-135M-Instruct. Default: the one in the pack, or in build/chat_model",
    )
    files.add_argument(
        "--ddtree", type=Path, metavar="DIR", help="checkout of github.com/liranringel/ddtree. Default: leave it out"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/gpu/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_choices(parser)
    add_files(parser)
    args = parser.parse_args()
    for name in ("chat_model", "ddtree"):
        path = getattr(args, name)
        if path is not None and not path.exists():
            parser.error(f"--{name}: there is no {path}")
    if unknown := set(args.only.split(",")) - set(PARTS):
        parser.error(f"--only: unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    return args


def available_memory() -> int:
    """Returns the available memory in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), 0)


def scratch(needed: int) -> Path:
    """A temporary folder, in memory if twice `needed` bytes are available, else on disk."""
    memory, disk = Path("/dev/shm"), Path(tempfile.gettempdir())
    fits = memory.is_dir() and shutil.disk_usage(memory).free > needed and available_memory() > 2 * needed
    return Path(tempfile.mkdtemp(prefix="bastion-gpu.", dir=memory if fits else disk))


def output_lines(argv: list[str]) -> list[str]:
    """The lines that a program prints. Empty if it fails or does not exist."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def torch_version() -> str:
    """The version of torch. Does not import torch, because that takes seconds."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def machine(run: GpuRun, parts: str) -> dict:
    """The machine and the settings of the run, for the report."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"
    built = run.programs / "built.txt"
    return {
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "device": run.device,
        "quick": run.quick,
        "shape": run.shape or ("" if run.on_gpu else Pairs.TINY),
        "parts": parts,
        "gpus": output_lines(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch_version(),
        "built": built.read_text().strip() if built.exists() else "unknown",
    }


def run_step(step: Step, run: GpuRun, pairs: Pairs, seconds: float) -> dict:
    """Runs the step; returns its entry of steps.json. Status: ok, failed, stopped, skipped or "not run"."""
    entry = {"part": step.part, "status": "ok", "why": "", "planned": step.seconds, "limit": round(max(seconds, 0.0), 1)}
    if seconds < LEAST_SHARE * step.seconds:
        why = f"it needs about {step.seconds:.0f} s, and {max(seconds, 0):.0f} s were left"
        return {**entry, "status": "skipped", "why": why, "seconds": 0.0}
    began = time.monotonic()
    run.ends = began + seconds
    try:
        step.work(run, pairs)
    except NotRun as error:
        entry |= {"status": "not run", "why": str(error)}
    except Stopped as error:
        entry |= {"status": "stopped", "why": str(error)}
    except Failed as error:
        entry |= {"status": "failed", "why": str(error)}
    except Exception as error:  # Any error: the other steps must run.
        traceback.print_exc()
        entry |= {"status": "failed", "why": repr(error)}
    return {**entry, "seconds": round(time.monotonic() - began, 1)}


def write_report(run: GpuRun, out: Path, plots: bool) -> bool:
    try:
        gpu_report.write([run.raw], out, plots)
        return True
    except Exception:  # Any error: the run must continue. The raw output has all results.
        traceback.print_exc()
        return False


def run_steps(run: GpuRun, steps: list[Step], args: argparse.Namespace) -> bool:
    """Runs the steps and writes a report after each. Returns False if a step or the report failed."""
    pairs, done = Pairs(run), {}
    for step in steps:
        if step.part == "pairs":
            pairs.start(step.name.rsplit("_", 1)[1])
    for index, step in enumerate(steps):
        later = sum(other.seconds for other in steps[index + 1 :])
        left = run.began + args.deadline - time.monotonic()
        seconds = min(left, max(left - later, step.seconds))
        run.say(f"{step.name}: at most {max(seconds, 0):.0f} s")
        done[step.name] = entry = run_step(step, run, pairs, seconds)
        run.say(f"{step.name}: {entry['status']} after {entry['seconds']} s{': ' if entry['why'] else ''}{entry['why']}")
        (run.raw / "steps.json").write_text(json.dumps(done, indent=1))
        if run.gemm_table.exists():
            shutil.copy(run.gemm_table, run.raw)
        write_report(run, args.out, plots=False)
    run.stop_all()
    reported = write_report(run, args.out, plots=True)
    run.say(f"{args.out}/gpu_results.md")
    return reported and all(entry["status"] in ("ok", "not run") for entry in done.values())


def main() -> int:
    args = arguments()
    steps = chosen_steps(args.only.split(","))
    if args.plan:
        print(plan(steps))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    needed = PAIR_BYTES[args.device] if any(step.part == "pairs" for step in steps) else 0
    work = args.work.resolve() if args.work else scratch(needed)
    run = GpuRun(
        programs=args.pack.resolve(),
        raw=work / "raw",
        pairs=work / "p",
        device=args.device,
        quick=args.quick,
        shape=args.shape,
        chat_model=args.chat_model,
        ddtree=args.ddtree,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        shutil.rmtree(run.raw, ignore_errors=True)
        for folder in (run.raw, run.pairs):
            folder.mkdir(parents=True, exist_ok=True)
        (run.raw / "machine.json").write_text(json.dumps(machine(run, args.only), indent=1))
        planned = sum(step.seconds for step in steps)
        run.say(f"{len(steps)} steps, {planned:.0f} s planned, at most {args.deadline:.0f} s; pairs and raw output in {work}")
        return 0 if run_steps(run, steps, args) else 1
    finally:
        run.stop_all()
        if args.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
