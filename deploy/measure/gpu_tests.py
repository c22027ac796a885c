"""The step `kernels` of the GPU run: runs every cuda_*_test of the pack, several at a time."""

import json
import subprocess
import time
from dataclasses import dataclass

from gpu_runner import GpuRun, Pairs
from program_output import load_json, test_counts
from runner import Failed

MAX_CONCURRENT = 12  # Maximum test programs that run at the same time.
# Programs that are split because their CPU references take long.
SHARDS = {"cuda_kernels_attention_oracle_test": 16, "cuda_kernels_attention_test": 8, "cuda_parity_test": 4}


@dataclass(frozen=True)
class Shard:
    """A part of a test program's tests, as gtest shards them."""

    program: str
    index: int

    @property
    def name(self) -> str:
        return f"kernels/{self.program}.{self.index}"

    def start(self, run: GpuRun) -> subprocess.Popen:
        environment = {"GTEST_TOTAL_SHARDS": SHARDS.get(self.program, 1), "GTEST_SHARD_INDEX": self.index}
        if self.program in SHARDS:  # The shards share the cores: libtorch's references need no threads of their own.
            environment["OMP_NUM_THREADS"] = 1
        argv = [run.program(self.program), f"--gtest_output=json:{run.raw / self.name}.json", "--gtest_brief=1"]
        return run.start(self.name, argv, environment=environment)

    def end(self, run: GpuRun, status: int | None, seconds: float) -> dict:
        """Returns the shard's entry and prints it. Status None: the shard was not started, or was stopped."""
        output = load_json(run.raw / f"{self.name}.json")
        counts = test_counts(output) if output else {}
        if output:
            text = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
        else:
            ended = f"ended with status {status}: {run.last_line(self.name)}"
            text = "there was no time left" if status is None else ended
        run.say(f"  {self.name.removeprefix('kernels/')}: {text} ({seconds:.1f} s)")
        return {"status": status, "seconds": seconds, "complete": bool(output), **counts}


def one_program(ends: list[dict]) -> dict:
    """Adds up the entries of a program's shards."""
    counts = {kind: sum(end.get(kind, 0) for end in ends) for kind in ("passed", "failed", "skipped")}
    return {
        "status": next((end["status"] for end in ends if end["status"] != 0), 0),
        "complete": all(end["complete"] for end in ends),
        "seconds": max(end["seconds"] for end in ends),
        "names": [name for end in ends for name in end.get("names", [])],
        **counts,
    }


def run_shards(run: GpuRun, waiting: list[Shard]) -> dict[Shard, dict]:
    """Runs the shards, several at a time, until all have ended or run.ends has passed."""
    running: dict[Shard, tuple[subprocess.Popen, float]] = {}
    ends: dict[Shard, dict] = {}
    while waiting or running:
        while waiting and len(running) < (MAX_CONCURRENT if run.on_gpu else 1):
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


def kernels(run: GpuRun, _: Pairs) -> None:
    """Fails unless every test passed. On a GPU a skipped test counts as failed."""
    names = sorted(path.name for path in run.programs.glob("cuda_*_test"))
    if not names:
        raise Failed("no cuda_*_test was packed")
    # The programs with the most shards take longest: they start first.
    shards = [
        Shard(name, index)
        for name in sorted(names, key=lambda name: -SHARDS.get(name, 1))
        for index in range(SHARDS.get(name, 1))
    ]
    ends = run_shards(run, shards)
    programs = {name: one_program([end for shard, end in ends.items() if shard.program == name]) for name in names}
    (run.raw / "kernels/programs.json").write_text(json.dumps(programs, indent=1))
    broken = [
        name
        for name, end in programs.items()
        if end["status"] != 0 or not end["complete"] or end["failed"] or (run.on_gpu and end["skipped"])
    ]
    if broken:
        raise Failed("not all tests passed: " + ", ".join(broken))
