"""Tests the tables of suite reports on hand-made figures."""

import json
import unittest
from pathlib import Path

from suite_tables import TABLES, latency_table, oracle, suite_table

SUITES = Path(__file__).resolve().parents[3] / "tools/bench/suites"


def row(policy: str, dataset: str, speedup: float, tau: float) -> dict:
    stages = dict.fromkeys(("draft", "tree", "verify_queue", "verify", "commit", "audit", "transfer", "tpot"), 0.0)
    return {
        "temperature": 0.0,
        "concurrency": 1,
        "prompt_tokens": 0,
        "max_new_tokens": 64,
        "dataset": dataset,
        "policy": policy,
        "speedup": speedup,
        "speedup_95": None,
        "stream_tokens_per_second": 100 * speedup,
        "system_tokens_per_second": 0.0,
        "tau": tau,
        "nodes": 28.0,
        "acceptance_rate": 0.5,
        "peak_memory_bytes": 2000000,
        "seconds": stages | {"ttft": 0.25},
        "committed_lengths": [[1, 1], [3, 3]],
        "depths": [{"cycles": 4, "offered": 8, "accepted": 3, "reached": 4}],
        "expected_length": {"pearson": 0.8, "spearman": 0.7, "cycles": 4, "sample": [[1.5, 2]]},
    }


def figures() -> list[dict]:
    """Two datasets whose best budgets differ."""
    rows = []
    for dataset in ("", "code", "math"):
        code = dataset == "code"
        rows += [
            row("ar", dataset, 1, 1),
            row("bastion", dataset, 2.5, 3),
            row("fixed:16", dataset, 4 if code else 1.5, 2),
            row("fixed:64", dataset, 1.5 if code else 2, 4),
            row("beam:4x7", dataset, 1.6, 2.5),
        ]
    rows[1]["speedup_95"] = [2.25, 2.75]
    return rows


class SuiteTablesTest(unittest.TestCase):
    def test_the_oracle_is_the_best_fixed_budget_of_each_dataset(self):
        cell = figures()[0]
        found = {name: oracle(figures(), cell | {"dataset": name}) for name in ("code", "math", "none")}
        self.assertEqual([row and row["policy"] for row in found.values()], ["fixed:16", "fixed:64", None])
        table = suite_table("datasets", figures())
        self.assertIn("| policy | code | τ | math | τ | mean | τ |\n|---|--:|--:|--:|--:|--:|--:|\n", table)
        self.assertIn("| bastion | 2.50× | 3.00 | 2.50× | 3.00 | 2.50× | 3.00 |", table)
        self.assertIn("| oracle | 4.00×, fixed:16 | 2.00 | 2.00×, fixed:64 | 4.00 | 3.00× | 3.00 |", table)
        self.assertIn("| oracle | 3.00× | 3.00 | 28.0 | |", suite_table("budgets", figures()))

    def test_a_budget_of_another_drafter_is_a_policy_of_its_own(self):
        rows = [row("ar", "", 1, 1), row("fixed:60@medusa", "", 1.5, 2)]
        table = suite_table("datasets", rows)
        self.assertIn("| fixed:60@medusa | 1.50× | 2.00 |", table)
        self.assertNotIn("oracle", table)

    def test_a_policy_that_lacks_a_dataset_has_no_row(self):
        rows = [one for one in figures() if (one["policy"], one["dataset"]) != ("bastion", "math")]
        self.assertNotIn("| bastion |", suite_table("datasets", rows))

    def test_every_table_has_the_rows_of_its_policies(self):
        for table, line in (
            ("budgets", "| bastion | 2.50× (2.25–2.75) | 3.00 | 28.0 | 50.0 % |"),
            ("estimators", "| bastion | 2.50× (2.25–2.75) | 3.00 | 28.0 | 50.0 % |"),
            ("stages", "| fixed:16 | 29.0 | 2.00 |"),
            ("correlation", "| bastion | 4 | 0.800 | 0.700 |"),
            ("histogram", "| bastion | 3.00 | 25.0 % | 0.0 % | 75.0 % |"),
            ("depths", "| bastion | 3 / 8 |"),
            ("reach", "| bastion | 0.750 |"),
            ("generation", "| bastion | 250.0 | 2.50× | 50.0 % | 75.0 % | 3.00 |"),
            ("generation", "| 2.0 | +0.00 % |"),
        ):
            self.assertIn(line, suite_table(table, figures()), table)

    def test_each_cell_has_a_heading(self):
        rows = [one | {"temperature": 0.6, "concurrency": 2, "prompt_tokens": 800} for one in figures()]
        self.assertIn("### Budgets, temperature 0.6, concurrency 2, prompts of 800 tokens\n", suite_table("budgets", rows))

    def test_shapes_are_compared_only_at_the_same_size(self):
        rows = figures()
        self.assertIn("fixed:16 against beam:4x7: nodes +0.0 %, speed -6.2 %, τ -20.0 %.", suite_table("topology", rows))
        for one in rows:
            one["nodes"] = 20.0 if one["policy"] == "beam:4x7" else one["nodes"]
        self.assertNotIn("against beam:4x7", suite_table("topology", rows))
        self.assertIn("No best-first tree", suite_table("topology", rows))

    def test_cross_tables_need_several_columns(self):
        rows = [row("ar", "", 1, 1), row("linear:6", "", 1.5, 3)]
        self.assertEqual(suite_table("prompts", rows) + suite_table("load", rows), "")
        longer = [one | {"prompt_tokens": 800} for one in rows]
        self.assertIn("| linear:6 | 150.0 (1.50×) | 150.0 (1.50×) |", suite_table("prompts", rows + longer))
        written = [one | {"max_new_tokens": 500} for one in rows]
        self.assertIn("| linear:6 | 150.0 (1.50×) | 150.0 (1.50×) |", suite_table("lengths", rows + written))
        self.assertIn("### Generation, temperature 0, 500 new tokens\n", suite_table("generation", rows + written))
        busy = [one | {"concurrency": 2, "system_tokens_per_second": 90.0} for one in rows]
        self.assertIn("| ar | 0.0 (1.00×; 250.0, 0.00) | 90.0 (1.00×; 250.0, 0.00) |", suite_table("load", rows + busy))

    def test_the_tables_of_all_suites_are_known(self):
        for file in SUITES.glob("*.json"):
            self.assertLessEqual(set(json.loads(file.read_text())["tables"]), set(TABLES), file.name)

    def test_the_program_knows_the_same_tables(self):
        source = (SUITES.parent / "suite.cc").read_text()
        names = source.split("kTables[] = {")[1].split("}")[0]
        self.assertEqual(sorted(json.loads(f"[{names}]")), sorted(TABLES))


class LatencyTableTest(unittest.TestCase):
    def test_the_errors_are_shown_by_context(self):
        self.assertEqual(latency_table({"points": []}), "")
        keys = ("rows", "context", "seconds", "roofline_seconds", "static_seconds")
        points = [dict(zip(keys, values)) for values in ((1, 64, 0.010, 0.006, 0.011), (8, 256, 0.020, 0.010, 0.019))]
        table = latency_table({"points": points, "slope": 2, "intercept": 0.001})
        for line in ("| 64 | 1 | 4.000 | 1.000 | 75 % |", "| 256 | 1 | 10.000 | 1.000 | 90 % |"):
            self.assertIn(line, table)
        self.assertIn("| all | 2 | 7.616 | 1.000 | 87 % |", table)
        self.assertIn("a = 2, b = 1 ms.", table)


if __name__ == "__main__":
    unittest.main()
