"""Tests tests/gpu/pack.sh and the joining of what it splits, on small programs. Run by ctest.

usage: pack_test.py C-COMPILER
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["bastion-verifier", "bastion-drafter", "bastion-orchestrator", "bastion-bench", "bastionctl", "cuda_some_test"]
COMPILER = "cc"

# Writes more after the line that pack.sh looks for, later: a reader that ends early makes it fail.
SLOW_READELF = """#!/bin/sh
set -e
{readelf} "$@"
sleep 0.05
{readelf} "$@"
"""


class PackTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="bastion-pack."))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(ROOT / "tests/gpu", self.root / "tests/gpu")
        self.bin, self.lib = self.root / "build/cuda/bin", self.root / "other"
        self.site = self.root / "build/venv/lib/python3.11/site-packages"
        for folder in (self.bin, self.lib, self.site / "torch/lib", self.root / "tools"):
            folder.mkdir(parents=True)
        (self.site / "torch/version.py").write_text("__version__ = '2.9.0'\n")
        readelf = self.root / "tools/readelf"
        readelf.write_text(SLOW_READELF.format(readelf=shutil.which("readelf")))
        readelf.chmod(0o755)

    def compile(self, output: Path, source: str, *flags: str) -> Path:
        subprocess.run([COMPILER, "-x", "c", "-", "-x", "none", "-o", output, *flags], input=source, text=True, check=True)
        return output

    def library(self, folder: Path, name: str, megabytes: int = 0) -> Path:
        """A library whose function `name` returns 7, with this much data."""
        data = f"char data_{name}[{megabytes * 1000000 + 1}] = {{1}};\n"
        return self.compile(
            folder / f"lib{name}.so", f"{data}int {name}(void) {{ return 7; }}", "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so"
        )

    def write_programs(self, *libraries: Path) -> None:
        """Programs that return the sum of the libraries' functions."""
        names = [library.stem.removeprefix("lib") for library in libraries]
        source = (
            "".join(f"int {name}(void);\n" for name in names)
            + f"int main(void) {{ return {' + '.join([f'{name}()' for name in names] + ['0'])}; }}\n"
        )
        path = ":".join(str(library.parent) for library in libraries) or str(self.lib)
        self.compile(self.bin / PROGRAMS[0], source, *map(str, libraries), f"-Wl,-rpath,{path}", "-Wl,--disable-new-dtags")
        for name in PROGRAMS[1:]:
            shutil.copy(self.bin / PROGRAMS[0], self.bin / name)

    def pack(self, *flags: str) -> Path:
        environment = os.environ | {"PATH": f"{self.root / 'tools'}:{os.environ['PATH']}"}
        done = subprocess.run(
            [self.root / "tests/gpu/pack.sh", *flags], env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.root / "build/cuda/pack"

    def run_program(self, pack: Path, libraries: str = "") -> int:
        """The exit status of a packed program on a machine that has only `libraries`."""
        moved = self.root / "moved"
        shutil.move(pack, moved)
        shutil.rmtree(self.lib)
        subprocess.run(["bash", moved / "join.sh"], check=True)
        return subprocess.run([moved / PROGRAMS[0]], env={"LD_LIBRARY_PATH": libraries}, check=False).returncode

    def test_a_folder_without_torch_has_all_libraries(self):
        self.write_programs(self.library(self.lib, "some"))
        pack = self.pack()
        self.assertEqual([path.name for path in (pack / "lib").iterdir()], ["libsome.so"])
        self.assertEqual({path.name for path in pack.iterdir()} - {"lib", "env.sh", "join.sh", "built.txt"}, set(PROGRAMS))
        self.assertEqual(self.run_program(pack), 7)

    def test_libraries_of_the_torch_wheel_are_not_packed(self):
        torch = self.site / "torch/lib"
        self.write_programs(self.library(self.lib, "some"), self.library(torch, "torch_cpu"))
        pack = self.pack()
        self.assertEqual([path.name for path in (pack / "lib").iterdir()], ["libsome.so"])
        environment = (pack / "env.sh").read_text()
        self.assertIn("libtorch_cpu.so", environment)
        self.assertIn('"2.9.0"', environment)
        self.assertEqual(self.run_program(pack, str(torch)), 14)

    def test_large_files_travel_in_parts(self):
        self.write_programs(self.library(self.lib, "large", megabytes=70))
        model = self.root / "model"
        model.mkdir()
        weights = os.urandom(1000) * 61_000
        (model / "weights").write_bytes(weights)
        pack = self.pack("--add", str(model))
        files = [path for path in pack.rglob("*") if path.is_file()]
        self.assertLessEqual(max(path.stat().st_size for path in files), 30_000_000)
        self.assertEqual(len([path for path in files if path.name.startswith("weights.part.")]), 3)
        self.assertEqual(self.run_program(pack), 7)
        self.assertEqual((self.root / "moved/added/model/weights").read_bytes(), weights)
        self.assertEqual(list((self.root / "moved").rglob("*.part.*")), [])

    def test_joining_twice_changes_nothing(self):
        self.write_programs(self.library(self.lib, "large", megabytes=31))
        pack = self.pack()
        for _ in range(2):
            subprocess.run(["bash", pack / "join.sh"], check=True)
        self.assertGreater((pack / "lib/liblarge.so").stat().st_size, 31_000_000)

    def test_a_folder_that_is_too_large_is_an_error(self):
        self.write_programs(self.library(self.lib, "large", megabytes=101))
        self.assertRaisesRegex(AssertionError, "is larger than 100 MB", self.pack)


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else COMPILER
    unittest.main()
