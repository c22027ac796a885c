#!/usr/bin/env python3
"""Tests that installed programs run from any folder, without the folder of the build.

usage: install_test.py BUILD
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/slow"))
from demo_services import DemoServices  # noqa: E402

PROGRAMS = {
    "bastion-orchestrator",
    "bastion-verifier",
    "bastion-drafter",
    "bastionctl",
    "bastion-bench",
    "bastion-doctor",
    "bastion-train",
    "bastion-verify-exactness",
}
UNITS = ("bastion-verifier.service", "bastion-drafter.service", "bastion-orchestrator.service")
MOST_EXPOSURE = 1.5  # On systemd's scale from 0 to 10. Services that use the network have more than 1.
BUILD = None


def output_of(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


class InstallTest(unittest.TestCase):
    root: pathlib.Path
    tree: pathlib.Path

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="bastion-install.")
        cls.addClassCleanup(folder.cleanup)
        output_of(
            "cmake", "--install", BUILD, "--component", "bastion", "--strip", "--prefix", pathlib.Path(folder.name, "first/usr")
        )
        cls.root = pathlib.Path(folder.name, "moved")
        shutil.move(pathlib.Path(folder.name, "first"), cls.root)
        cls.tree = cls.root / "usr"
        for target in pathlib.Path("/lib/systemd/system").glob("*.target"):  # Those that units refer to.
            shutil.copy(target, cls.tree / "lib/systemd/system", follow_symlinks=False)

    def test_all_programs_are_installed_and_stripped(self):
        self.assertEqual({path.name for path in (self.tree / "bin").iterdir()}, PROGRAMS)
        for name in PROGRAMS:
            self.assertNotIn(".symtab", output_of("readelf", "-SW", self.tree / "bin" / name))

    def test_programs_look_for_libraries_only_where_the_system_has_them(self):
        for name in PROGRAMS:
            self.assertNotRegex(output_of("readelf", "-d", self.tree / "bin" / name), "RPATH|RUNPATH")

    def test_programs_state_their_version(self):
        for name in PROGRAMS:
            self.assertRegex(output_of(self.tree / "bin" / name, "--version"), r"\d+\.\d+\.\d+")

    def test_license_and_units_are_installed(self):
        for path in (
            "share/doc/bastion/copyright",
            "share/doc/bastion/examples/verifier.env",
            "lib/systemd/system/bastion.target",
            "lib/systemd/system/bastion-verifier.service",
            "lib/systemd/system/bastion-.service.d/common.conf",
        ):
            self.assertTrue((self.tree / path).is_file(), path)
        self.assertFalse((self.tree / "lib/systemd/system/examples").exists())

    def test_units_are_clean(self):
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--root={self.root}", "bastion.target", *UNITS],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_a_mistake_in_a_unit_is_found(self):
        unit = self.tree / "lib/systemd/system/bastion-mistake.service"
        unit.write_text("[Service]\nExecStart=bastion-verifier\nRestartSecs=1\n")
        self.addCleanup(unit.unlink)
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--root={self.root}", unit.name],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("RestartSecs", checked.stderr)

    def test_units_are_hardened(self):
        for unit in UNITS:
            rated = output_of("systemd-analyze", "security", "--offline=true", f"--root={self.root}", unit)
            exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", rated)
            assert exposure, rated
            self.assertLess(float(exposure[1]), MOST_EXPOSURE, unit)

    def test_the_services_answer_from_a_folder_that_was_moved(self):
        with DemoServices(self.tree / "bin") as services:
            answer = services.ctl("generate", "--prompt", "def add(a, b):", "--max-new-tokens", "16")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertTrue(answer.stdout.strip())


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
