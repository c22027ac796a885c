"""Tests the JSON and the tables of levels of load."""

import unittest

from load_figures import Targets
from load_report import level_tables, levels_json
from measured import delivered, level, run


def one(tokens: int) -> dict:
    """One request: its first token after a second, then `tokens` tokens in another second."""
    return run(delivered(0, (1, 1), (2, tokens)))


LEVELS = [
    level({"ar": [one(2), one(2)], "default": [one(3), one(5)]}, concurrency=1),
    level({"ar": [one(2)]}, rate=2.5),
    level({"ar": [one(2)]}, arrivals="f.jsonl"),
]


def bins(at: int, count: int, accepted: int, stated: float) -> list[list[float]]:
    return [[count, accepted, stated] if index == at else [0, 0, 0.0] for index in range(10)]


class LoadReportTest(unittest.TestCase):
    def test_json_has_the_figures_of_each_level_and_arm(self):
        levels = levels_json(LEVELS, Targets())
        self.assertEqual([levels[0]["concurrency"], levels[1]["rate"], levels[2]["arrivals"]], [1, 2.5, "f.jsonl"])
        arm = levels[0]["arms"][1]
        self.assertEqual((arm["policy"], arm["requests"]), ("default", 2))
        self.assertEqual((arm["system_tokens_per_second"], arm["goodput_tokens_per_second"]), (4, 4))
        self.assertEqual(arm["gap_seconds"], {"p50": 1, "p90": 1, "p99": 1})
        self.assertEqual(arm["stream_tokens_per_second"]["p50"], 4)
        self.assertIsNone(arm["ttft_seconds"], "the only first token is warm-up")
        self.assertEqual(arm["ratio_to_ar"], {"median": 1.5, "low": 1.5, "high": 2.5})
        self.assertEqual([found["system_tokens_per_second"] for found in arm["rounds"]], [3, 5])
        self.assertNotIn("reliability", arm)

    def test_tables_show_ratios_with_their_range_and_missing_values(self):
        tables = level_tables(LEVELS, Targets())
        self.assertIn("### concurrency 1\n", tables)
        self.assertIn("### rate 2.5/s\n", tables)
        self.assertIn("| default | 4.0 | 1.50× (1.50–2.50) | 4.0 | – | – | 1000.0 |", tables)

    def test_a_window_with_few_tokens_and_rejections_are_mentioned(self):
        self.assertIn("Only 0 % of the tokens", level_tables([level({"ar": [one(2)]}, concurrency=2)], Targets()))
        refused = level_tables([level({"ar": [one(2) | {"rejected": 3}]}, rate=1)], Targets())
        self.assertIn("refused 3 requests", refused)
        self.assertNotIn("Only", level_tables(LEVELS[:1], Targets()))

    def test_reliability_is_added_up_over_rounds(self):
        each = one(2) | {"reliability": {"before": bins(2, 2, 1, 0.5), "after": bins(7, 1, 1, 0.75)}}
        levels = [level({"adaptive": [each, each]}, concurrency=1)]
        reliability = levels_json(levels, Targets())[0]["arms"][0]["reliability"]
        self.assertEqual(reliability["before"]["expected_calibration_error"], 0.25)
        self.assertEqual(reliability["before"]["bins"][2], {"count": 4, "mean_stated": 0.25, "accepted_share": 0.5})
        self.assertEqual(reliability["after"]["bins"][7]["count"], 2)
        self.assertEqual(reliability["after"]["expected_calibration_error"], 0.25)
        tables = level_tables(levels, Targets())
        self.assertIn("| adaptive, before | 0.2500 | – | – | 0.25 → 0.50 (4) |", tables)
        self.assertIn("| adaptive, after | 0.2500 |", tables)

    def test_a_policy_without_calibration_has_one_row(self):
        each = one(2) | {"reliability": {"before": bins(0, 1, 0, 0.05), "after": bins(0, 0, 0, 0.0)}}
        levels = [level({"chain": [each]}, concurrency=1)]
        self.assertIn("| chain | 0.0500 | 0.05 → 0.00 (1) |", level_tables(levels, Targets()))
        self.assertIsNone(levels_json(levels, Targets())[0]["arms"][0]["reliability"]["after"])


if __name__ == "__main__":
    unittest.main()
