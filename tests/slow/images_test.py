#!/usr/bin/env python3
"""Tests the container images: contents, and the services as a user without rights, on read-only files.

watches: cmake/BastionInstall.cmake deploy/docker deploy/sbom.py tests/slow/containers.py common/host/stop_signals.cc orchestrator/program/main.cc verifier_service/serve/main.cc drafter_service/serve/main.cc
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest
import urllib.request

import containers
from command_line import PROGRAMS, build_chart_tools, build_programs, parse_arguments
from containers import Container, Image
from demo_services import MODELS, ROOT, free_port

ARGUMENTS = None
# MB of files: programs and the libraries of Debian that they load.
MOST_MEGABYTES = {"orchestrator": 60, "verifier": 80, "drafter": 80, "replica": 100}
COMPOSE = ROOT / "deploy/docker/compose.yaml"
PROMPT = "def fibonacci(n):"
LONG = 1500  # Tokens of an answer that is running when the services are stopped.


def read_compose(text):
    """The services of a Compose file, as compose-go understands it. It knows no environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "compose.yaml")
        file.write_text(re.sub(r"\$\{BASTION_MODELS:\?.*?\}", "/models", text))
        ran = subprocess.run(
            [build_chart_tools() / "compose", "-format", "json", file], capture_output=True, text=True, check=False
        )
    if ran.returncode != 0:
        raise ValueError(ran.stderr)
    return json.loads(ran.stdout)["services"]


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="bastion-images.")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.compose = read_compose(COMPOSE.read_text())
        cls.ports = {port: free_port() for port in ("7070", "9070")}
        subprocess.run([ROOT / "deploy/docker/build_images.sh"], check=True)
        cls.images = {name: Image(ROOT / f"build/images/bastion-{name}.tar", cls.folder / name) for name in MOST_MEGABYTES}

    def test_images_are_small(self):
        for name, image in self.images.items():
            megabytes = image.bytes() / 1e6
            print(f"{name}: {megabytes:.1f} MB")
            self.assertLess(megabytes, MOST_MEGABYTES[name], name)

    def test_images_have_only_the_programs_that_they_need(self):
        expected = {
            "orchestrator": {"bastion-orchestrator", "bastionctl", "sha256sum"},
            "verifier": {"bastion-verifier", "bastionctl"},
            "drafter": {"bastion-drafter", "bastionctl"},
            "replica": {
                "bastion-orchestrator",
                "bastion-verifier",
                "bastion-drafter",
                "bastionctl",
                "sha256sum",
                "bash",
                "sleep",
                "run_replica",
            },
        }
        for name, image in self.images.items():
            programs = {
                path.name
                for path in image.root.rglob("*")
                if path.is_file() and os.access(path, os.X_OK) and not path.name.startswith("ld-linux")
            }
            self.assertEqual(programs, expected[name], name)

    def test_images_state_their_user_version_and_license(self):
        for name, image in self.images.items():
            self.assertEqual(image.config["User"], "10001:10001")
            labels = image.config["Labels"]
            self.assertEqual(labels["org.opencontainers.image.title"], f"bastion-{name}")
            self.assertEqual(labels["org.opencontainers.image.version"], image.version)
            self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
            self.assertIn("Apache License", (image.root / "usr/share/doc/bastion/copyright").read_text())

    def test_images_list_what_they_contain(self):
        for image in self.images.values():
            bill = json.loads((image.root / "usr/share/doc/bastion/sbom.json").read_text())
            purls = {c["name"]: c["purl"] for c in bill["components"]}
            for package in ("libc6", "libgrpc++1.51", "ca-certificates"):
                self.assertIn("pkg:deb/", purls[package])
                status = (image.root / "var/lib/dpkg/status.d" / package).read_text()
                self.assertIn(f"Package: {package}\n", status)
                self.assertTrue((image.root / "usr/share/doc" / package / "copyright").exists())
            self.assertIn("pkg:cargo/", purls["tokenizers"])
            self.assertNotIn("libgrpc++-dev", purls)

    def test_the_compose_file_gives_services_no_rights(self):
        self.assertEqual(set(self.compose), {"verifier", "drafter", "orchestrator"})
        for name, service in self.compose.items():
            self.assertTrue(service["read_only"])
            self.assertEqual((service["user"], service["cap_drop"]), ("10001:10001", ["ALL"]))
            self.assertEqual(service["image"], f"bastion-{name}:{self.images[name].version}")
        for name in ("verifier", "drafter"):
            self.assertEqual(self.compose[name]["network_mode"], "none")
            self.assertIn(name, self.compose["orchestrator"]["depends_on"])
        with self.assertRaisesRegex(ValueError, "read_onyl"):
            read_compose(COMPOSE.read_text().replace("read_only", "read_onyl"))

    def local(self, words):
        """Words of the Compose file, with ports that are free on this host."""
        return [re.sub(r"(?:0\.0\.0\.0|127\.0\.0\.1):(\d+)", lambda m: f"127.0.0.1:{self.ports[m[1]]}", word) for word in words]

    def command(self, service):
        return self.local(self.compose[service]["command"])

    @contextlib.contextmanager
    def services(self, single):
        """The services in one or three containers; yields the containers by service, the orchestrator's last."""
        with contextlib.ExitStack() as stack:
            run = containers.private_folder(self.enterContext(tempfile.TemporaryDirectory()), "run")
            self.mounts = [(run, "/run/bastion"), (MODELS, "/models:ro")]
            name = f"bastion-{os.getpid()}"

            def start(image, service, arguments):
                return stack.enter_context(Container(self.images[image], f"{name}-{service}", arguments, self.mounts))

            if single:
                words = [
                    word
                    for service in ("verifier", "drafter", "orchestrator")
                    for word in ("--", f"bastion-{service}", *self.command(service))
                ]
                running = {"orchestrator": start("replica", "replica", words[1:])}
            else:
                running = {s: start(s, s, self.command(s)) for s in ("verifier", "drafter", "orchestrator")}
            self.await_health(running)
            yield running

    def await_health(self, running):
        deadline = time.monotonic() + 60
        while any(not self.healthy(running, service) for service in self.compose):
            for service, container in running.items():
                if container.process.poll() is not None or time.monotonic() > deadline:
                    self.fail(f"{service} is not ready:\n{container.log()}")
            time.sleep(0.3)

    def healthy(self, running, service):
        """The health check of the Compose file."""
        check = self.local(self.compose[service]["healthcheck"]["test"])
        self.assertEqual(check[0], "CMD")
        return running.get(service, running["orchestrator"]).execute(*check[1:]).returncode == 0

    def generate(self, tokens):
        """A client in a container of its own, which survives the services."""
        return Container(
            self.images["verifier"],
            f"bastion-{os.getpid()}-client-{time.monotonic_ns()}",
            [
                "generate",
                "--prompt",
                PROMPT,
                "--temperature",
                "1",
                "--seed",
                "1",
                "--policy",
                "ar",
                "--max-new-tokens",
                str(tokens),
                "--stats=false",
                "--endpoint",
                f"127.0.0.1:{self.ports['7070']}",
            ],
            entrypoint=["bastionctl"],
        )

    def answer(self, tokens):
        with self.generate(tokens) as client:
            self.assertEqual(client.wait(), 0, client.log())
            return client.log()

    def check_drain(self, running):
        """SIGTERM in the middle of an answer: the client gets all of it."""
        whole = self.answer(LONG)
        with self.generate(LONG) as client:
            deadline = time.monotonic() + 30
            while len(client.log()) < len(whole) // 10:
                self.assertLess(time.monotonic(), deadline, client.log())
                time.sleep(0.01)
            running["orchestrator"].terminate()
            self.assertLess(len(client.log()), len(whole), "the answer ended before the signal")
            self.assertEqual(client.wait(), 0, client.log())
            self.assertEqual(client.log(), whole)
        self.assertEqual(running["orchestrator"].wait(), 0, running["orchestrator"].log())

    def test_three_containers_answer_and_lose_no_token_when_they_are_stopped(self):
        with self.services(single=False) as running:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['9070']}/v1/models", timeout=10) as page:
                self.assertEqual(json.load(page)["data"][0]["id"], "target")
            for service in running:
                self.assertEqual(running[service].execute("/bin/sh", "-c", "true").returncode, 255)
                with open(f"/proc/{self.pid_of(running[service])}/status", encoding="utf-8") as status:
                    text = status.read()
                self.assertRegex(text, r"(?m)^Uid:\s+10001\s+10001\s+10001\s+10001$")
                self.assertRegex(text, r"(?m)^CapEff:\s+0+$")
            self.assertRegex(running["orchestrator"].log(), "(?i)shared memory")
            self.check_drain(running)
            for service in ("drafter", "verifier"):
                running[service].terminate()
                self.assertEqual(running[service].wait(), 0, running[service].log())

    def test_one_container_stops_its_services_in_order(self):
        with self.services(single=True) as running:
            self.check_drain(running)
            log = running["orchestrator"].log()
            self.assertEqual(len(re.findall("SIGTERM: stopping", log)), 2, log)
            self.assertLess(log.index("SIGTERM: draining"), log.index("SIGTERM: stopping"))

    def test_one_container_starts_a_dead_drafter_and_a_dead_verifier_again(self):
        with self.services(single=True) as running:
            expected = self.answer(64)
            for service in ("drafter", "verifier"):
                pids = [
                    int(path.name)
                    for path in pathlib.Path("/proc").glob("[0-9]*")
                    if self.is_child(path, running["orchestrator"], f"bastion-{service}")
                ]
                self.assertEqual(len(pids), 1)
                os.kill(pids[0], 9)
                time.sleep(1)
                self.await_health(running)
                self.assertEqual(self.answer(64), expected)
            self.assertIn("the verifier ended with status 137", running["orchestrator"].log())

    @staticmethod
    def pid_of(container):
        return json.loads(containers.must("runc", "state", container.name))["pid"]

    def is_child(self, path, container, program):
        """Whether the process of /proc/PID is a program that the container's first process has started."""
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().split(b"\0")[0].decode()
            parent = re.search(r"(?m)^PPid:\s+(\d+)", (path / "status").read_text())
            return command == program and int(parent[1]) == self.pid_of(container)
        return False

    def test_models_can_be_checked_without_a_shell(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        sums = containers.must("sha256sum", *(MODELS / "target").iterdir()).replace(f"{MODELS}/", "/models/")
        for text, status in [(sums, 0), (sums.replace(sums[:4], "beef", 1), 1), (sums + sums[:64] + "  /models/x\n", 1)]:
            (folder / "SHA256SUMS").write_text(text)
            with Container(
                self.images["orchestrator"],
                f"bastion-{os.getpid()}-check",
                ["--check", "--strict", "--quiet", "/sums/SHA256SUMS"],
                [(MODELS, "/models:ro"), (folder, "/sums:ro")],
                entrypoint=["sha256sum"],
            ) as check:
                self.assertEqual(check.wait(), status, check.log())


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    build_programs("release", *PROGRAMS)
    unittest.main(verbosity=2)
