"""The steps of tests/gpu/run.sh, which says what this is for and sets its environment: one after the other, each within its
time, a report after each."""

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

import report
from runner import Failed, NotHere, Pairs, Run, Stopped
from steps import PARTS, Step, chosen_steps

DEADLINE = 525.0
PAIR_BYTES = {"cuda": 30 << 30, "cpu": 1 << 30}
LEAST_SECONDS = 3.0  # A step with less is not begun.


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=root / "build/gpu/results")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--deadline", type=float, default=DEADLINE)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--shape", default="")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(PARTS):
        parser.error(f"--only: no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return args


def available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), 0)


def scratch(needed: int) -> Path:
    """A folder in memory if the pairs leave as much again free, else on the disk."""
    memory, disk = Path("/dev/shm"), Path(tempfile.gettempdir())
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > needed and available_memory() > 2 * needed
    return Path(tempfile.mkdtemp(prefix="bastion-gpu.", dir=memory if roomy else disk))


def said(argv: list[str]) -> list[str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def torch_version() -> str:
    """Without loading it, which takes seconds."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def machine(run: Run, parts: str) -> dict:
    """What the figures are of."""
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown CPU")
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"
    built = run.pack / "built.txt"
    return {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "device": run.device, "quick": run.quick,
            "shape": run.shape or ("" if run.on_gpu else Pairs.TINY), "parts": parts,
            "gpus": said(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]),
            "cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(),
            "torch": torch_version(), "built": built.read_text().strip() if built.exists() else "unknown"}


def run_step(step: Step, run: Run, pairs: Pairs, seconds: float) -> dict:
    """Its entry of steps.json: status ok, failed, stopped, skipped or not here, and why."""
    entry = {"part": step.part, "status": "ok", "why": "", "limit": round(max(seconds, 0.0), 1)}
    if seconds < LEAST_SECONDS:
        return {**entry, "status": "skipped", "why": "no time was left", "seconds": 0.0}
    began = time.monotonic()
    run.ends = began + seconds
    try:
        step.work(run, pairs)
    except NotHere as error:
        entry |= {"status": "not here", "why": str(error)}
    except Stopped as error:
        entry |= {"status": "stopped", "why": str(error)}
    except Failed as error:
        entry |= {"status": "failed", "why": str(error)}
    except Exception as error:  # Whatever breaks, the others run.
        traceback.print_exc()
        entry |= {"status": "failed", "why": repr(error)}
    return {**entry, "seconds": round(time.monotonic() - began, 1)}


def write_report(run: Run, out: Path, plots: bool) -> bool:
    try:
        report.write([run.raw], out, plots)
        return True
    except Exception:  # The raw output is what counts.
        traceback.print_exc()
        return False


def run_steps(run: Run, steps: list[Step], args: argparse.Namespace) -> bool:
    """Whether all is well."""
    pairs, done = Pairs(run), {}
    for step in steps:
        if step.part == "pairs":
            pairs.start(step.name.rsplit("_", 1)[1])
    for index, step in enumerate(steps):
        later = sum(other.seconds for other in steps[index + 1:])
        left = run.began + args.deadline - time.monotonic()
        seconds = min(left, max(left - later, step.seconds))
        run.say(f"{step.name}: has {max(seconds, 0):.0f} s")
        done[step.name] = entry = run_step(step, run, pairs, seconds)
        run.say(f"{step.name}: {entry['status']} after {entry['seconds']} s{': ' if entry['why'] else ''}{entry['why']}")
        (run.raw / "steps.json").write_text(json.dumps(done, indent=1))
        if run.gemm_table.exists():
            shutil.copy(run.gemm_table, run.raw)
        write_report(run, args.out, plots=False)
    run.stop_all()
    reported = write_report(run, args.out, plots=True)
    run.say(f"{args.out}/gpu_results.md")
    return reported and all(entry["status"] in ("ok", "not here") for entry in done.values())


def main() -> int:
    args = arguments()
    steps = chosen_steps(args.only.split(","))
    args.out.mkdir(parents=True, exist_ok=True)
    needed = PAIR_BYTES[args.device] if any(step.part == "pairs" for step in steps) else 0
    work = args.work.resolve() if args.work else scratch(needed)
    run = Run(pack=args.pack.resolve(), raw=work / "raw", pairs=work / "p", device=args.device, quick=args.quick,
              shape=args.shape)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        shutil.rmtree(run.raw, ignore_errors=True)
        for folder in (run.raw, run.pairs):
            folder.mkdir(parents=True, exist_ok=True)
        (run.raw / "machine.json").write_text(json.dumps(machine(run, args.only), indent=1))
        run.say(f"{len(steps)} steps, at most {args.deadline:.0f} s; pairs and raw output in {work}")
        return 0 if run_steps(run, steps, args) else 1
    finally:
        run.stop_all()
        if args.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
