"""Runs the services with the demo models, for the tests in this folder."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "deploy" / "demo_model"
PROMPTS = MODELS / "prompts.jsonl"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class DemoServices(contextlib.AbstractContextManager):
    """Verifier, drafter and orchestrator on local sockets, with HTTP ports on loopback."""

    start_seconds = 60  # Until they are ready.

    def __init__(self, binaries, orchestrator_flags=(), environment=None, models=MODELS):
        self.binaries = pathlib.Path(binaries).resolve()
        self.models = pathlib.Path(models)
        self.folder = tempfile.TemporaryDirectory(prefix="bastion-slow.")
        self.orchestrator_flags = list(orchestrator_flags)
        self.environment = {**os.environ, **(environment or {})}
        self.processes = {}
        self.http = {name: free_port() for name in ("verifier", "drafter", "orchestrator")}
        self.endpoint = self.address("orchestrator")

    def address(self, name):
        return f"unix://{self.folder.name}/{name}.sock"

    def log(self, name):
        return pathlib.Path(self.folder.name, f"{name}.log").read_text(errors="replace")

    def memory_flags(self):
        """The flags with which services of one host share memory."""
        return ("--shared_memory", f"{self.folder.name}/shm")

    def flags(self, name):
        memory = self.memory_flags()
        verifier = ("--verifier", self.address("verifier"))
        has_prior = (self.models / "drafter" / "transition_prior.safetensors").exists()
        prior = ("--prior", self.models / "drafter") if has_prior else ()
        return {
            "verifier": (*memory, "--weights", "bf16"),
            "drafter": (*verifier, *memory, "--drafter", self.models / "drafter", "--weights", "auto"),
            "orchestrator": (*verifier, "--drafter", self.address("drafter"), *prior, *self.orchestrator_flags),
        }[name]

    def prefix(self, _name):
        """The program that starts a service, with its arguments."""
        return ()

    def start(self, name):
        """Starts a service, also one that has ended. Its log continues."""
        command = [
            *self.prefix(name),
            self.binaries / f"bastion-{name}",
            *self.flags(name),
            "--target",
            self.models / "target",
            "--listen",
            self.address(name),
            "--http_listen",
            f"127.0.0.1:{self.http[name]}",
        ]
        with open(pathlib.Path(self.folder.name, f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)

    def __enter__(self):
        for name in ("verifier", "drafter", "orchestrator"):
            self.start(name)
        deadline = time.monotonic() + self.start_seconds
        while self.ctl("health").returncode != 0:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended:\n{self.log(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not ready:\n{self.log('orchestrator')}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        """Ends all services. They export their last spans meanwhile."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def run(self, program, *flags, **options):
        command = [self.binaries / program, *flags, "--endpoint", self.endpoint]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    def ctl(self, *arguments):
        return self.run("bastionctl", *arguments)

    def bench_command(self, *flags):
        return [
            str(self.binaries / "bastion-bench"),
            "--endpoint",
            self.endpoint,
            "--target",
            str(self.models / "target"),
            "--prompts",
            str(PROMPTS),
            *flags,
        ]

    def metrics(self, name="orchestrator"):
        """The samples of /metrics: {'name{labels}': value}."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http[name]}/metrics", timeout=10) as page:
            text = page.read().decode()
        return {m[1]: float(m[2]) for m in re.finditer(r"^([^#\s]+(?:\{.*\})?) (\S+)$", text, re.M)}


def total(samples, metric):
    """The sum of a metric over all its labels."""
    return sum(value for name, value in samples.items() if name == metric or name.startswith(metric + "{"))
