#!/usr/bin/env python3
"""Tests that a real OpenTelemetry Collector receives a request as one trace over three processes.

watches: common/telemetry deploy/telemetry deploy/local/trace.sh
"""

import pathlib
import subprocess
import sys
import unittest

from command_line import parse_arguments

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "telemetry"))
import show_trace  # noqa: E402

ARGUMENTS = None
SERVICES = {"bastion-orchestrator", "bastion-drafter", "bastion-verifier"}


class TraceScriptTest(unittest.TestCase):
    def test_one_command_shows_a_request_as_one_trace_of_all_services(self):
        traces = pathlib.Path(ARGUMENTS.out, "traces.jsonl").resolve()
        shown = subprocess.run(
            [ROOT / "deploy/local/trace.sh", "--traces", traces], capture_output=True, text=True, check=False
        )
        self.assertEqual(shown.returncode, 0, shown.stderr)
        with open(traces, encoding="utf-8") as file:
            spans = show_trace.read_spans(file)
        call = show_trace.call_of(spans)
        self.assertIsNotNone(call)
        own = [s for s in spans if s.trace == call.trace]
        self.assertEqual({s.service for s in own}, SERVICES)
        # Every span of the trace hangs on the call.
        by_id = {s.id: s for s in own}
        for span in own:
            while span.parent:
                self.assertIn(span.parent, by_id, span.name)
                span = by_id[span.parent]
            self.assertIs(span, call)
        for cycle in (s for s in own if s.name == "cycle"):
            stages = sum(float(v) for k, v in cycle.attributes.items() if k.startswith("bastion.stage."))
            self.assertLess(abs(stages - cycle.milliseconds), 0.05 * cycle.milliseconds)
            below = {s.name for s in own if s.parent == cycle.id}
            self.assertIn("verify", below)
        self.assertIn(f"trace {call.trace}", shown.stdout)
        for service in ("orchestrator", "drafter", "verifier"):
            self.assertRegex(shown.stdout, rf"\w+ +{service} ")


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    unittest.main(verbosity=2)
