#!/usr/bin/env python3
"""Injects faults into the services under load: 200 of all kinds, 60 over shared memory, and many deaths.

watches: common drafter_service orchestrator protos tests/faults/seeded tests/support/service_process.cc verifier_service
takes: 25 minutes
"""

import pathlib
import subprocess
import unittest

from command_line import build_programs, parse_arguments

ARGUMENTS = None


class FaultsTest(unittest.TestCase):
    def inject(self, name, *flags):
        """Runs the program, which prints a line per fault and a table; keeps them in faults-NAME.txt."""
        report = pathlib.Path(ARGUMENTS.out, f"faults-{name}.txt")
        with open(report, "w", encoding="utf-8") as file:
            ran = subprocess.run(
                [pathlib.Path(ARGUMENTS.bin, "seeded-faults"), *flags], stdout=file, stderr=subprocess.STDOUT, check=False
            )
        text = report.read_text(encoding="utf-8", errors="replace")
        print(text[text.find("kind  ") :])
        self.assertEqual(ran.returncode, 0, f"see {report}")

    def test_200_faults_of_all_kinds(self):
        self.inject("all", "--faults", "200", "--seed", "1")

    def test_60_faults_over_shared_memory(self):
        self.inject("shared_memory", "--faults", "60", "--seed", "1", "--network=false")

    def test_the_drafter_is_killed_100_times(self):
        self.inject("drafter", "--faults", "100", "--kinds", "kill-drafter", "--drain_every", "10", "--network=false")

    def test_the_verifier_is_killed_20_times_during_8_answers(self):
        self.inject("verifier", "--faults", "20", "--kinds", "kill-verifier", "--clients", "8", "--network=false")


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    build_programs("release", "seeded-faults")
    unittest.main(verbosity=2)
