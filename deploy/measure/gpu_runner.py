"""The settings and the clock of one GPU run, and the inflated pairs that it makes in the background."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from runner import Failed, Runner, inflate_command


@dataclass(kw_only=True)
class GpuRun(Runner):
    """The settings of one GPU run.

    `pairs`: folder for inflated pairs. `shape`: changes to their shapes, as for inflate.py --shape.
    `chat_model`: GGUF file or folder of the chat model. None: search for it.
    `ddtree`: checkout of DDTree's official code. None: leave it out.
    """

    pairs: Path
    device: str
    shape: str
    chat_model: Path | None = None
    ddtree: Path | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def gemm_table(self) -> Path:
        """Cache file for GEMM autotuning, shared by all steps and by later runs with the same --work."""
        return self.pairs / "gemm_table.txt"

    def program(self, name: str) -> Path:
        """The path of a program. A missing program is an error, because a pack must be complete."""
        if not (self.programs / name).exists():
            raise Failed(f"{name} was not packed")
        return self.programs / name

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)


class Pairs:
    """Inflated pairs of the shapes qwen3-SIZE. They are made in the background; the steps that use them wait."""

    POSITIONS = 40960  # More than the longest context, an answer and the largest tree.
    TINY = (
        '{"hidden": 512, "intermediate": 1536, "layers": 10, "query_heads": 8, "kv_heads": 4, "head_dim": 64, '
        '"vocabulary": 4200, "drafter_layers": 2}'
    )

    def __init__(self, run: GpuRun):
        self._run = run
        self._started: dict[str, subprocess.Popen] = {}

    def folder(self, size: str) -> Path:
        return self._run.pairs / f"qwen3-{size}"

    @property
    def _changes(self) -> str:
        return self._run.shape or ("{}" if self._run.on_gpu else self.TINY)

    def _mark(self, size: str) -> Path:
        """A file that marks a complete pair. It contains the changes to the shape."""
        return self.folder(size) / "complete"

    def _exists(self, size: str) -> bool:
        """Whether this run or an earlier run made the pair with the same shape."""
        mark = self._mark(size)
        return mark.exists() and mark.read_text() == self._changes

    def start(self, size: str) -> None:
        """Starts to make the pair in the background, unless it exists."""
        if self._exists(size):
            return
        self._mark(size).unlink(missing_ok=True)
        command = inflate_command(f"qwen3-{size}", self.folder(size), "--positions", self.POSITIONS, "--shape", self._changes)
        self._started[size] = self._run.start(f"pairs/{size}", command)

    def finish(self, size: str) -> None:
        """Waits until the pair is complete."""
        if self._exists(size):
            return
        if size not in self._started:
            self.start(size)
        status = self._run.wait(self._started.pop(size))
        if status != 0:
            raise self._run.failure(f"pairs/{size}", "inflate.py", status)
        self._mark(size).write_text(self._changes)

    def ready(self, size: str) -> Path:
        """The folder of a pair that an earlier step finished."""
        if not self._exists(size):
            raise Failed(f"the {size} pair was not made")
        return self.folder(size)
