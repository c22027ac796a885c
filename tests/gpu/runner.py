"""How run.py runs things: programs in process groups of their own, each with a log, stopped when the step's time is over."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo_model"


class Failed(Exception):
    """What broke."""


class Stopped(Failed):
    """The step's time is over."""


class NotHere(Exception):
    """What this machine cannot do, and was not asked for."""


@dataclass
class Run:
    """Settings and clock of all steps. `ends`: when the present one must be over."""

    pack: Path
    raw: Path
    pairs: Path
    device: str
    quick: bool
    shape: str
    began: float = field(default_factory=time.monotonic)
    ends: float = 0.0
    _alive: list[subprocess.Popen] = field(default_factory=list)

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def gemm_table(self) -> Path:
        """How the GPU multiplies best, found once for all steps, and for later runs with the same --work."""
        return self.pairs / "gemm_table.txt"

    def pick(self, full, quick):
        return quick if self.quick else full

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def program(self, name: str) -> Path:
        if not (self.pack / name).exists():
            raise Failed(f"{name} was not packed")
        return self.pack / name

    def log(self, name: str) -> Path:
        return self.raw / f"{name}.log"

    def start(self, name: str, argv: list, environment: dict | None = None) -> subprocess.Popen:
        """What it says, stdout and stderr, goes to raw/NAME.log. `environment`: added to ours."""
        self.log(name).parent.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("w") as log:
            process = subprocess.Popen([str(part) for part in argv], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, process_group=0,
                                       env=os.environ | {key: str(value) for key, value in (environment or {}).items()})
        self._alive.append(process)
        return process

    def stop(self, *processes: subprocess.Popen, patience: float = 3.0) -> None:
        """They and what they started."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_number)
            last = time.monotonic() + patience
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, last - time.monotonic()))
        self._alive = [process for process in self._alive if process not in processes]

    def stop_all(self) -> None:
        self.stop(*self._alive)

    def wait(self, process: subprocess.Popen) -> int:
        """Its exit status."""
        try:
            status = process.wait(max(0.0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop(process)
            raise Stopped(f"{Path(process.args[0]).name} was stopped: its time was over") from None
        self._alive.remove(process)
        return status

    def command(self, name: str, argv: list) -> None:
        status = self.wait(self.start(name, argv))
        if status != 0:
            raise Failed(f"{Path(str(argv[0])).name}, status {status}: {self.last_words(name)} ({name}.log)")

    def last_words(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").replace("\r", "\n").strip().splitlines()
        return lines[-1][-300:] if lines else "nothing said"


class Pairs:
    """Inflated pairs, made in the background from the start on."""

    POSITIONS = 20480
    TINY = '{"hidden": 512, "intermediate": 1536, "layers": 10, "query_heads": 8, "kv_heads": 4, "head_dim": 64, ' \
           '"vocabulary": 4200, "drafter_layers": 2}'

    def __init__(self, run: Run):
        self._run = run
        self._made: dict[str, subprocess.Popen] = {}

    def folder(self, size: str) -> Path:
        return self._run.pairs / f"qwen3-{size}"

    @property
    def _changes(self) -> str:
        return self._run.shape or ("{}" if self._run.on_gpu else self.TINY)

    def _mark(self, size: str) -> Path:
        return self.folder(size) / "complete"

    def _is_there(self, size: str) -> bool:
        """Made by this run or an earlier one, of the same shape."""
        mark = self._mark(size)
        return mark.exists() and mark.read_text() == self._changes

    def start(self, size: str) -> None:
        if self._is_there(size):
            return
        self._mark(size).unlink(missing_ok=True)
        self._made[size] = self._run.start(f"pairs/{size}", [
            sys.executable, ROOT / "client/bench/inflate.py", "--target", DEMO / "target", "--drafter", DEMO / "drafter",
            "--profile", f"qwen3-{size}", "--positions", self.POSITIONS, "--shape", self._changes, "--out", self.folder(size)])

    def finish(self, size: str) -> None:
        """Waits for it."""
        if self._is_there(size):
            return
        if size not in self._made:
            self.start(size)
        status = self._run.wait(self._made.pop(size))
        if status != 0:
            raise Failed(f"inflate.py, status {status}: {self._run.last_words(f'pairs/{size}')}")
        self._mark(size).write_text(self._changes)

    def ready(self, size: str) -> Path:
        if not self._is_there(size):
            raise Failed(f"there is no {size} pair")
        return self.folder(size)
