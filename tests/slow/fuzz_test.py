#!/usr/bin/env python3
"""Fuzzes every target for 15 seconds with libFuzzer and sanitizers. All builds replay the corpora.

watches: tests/fuzz tests/fuzz.sh common/access common/base common/host common/hub common/http common/prior common/shm common/stages common/telemetry common/wire drafter_service/features orchestrator/openai orchestrator/planner orchestrator/belief orchestrator/policy orchestrator/api orchestrator/console orchestrator/intake orchestrator/schedule orchestrator/text protos verifier_service/features
"""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FuzzTest(unittest.TestCase):
    def test_no_target_crashes_leaks_or_hangs(self):
        ran = subprocess.run([ROOT / "tests/fuzz.sh"], capture_output=True, text=True, check=False)
        print(ran.stdout)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(" passed, 0 failed", ran.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
