#!/usr/bin/env python3
"""Tests the images with CUDA on a machine without a GPU: they find all libraries but the driver's.

watches: cmake/BastionCuda.cmake cmake/BastionInstall.cmake deploy/docker deploy/local/requirements-cuda.txt tests/slow/containers.py
takes: 30 minutes
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

from command_line import PROGRAMS, build_programs, parse_arguments
from containers import Container, Image
from demo_services import MODELS, ROOT

ARGUMENTS = None


class CudaImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="bastion-images.")
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([ROOT / "deploy/docker/build_images.sh", "--cuda", "verifier"], check=True)
        archive = ROOT / "build/images/bastion-verifier-cuda.tar"
        cls.image = Image(archive, pathlib.Path(folder.name, "verifier"))
        archive.unlink()

    def run_verifier(self, *flags):
        with Container(self.image, "bastion-cuda", flags, [(MODELS, "/models:ro")]) as container:
            return container.wait(), container.log()

    def test_the_verifier_states_its_version(self):
        self.assertEqual(self.run_verifier("--version"), (0, f"bastion-verifier {self.image.version}\n"))

    def test_the_verifier_says_that_there_is_no_gpu(self):
        status, log = self.run_verifier("--device=cuda", "--target=/models/target")
        self.assertEqual(status, 1)
        self.assertRegex(log, "(?i)gpu|cuda")
        self.assertNotIn("shared libraries", log)

    def test_libraries_of_cuda_come_with_their_license(self):
        names = {path.name for path in (self.image.root / "usr/lib/bastion").iterdir()}
        self.assertEqual(names, {"libcudart.so.13", "libcublasLt.so.13"})
        self.assertTrue((self.image.root / "usr/share/doc/bastion/nvidia-license.txt").exists())
        bill = json.loads((self.image.root / "usr/share/doc/bastion/sbom.json").read_text())
        self.assertLess({"nvidia-cublas", "nvidia-cuda-runtime"}, {c["name"] for c in bill["components"]})


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    build_programs("cuda", *PROGRAMS)
    unittest.main(verbosity=2)
