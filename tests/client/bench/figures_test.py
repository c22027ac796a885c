"""What client/bench/figures_bars.py concludes from canned output; run by ctest."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "client/bench"))

import figures_bars as bars  # noqa: E402
from compare_common import Answer, Arm  # noqa: E402
from figures_page import bars_table, circumstances, markdown  # noqa: E402

BAR = {bar.key: bar for bar in bars.BARS}


def section(measured=None, why="") -> dict:
    return {"measured": measured or {}, "why": why, "text": "", "quick": True, "when": "today", "seconds": 1, "others": 0.01,
            "numbers": {}}


def policy(name: str, rate: float, lengths: list[int], stages: dict) -> dict:
    stages = {"draft": 0, "tree": 0, "verify": 0, "commit": 0, "transfer": 0} | stages
    prompt = {"committed_lengths": lengths, "seconds": sum(lengths) / rate, "stage_seconds": stages, "output_token_ids": [0]}
    return {"policy": name, "tokens_per_second": rate, "tau": sum(lengths) / len(lengths), "prompts": [prompt]}


# Plain: 4 tokens in 4 cycles of 100 ms. The tree: 4 tokens in 2 cycles of 100 ms, 10 ms of it the host's.
RESULTS = {"policies": [policy("ar", 10, [1, 1, 1, 1], {"verify": 0.36, "commit": 0.004}),
                        policy("fixed:4", 20, [3, 1], {"draft": 0.02, "verify": 0.16, "tree": 0.01, "transfer": 0.01})]}

ROOFLINE = {"forwards": [{"forward": "decode", "rows": 1, "bound_seconds": 0.9, "seconds": 1.0},
                         {"forward": "verify", "rows": 4, "bound_seconds": 0.9, "seconds": 1.25},
                         {"forward": "draft", "rows": 8, "bound_seconds": 0.1, "seconds": 0.2}]}

TRANSPORT = {"benchmarks": [
    {"name": f"BM_CycleBeyondCompute/large:{large}/shared:{shared}/compute:0/iterations:1", "p50_us": p50, "p99_us": 2 * p50}
    for large, shared, p50 in ((0, 0, 187.0), (0, 1, 20.0), (1, 0, 321.0), (1, 1, 55.0))]}

COUNTS = """[ RUN      ] Policies/AllocationsTest.OfACycleInProcess/0
ar: 34.15 allocations, 2086.4 bytes a cycle
fixed:16: 132.75 allocations, 1.5e+06 bytes a cycle
fixed:16: 38654 instructions a cycle
[  PASSED  ] 6 tests.
"""


class VerdictTest(unittest.TestCase):
    def test_a_limit_itself_is_met(self):
        self.assertTrue(BAR["machine.decode"].met(0.85))
        self.assertFalse(BAR["machine.decode"].met(0.8499))
        self.assertTrue(BAR["machine.rows4"].met(1.2))
        self.assertFalse(BAR["machine.rows4"].met(1.201))

    def test_met_missed_and_not_run(self):
        sections = {"machine": section({"machine.decode": bars.measured(0.9), "machine.rows4": bars.measured(1.25)}),
                    "llama": section(why="not run here: no venv")}
        said = lambda key: bars.verdict(BAR[key], sections, False)  # noqa: E731
        self.assertEqual(said("machine.decode"), ("90.0 %", "met"))
        self.assertEqual(said("machine.rows4"), ("1.25×", "**missed**"))
        self.assertEqual(said("machine.rows16"), ("–", "not run here: this CPU has no AMX"))
        self.assertEqual(said("llama.demo"), ("–", "not run here: no venv"))
        self.assertEqual(said("ddtree.best"), ("–", "not run here: left out"))
        self.assertEqual(said("machine.rows8"), ("–", "not run here: see its section"))

    def test_a_cpu_with_amx_is_held_to_its_own_bars(self):
        sections = {"machine": section({"machine.rows4": bars.measured(9), "machine.rows16": bars.measured(1.1)})}
        self.assertEqual(bars.verdict(BAR["machine.rows4"], sections, True)[1], "not run here: this CPU has AMX")
        self.assertEqual(bars.verdict(BAR["machine.rows16"], sections, True), ("1.10×", "met"))
        self.assertTrue(bars.all_met(sections, True))
        self.assertFalse(bars.all_met(sections, False))

    def test_what_did_not_run_misses_nothing_and_what_broke_does(self):
        self.assertTrue(bars.all_met({"llama": section(why="not run here: no venv")}, False))
        self.assertFalse(bars.all_met({"llama": section(why="failed: bastion-bench, status 1")}, False))

    def test_a_busy_machine_is_told(self):
        self.assertIn("not a quiet machine", circumstances(section() | {"others": 0.2}))

    def test_every_bar_is_in_the_table(self):
        report = {"sections": {"demo": section({"demo.host": bars.measured(0.06, "default")})}, "amx": False, "settings": "a box"}
        table = bars_table(report)
        self.assertEqual(len(table.splitlines()), len(bars.BARS) + 2)
        self.assertIn("| ≤ 5.0 % | 6.0 % (default) | **missed** |", table)
        text = markdown(report, {"machine": "The machine", "demo": "Policies"}, [Path("a/ratios.png")])
        self.assertIn("## Policies\n\n`demo`: short run of today, 1 s; others used 1 % of the CPUs.", text)
        self.assertNotIn("## The machine", text)
        self.assertIn("![ratios](ratios.png)", text)


class ParsingTest(unittest.TestCase):
    def test_roofline(self):
        found = bars.roofline_bars(ROOFLINE)
        self.assertEqual(found["machine.decode"]["value"], 0.9)
        self.assertEqual(found["machine.rows4"]["value"], 1.25)
        self.assertNotIn("machine.rows8", found)  # That is the draft's.

    def test_the_ideal_is_that_of_forwards_alone(self):
        tree = bars.policy_figures(RESULTS)["fixed:4"]
        self.assertAlmostEqual(tree["speedup"], 2)
        self.assertAlmostEqual(tree["ideal"], 2 * 90 / (80 + 10))
        self.assertAlmostEqual(tree["share"], 1)
        self.assertAlmostEqual(tree["host"], 0.1)

    def test_the_worst_policy_is_the_one_that_counts(self):
        figures = bars.policy_figures(RESULTS)
        self.assertEqual(bars.largest_host(figures)["note"], "fixed:4")
        figures["slow"] = figures["fixed:4"] | {"share": 0.5}
        self.assertEqual(bars.lowest_share(figures), bars.measured(0.5, "slow"))
        self.assertEqual(len(bars.policy_table(figures).splitlines()), 5)

    def test_ratios_are_medians_over_prompts(self):
        reference = Arm("theirs", [Answer([1] * 4, 1.0, 4)] * 3)
        ours = Arm("ours", [Answer([1] * 4, seconds, 4) for seconds in (0.5, 0.25, 0.01)])
        self.assertEqual(bars.ratio(ours, reference), 4)
        self.assertEqual(bars.best_ratio([reference, ours], reference), bars.measured(4, "ours against theirs"))
        with self.assertRaises(ValueError):
            bars.ratio(ours, Arm("short", [Answer([1], 1.0, 1)]))

    def test_transport(self):
        times = bars.transport_times(TRANSPORT)
        self.assertEqual(times["shared"], {"3 × 320, 7 × 64; 0 µs": (20, 40), "5 × 4096, 15 × 64; 0 µs": (55, 110)})
        self.assertEqual(times["inline"]["5 × 4096, 15 × 64; 0 µs"], (321, 642))

    def test_counts(self):
        self.assertEqual(bars.counts(COUNTS), {"ar": {"allocations": 34.15, "bytes": 2086.4},
                                               "fixed:16": {"allocations": 132.75, "bytes": 1.5e6, "instructions": 38654}})
        self.assertEqual(bars.failed_tests(COUNTS), 0)
        self.assertEqual(bars.failed_tests(COUNTS + "[  FAILED  ] 2 tests, listed below:\n"), 2)
        with self.assertRaises(ValueError):
            bars.failed_tests("Segmentation fault")


if __name__ == "__main__":
    unittest.main()
