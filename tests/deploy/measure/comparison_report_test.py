"""Tests results.json and report.md of a comparison on hand-made measurements."""

import unittest

import comparison_report as report
from measured import comparison, level, request, run

TOKENS = [5, 6, 7, 8]
# 4 tokens in 4 s.
PLAIN = request("p0", TOKENS, 4.0, *[{"predicted_verify": 1.0, "verify": 1.0}] * 4)


def tree_cycle(**values) -> dict:
    return {"verify": 0.5, **values}


# 4 tokens in 2 cycles and 1 s, with verify predictions that are wrong by 10 % and 50 %.
FIRST = tree_cycle(committed=3, nodes=4, rows=5, predicted_verify=0.45, draft=0.1, tree=0.01, commit=0.02, transfer=0.03)
FIRST |= {"accepted": 2, "context": 10, "expected_length": 2.5}
SECOND = tree_cycle(nodes=8, rows=9, predicted_verify=0.75, draft=0.3, tree=0.03, commit=0.02, transfer=0.01)
SECOND |= {"context": 13, "expected_length": 1.5, "reason": "rows"}
TREE = request("p0", TOKENS, 1.0, FIRST, SECOND)
EXAMPLE = comparison(level({"ar": [run(PLAIN)], "fixed:8": [run(TREE)]}, concurrency=1))
WARNING = "fixed:8 at concurrency 1: 1 of 2 trees were cut by the rows of the forward (--max_rows)"
LATENCY_MODEL = {
    "calibration": {"calibration": [[1, 0, 0.1, 0.1, False, 0], [100, 0, 0.2, 0.2, False, 0], [100, 64, 1, 1, True, 0]]},
    "static": {"slope": 1.5, "intercept_seconds": -0.002, "floor_seconds": 0},
    "roofline_scale": 2.0,
    "rmse_seconds": {"roofline": 0.01, "scaled_roofline": 0.005, "static": 0.001},
    "rmse_cut": 0.9,
}


class PoliciesTest(unittest.TestCase):
    def test_figures_match_values_computed_by_hand(self):
        tree = report.results(EXAMPLE)["policies"][1]
        self.assertEqual((tree["tokens_per_second"], tree["speedup_vs_ar"], tree["tau"]), (4, 4, 2))
        self.assertAlmostEqual(tree["verify_prediction_error_median"], 0.5)
        self.assertEqual(tree["prompts"][0]["stage_seconds"]["draft"], 0.4)
        self.assertIn("| fixed:8 | 4.0 | 4.00× | 2.00 | 6.0 | 200.000 |", report.tables(EXAMPLE))

    def test_the_speedup_is_zero_without_the_policy_ar(self):
        alone = comparison(level({"fixed:8": [run(TREE)]}, concurrency=1))
        self.assertEqual(report.results(alone)["policies"][0]["speedup_vs_ar"], 0)

    def test_figures_are_zero_without_measurements(self):
        empty = report.results(comparison(level({"ar": [run()]}, concurrency=1)))["policies"][0]
        for key in ("tokens_per_second", "tau", "speedup_vs_ar", "verify_prediction_error_median"):
            self.assertEqual(empty[key], 0, key)

    def test_the_requests_of_a_cycle_share_its_times_by_their_rows(self):
        # Two of the six rows of a call that took 3 s.
        shared = request("p1", [5], 3.0, {"nodes": 1, "rows": 6, "verify": 3.0})
        self.assertEqual(report.stage_seconds([shared])["verify"], 1)

    def test_the_ablation_lists_policies_that_ran_with_and_without_a_prior(self):
        self.assertEqual(report.ablation_table(EXAMPLE), "")
        names = ("fixed:8", "fixed:8+prior:table", "fixed:8+prior", "default", "default+prior")
        levels = level({"ar": [run(PLAIN)]} | {name: [run(TREE)] for name in names}, concurrency=1)
        with_prior = ["fixed:8+prior:table", "fixed:8+prior", "default", "default+prior"]
        table = report.ablation_table(comparison(levels, policies_with_prior=with_prior))
        self.assertIn("| fixed:8 | 2.00, 4.00× | 2.00, 4.00× | – | 2.00, 4.00× |\n", table)
        self.assertNotIn("| ar |", table)
        self.assertNotIn("| default |", table)


class ReportTest(unittest.TestCase):
    def test_results_have_the_values_of_each_cycle(self):
        results = report.results(EXAMPLE)
        prompt = results["policies"][1]["prompts"][0]
        self.assertEqual(prompt["output_token_ids"], TOKENS)
        self.assertEqual(results["policies"][1]["verify_trace"][0], [5, 0.45, 0.5])
        self.assertEqual(prompt["accepted_nodes"], [2, 0])
        self.assertEqual(prompt["expected_lengths"], [2.5, 1.5])
        self.assertEqual(prompt["contexts"], [10, 13])
        self.assertEqual(prompt["budget_reasons"], ["cost", "rows"])
        self.assertEqual(results["policies"][1]["expected_length_fit"]["cycles"], 2)
        self.assertIsNone(results["policies"][0]["expected_length_fit"], "no trees")
        self.assertIsNone(results["latency_model"], "not in process")
        self.assertEqual(results["outputs"], {"compared": 2, "different": 0})

    def test_an_open_loop_has_no_concurrency(self):
        def concurrency(**load):
            return report.results(comparison(level({"ar": [run(PLAIN)]}, **load)))["settings"]["concurrency"]

        self.assertEqual(concurrency(concurrency=1), 1)
        self.assertIsNone(concurrency(rate=2))

    def test_the_verdict_ends_the_report(self):
        self.assertIn("\nEvery policy generated the same tokens.\n", report.markdown(EXAMPLE))
        different = EXAMPLE | {"texts": {"compared": 6, "different": 2, "problem": "2 of 6 outputs differ: prompt p0"}}
        self.assertIn("**Outputs differ:** 2 of 6 outputs differ: prompt p0\n", report.markdown(different))
        self.assertEqual(report.results(different)["outputs"]["different"], 2)

    def test_trees_that_were_cut_are_a_warning_in_every_form(self):
        self.assertIn(f"**Warning:** {WARNING}.\n", report.tables(EXAMPLE))
        self.assertIn(WARNING, report.markdown(EXAMPLE))
        self.assertEqual(report.results(EXAMPLE)["warnings"], [WARNING])

    def test_only_cuts_are_warnings_in_the_order_of_their_reasons(self):
        reasons = ("share", "share", "length", "rows", "policy")
        cut = request("p0", [1], 1, *({"nodes": 7, "reason": reason} for reason in reasons))
        fine = request("p0", [1], 1, *({"nodes": 9, "reason": reason} for reason in ("cost", "exhausted", "length")))
        warnings = report.cut_warnings([level({"fixed:9": [run(cut, cut)], "bastion": [run(fine)]}, concurrency=4)])
        self.assertEqual(
            warnings,
            [
                "fixed:9 at concurrency 4: 2 of 10 trees were cut by the rows of the forward (--max_rows)",
                "fixed:9 at concurrency 4: 4 of 10 trees were cut to the request's share of the forward's rows "
                "(--max_rows, --concurrency)",
            ],
        )

    def test_latency_targets_reach_the_goodput(self):
        strict = EXAMPLE | {"latency_targets": {"gap": None, "ttft": 0.0}}
        self.assertEqual(report.results(strict)["levels"][0]["arms"][0]["goodput_tokens_per_second"], 0)


class ModelsTest(unittest.TestCase):
    def test_expected_lengths_are_compared_with_accepted_nodes(self):
        def cycle(nodes: int, expected: float, accepted: int) -> dict:
            return {"nodes": nodes, "expected_length": expected, "accepted": accepted}

        one = request("a", [1], 1, cycle(4, 2, 0), cycle(4, 3, 4), cycle(0, 1, 0))
        policy = {"policy": "chain", "requests": [one, request("b", [1], 1, cycle(4, 4, 2))]}
        # Σ(x−2)(y−2) = 2 + 0 + 0, Σ(x−2)² = 2, Σ(y−2)² = 8; the ranks of y are 0, 2, 1.
        fit = {"cycles": 3, "mean_expected": 2, "mean_accepted": 2, "pearson": 0.5, "spearman": 0.5}
        self.assertEqual(report.length_fit(policy), fit, "a cycle without nodes says nothing")
        plain = {"policy": "ar", "requests": []}
        self.assertTrue(report.length_fit_table([policy, plain]).endswith("| chain | 3 | 2.00 | 2.00 | 0.50 | 0.50 |\n"))
        self.assertEqual(report.length_fit_table([plain]), "")

    def test_the_latency_model_is_beside_the_papers_figure(self):
        tables = report.tables(EXAMPLE | {"latency_model": LATENCY_MODEL})
        self.assertIn("2 measured points: 1 to 100 rows after 0, 64 cached tokens.", tables)
        self.assertIn("| bare roofline R | 10.000 |", tables)
        self.assertIn("| Static, 1.500·R - 2.000 ms | 1.000 |", tables)
        self.assertIn("removes 90 % of the error of the bare roofline (the paper: 87 to 92 %)", tables)


if __name__ == "__main__":
    unittest.main()
