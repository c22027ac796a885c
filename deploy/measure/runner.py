"""Runs programs with a time limit and keeps their output.

The CPU figures, the GPU run and the comparisons share this module.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from program_output import differing_text

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo_model"
PROGRAMS = ROOT / "build/release/bin"
STARTUP_SECONDS = 180
STOP_SECONDS = 3  # A program that ignores SIGTERM is killed after this long.


class MeasureError(Exception):
    """A measurement was not possible. The text says why, and what to do."""


class Failed(MeasureError):
    """The measurement ran and failed."""


class Stopped(Failed):
    """The measurement was stopped at its time limit."""


class NotRun(MeasureError):
    """This machine lacks something that the measurement needs."""


@dataclass(frozen=True)
class ServiceSettings:
    """How to start the three services."""

    target: Path
    drafter: Path
    engine: list  # Flags of both the verifier and the drafter.
    dtype: str = "bf16"
    drafter_dtype: str = "auto"
    shared_memory: bool = False


def demo_prompts(count: int) -> list[str]:
    """The first `count` lines of the demo model's prompts."""
    return (DEMO / "prompts.jsonl").read_text().splitlines()[:count]


def pair_flags(pair: Path, drafter_dtype: str = "auto") -> list:
    """Flags of bastion-bench that name the models in pair/target and pair/drafter."""
    return ["--target", pair / "target", "--drafter", pair / "drafter", "--drafter_weights", drafter_dtype]


def inflate_command(profile: str, out: Path, *flags) -> list:
    """The command that grows the demo pair to `profile` and writes it to `out`."""
    return [
        sys.executable,
        ROOT / "deploy/measure/inflate.py",
        "--target",
        DEMO / "target",
        "--drafter",
        DEMO / "drafter",
        "--profile",
        profile,
        "--out",
        out,
        *flags,
    ]


def program_name(process: subprocess.Popen) -> str:
    """The name of the program of a process that Runner.start started."""
    assert isinstance(process.args, list)
    return Path(os.fsdecode(process.args[0])).name


@dataclass(kw_only=True)
class Runner:
    """Runs the programs in the folder `programs`. Their output goes to files in the folder `raw`."""

    programs: Path
    raw: Path
    quick: bool = False
    ends: float = math.inf  # Programs are stopped when time.monotonic() reaches this value.
    _alive: list[subprocess.Popen] = field(default_factory=list, init=False)

    def pick(self, full, quick):
        return quick if self.quick else full

    def program(self, name: str) -> Path:
        if not (self.programs / name).exists():
            raise NotRun(f"{name} is not built; run deploy/local/build.sh")
        return self.programs / name

    def start(self, name: str, argv: list, *, output: Path | None = None, environment: dict | None = None) -> subprocess.Popen:
        """Starts a program in a process group of its own. It logs to raw/NAME.log.

        `output`: a file for stdout. None: stdout goes to the log too.
        `environment`: variables to add to those of this process.
        """
        log = self.raw / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as files:
            errors = files.enter_context(log.open("w"))
            process = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stderr=errors,
                process_group=0,
                stdout=files.enter_context(output.open("w")) if output else errors,
                env=os.environ | {key: str(value) for key, value in (environment or {}).items()},
            )
        self._alive.append(process)
        return process

    def stop(self, *processes: subprocess.Popen) -> None:
        """Stops the processes and everything they started."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_number)
            last = time.monotonic() + STOP_SECONDS
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, last - time.monotonic()))
        self._alive = [process for process in self._alive if process not in processes]

    def stop_all(self) -> None:
        self.stop(*self._alive)

    def wait(self, process: subprocess.Popen) -> int:
        """Waits for the exit status. At the time `ends`, stops the process and raises Stopped."""
        try:
            status = process.wait(None if self.ends == math.inf else max(0.0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop(process)
            raise Stopped(f"{program_name(process)} was stopped at its time limit") from None
        self._alive.remove(process)
        return status

    def last_line(self, name: str) -> str:
        """The last line that the program wrote to raw/NAME.log, or else to raw/NAME.out."""
        for path in (self.raw / f"{name}.log", self.raw / f"{name}.out"):
            lines = path.read_text(errors="replace").replace("\r", "\n").strip().splitlines() if path.exists() else []
            if lines:
                return lines[-1][-300:]
        return "there is no output"

    def failure(self, name: str, program, status: int) -> Failed:
        why = "killed, perhaps for lack of memory" if status == -signal.SIGKILL else self.last_line(name)
        return Failed(f"{Path(str(program)).name}, status {status}: {why} (raw/{name}.log)")

    def command(self, name: str, argv: list) -> None:
        """Runs a program that must succeed."""
        status = self.wait(self.start(name, argv))
        if status != 0:
            raise self.failure(name, argv[0], status)

    def output(self, name: str, argv: list) -> str:
        """Runs a program that must succeed, and returns its stdout, which also stays in raw/NAME.out."""
        path = self.raw / f"{name}.out"
        status = self.wait(self.start(name, argv, output=path))
        if status != 0:
            raise self.failure(name, argv[0], status)
        return path.read_text()

    def bench(self, name: str, prompts: list[str], flags: list, exact: bool = True) -> dict:
        """Runs bastion-bench on the prompts (JSON lines), with its report in raw/NAME, and returns results.json.

        `exact`: fail if any policy generates other tokens than the first policy.
        """
        folder = self.raw / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prompts.jsonl").write_text("\n".join(prompts) + "\n")
        file = folder / "results.json"
        file.unlink(missing_ok=True)
        argv = [self.program("bastion-bench"), "--prompts", folder / "prompts.jsonl", "--report", folder, *flags]
        argv += [] if exact else ["--texts_may_differ"]
        status = self.wait(self.start(f"{name}/bench", argv))
        if not file.exists():
            raise self.failure(f"{name}/bench", argv[0], status)
        results = json.loads(file.read_text())
        differing = differing_text(results)
        if exact and differing:
            raise Failed(f"texts differ from plain decoding (policy: prompts): {differing}")
        if status != 0 and not differing:
            raise self.failure(f"{name}/bench", argv[0], status)
        return results

    @contextlib.contextmanager
    def services(self, name: str, settings: ServiceSettings) -> Iterator[str]:
        """Starts verifier, drafter and orchestrator, yields the orchestrator's address, and stops them at the end.

        Their logs go to raw/NAME. Their sockets are in a temporary folder, which keeps their paths short.
        """
        with tempfile.TemporaryDirectory(prefix="bastion.") as sockets:
            commands = self._service_commands(settings, Path(sockets))
            processes: list[subprocess.Popen] = []
            try:
                processes += [self.start(f"{name}/{argv[0].name}", argv) for argv in commands]
                endpoint = f"unix://{sockets}/orchestrator.sock"
                self._await_health(name, endpoint, processes)
                yield endpoint
            finally:
                self.stop(*processes)

    def _service_commands(self, settings: ServiceSettings, sockets: Path) -> list[list]:
        address = {service: f"unix://{sockets}/{service}.sock" for service in ("verifier", "drafter", "orchestrator")}

        def command(service: str, *flags) -> list:
            return [self.program(f"bastion-{service}"), "--target", settings.target, "--listen", address[service], *flags]

        memory = ["--shared_memory", sockets / "shm"] if settings.shared_memory else []
        has_prior = (settings.drafter / "transition_prior.safetensors").exists()
        return [
            command("verifier", "--weights", settings.dtype, *settings.engine, *memory),
            command(
                "drafter",
                "--drafter",
                settings.drafter,
                "--weights",
                settings.drafter_dtype,
                "--verifier",
                address["verifier"],
                *settings.engine,
                *memory,
            ),
            command(
                "orchestrator",
                "--verifier",
                address["verifier"],
                "--drafter",
                address["drafter"],
                *(["--prior", settings.drafter] if has_prior else []),
            ),
        ]

    def _await_health(self, name: str, endpoint: str, services: list[subprocess.Popen]) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        ask = [self.program("bastionctl"), "health", "--endpoint", endpoint]
        while self.wait(self.start(f"{name}/health", ask)) != 0:
            for service in services:
                if service.poll() is not None:
                    program = program_name(service)
                    raise self.failure(f"{name}/{program}", program, service.returncode)
            if time.monotonic() > deadline:
                raise Failed(f"the services were not ready after {STARTUP_SECONDS} s: {self.last_line(f'{name}/health')}")
            time.sleep(0.1)
