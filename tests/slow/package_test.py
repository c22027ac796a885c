#!/usr/bin/env python3
"""Tests the Debian package in a bare Debian 12: it installs, its units start under systemd, and answer.

watches: cmake/BastionInstall.cmake deploy/systemd deploy/docker/bootstrap_debian.sh common/wire/private_folder.cc
"""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from command_line import PROGRAMS, build_programs, parse_arguments
from demo_services import MODELS, ROOT, free_port

ARGUMENTS = None


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)


def must(*command, **options):
    ran = run(*command, **options)
    if ran.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Machine(contextlib.AbstractContextManager):
    """A Debian 12 that systemd-nspawn boots. It has the network of this host."""

    def __init__(self, root):
        self.ending = False
        self.log = pathlib.Path(ARGUMENTS.out, "package-boot.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    "systemd-nspawn",
                    "--quiet",
                    "--boot",
                    f"--directory={root}",
                    f"--machine=bastion-{os.getpid()}",
                    "--register=no",
                    "--keep-unit",
                    f"--bind-ro={MODELS}:/srv/bastion",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def power_off(self):
        """Returns at once. A second signal would not let the services finish."""
        if not self.ending:
            self.process.terminate()
        self.ending = True

    def __exit__(self, *_):
        self.power_off()
        self.process.wait(timeout=120)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="bastion-package.")
        cls.addClassCleanup(folder.cleanup)
        must("cpack", "-G", "DEB", "--config", ROOT / "build/release/CPackConfig.cmake", "-B", folder.name)
        [cls.package] = pathlib.Path(folder.name).glob("*.deb")
        cls.root = pathlib.Path(folder.name, "debian")
        must(
            ROOT / "deploy/docker/bootstrap_debian.sh",
            cls.root,
            "--include=systemd,systemd-sysv,dbus",
            f"--customize-hook=copy-in {cls.package} /tmp",
            f'--customize-hook=chroot "$1" apt-get install -y /tmp/{cls.package.name}',
        )

    def test_the_package_states_what_it_needs_and_nothing_for_developers(self):
        shown = must("dpkg-deb", "--info", self.package)
        self.assertRegex(shown, r"Package: bastion\n")
        [depends] = re.findall(r"Depends: (.*)", shown)
        for package in ("libc6 (>=", "libgrpc++1.51 (>=", "libprotobuf32 (>=", "libssl3 (>=", "opentelemetry-cpp (>="):
            self.assertIn(package, depends)
        self.assertNotIn("-dev", depends)
        self.assertGreater(int(re.search(r"Installed-Size: (\d+)", shown)[1]), 1000)

    def test_the_package_has_no_files_outside_usr(self):
        for line in must("dpkg-deb", "--contents", self.package).splitlines():
            self.assertRegex(line.split()[5], r"^\./(usr/.*)?$")

    def test_programs_run_in_the_bare_system(self):
        for program in PROGRAMS:
            self.assertRegex(must("chroot", self.root, program, "--version"), r"\d+\.\d+\.\d+")

    def configure(self, port):
        """The examples of the package, with ports that are free on this host."""
        settings = self.root / "etc/bastion"
        settings.mkdir()
        for example in (self.root / "usr/share/doc/bastion/examples").glob("*.env"):
            text = re.sub(r"--listen=127\.0\.0\.1:\d+", f"--listen=127.0.0.1:{port}", example.read_text())
            text = re.sub(r"--http_listen=[\d.:]+", lambda _: f"--http_listen=127.0.0.1:{free_port()}", text)
            (settings / example.name).write_text(text)
        must("chroot", self.root, "systemctl", "enable", "bastion.target")

    def test_units_start_answer_and_stop_in_order_without_losing_a_token(self):
        port = free_port()
        self.configure(port)
        ctl = [self.root / "usr/bin/bastionctl", "--endpoint", f"127.0.0.1:{port}"]
        generate = [
            *ctl,
            "generate",
            "--prompt",
            "def fibonacci(n):",
            "--temperature",
            "1",
            "--seed",
            "1",
            "--max-new-tokens",
            "1500",
            "--policy",
            "ar",
            "--stats=false",
        ]
        with Machine(self.root) as machine:
            deadline = time.monotonic() + 120
            while run(*ctl, "health").returncode != 0:
                self.assertIsNone(machine.process.poll(), machine.log.read_text(errors="replace"))
                self.assertLess(time.monotonic(), deadline, machine.log.read_text(errors="replace"))
                time.sleep(0.5)
            whole = must(*generate)
            with subprocess.Popen(list(map(str, generate)), stdout=subprocess.PIPE, text=True) as client:
                begin = client.stdout.read(20)
                machine.power_off()
                self.assertEqual(begin + client.stdout.read(), whole)
                ended = time.time()
                self.assertEqual(client.wait(), 0)
        journal = must("journalctl", f"--root={self.root}", "--no-pager", "--output=short-unix")
        drain = re.search(r"(?m)^([\d.]+) .*SIGTERM: draining$", journal)
        self.assertLess(float(drain[1]), ended, "the answer ended before the signal")
        stopped = re.findall(r"bastion-(\w+)\.service: Deactivated successfully", journal)
        self.assertEqual(stopped, ["orchestrator", "drafter", "verifier"])
        self.assertRegex(journal, r"bastion-orchestrator\[\d+\]: .*verifier\.sock: over shared memory")


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    build_programs("release", *PROGRAMS)
    unittest.main(verbosity=2)
