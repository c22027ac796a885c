"""Tests the charts of suites. Needs matplotlib. Run by ctest with build/venv/bin/python."""

import unittest

import plots
import suite_plots
from fixtures import FolderTest


def row(policy: str, speedup: float, **changes) -> dict:
    seconds = {
        stage: 0.001 for stage in ("ttft", "tpot", "draft", "tree", "verify_queue", "verify", "commit", "audit", "transfer")
    }
    return {
        "temperature": 0.0,
        "concurrency": 1,
        "prompt_tokens": 0,
        "max_new_tokens": 64,
        "dataset": "",
        "policy": policy,
        "requests": 2,
        "stream_tokens_per_second": 100 * speedup,
        "system_tokens_per_second": 100 * speedup,
        "speedup": speedup,
        "speedup_95": [speedup - 0.25, speedup + 0.5],
        "tau": 2 * speedup,
        "nodes": 20.0,
        "acceptance_rate": 0.5,
        "seconds": seconds,
        "peak_memory_bytes": 10,
        "committed_lengths": [[1, 1], [3, 3]],
        "depths": [],
        "expected_length": {"pearson": 0.8, "spearman": 0.7, "cycles": 3, "sample": [[0.5, 0], [1.5, 1], [2.5, 3]]},
    } | changes


def panel(*rows: dict, points: list[dict] | None = None) -> dict:
    return {
        "device": "machine",
        "target": "pair/target",
        "drafter": "pair/drafter",
        "mode": "in process",
        "figures": list(rows),
        "latency": {"points": points or [], "slope": 1, "intercept": 0, "roofline_rmse": 1, "static_rmse": 1},
    }


ROWS = (
    row("ar", 1.0),
    row("chain", 1.5),
    row("bastion", 2.25),
    row("fixed:16", 1.75),
    row("fixed:64", 2.5),
    row("fixed:256", 2.0),
)
POINTS = [
    {
        "rows": rows,
        "context": context,
        "seconds": 0.001 * rows,
        "roofline_seconds": 0.0005 * rows,
        "static_seconds": 0.0011 * rows,
    }
    for rows in (1, 8)
    for context in (64, 256)
]


def lines(axes) -> list[list[float]]:
    return [[float(value) for value in line.get_ydata()] for line in axes.lines]


class DataTest(unittest.TestCase):
    def test_the_oracle_is_the_fastest_fixed_budget(self):
        fastest = suite_plots.oracle(list(ROWS))
        assert fastest
        self.assertEqual(fastest["policy"], "fixed:64")
        self.assertIsNone(suite_plots.oracle([row("ar", 1.0)]))
        self.assertEqual([suite_plots.budget(name) for name in ("fixed:16", "fixed:x", "chain")], [16, None, None])

    def test_the_first_cell_has_one_setting(self):
        other = panel(row("ar", 1.0), row("ar", 1.0, temperature=1.0), row("ar", 1.0, dataset="math"))
        self.assertEqual(len(suite_plots.first_cell(other)), 1)
        self.assertEqual(len(suite_plots.first_cell(other, dataset="math")), 1)


class ChartsTest(FolderTest):
    def test_the_budget_chart_has_the_sweep_the_oracle_and_the_choice(self):
        (axes,) = suite_plots.budget_policies([panel(*ROWS)]).axes
        drawn = lines(axes)
        self.assertIn([1.75, 2.5, 2.0], drawn)
        self.assertIn([2.5, 2.5], drawn, "the oracle is a line")
        self.assertIn([2.25], drawn, "the choice of bastion is a point")

    def test_the_oracle_line_is_the_mean_over_the_datasets(self):
        split = [
            row("fixed:16", 3.0, dataset="a"),
            row("fixed:64", 2.0, dataset="a"),
            row("fixed:16", 1.0, dataset="b"),
            row("fixed:64", 2.0, dataset="b"),
        ]
        (axes,) = suite_plots.budget_policies([panel(*ROWS, *split)]).axes
        self.assertIn([2.5, 2.5], lines(axes))

    def test_the_budget_curve_shows_the_chain(self):
        left, right = suite_plots.budget_curve([panel(*ROWS)]).axes
        self.assertIn([3.5, 5.0, 4.0], lines(left))
        self.assertIn([3.0, 3.0], lines(left))
        self.assertIn([1.5, 1.5], lines(right))

    def test_a_cycle_is_split_into_draft_auxiliary_and_verify(self):
        _, right = suite_plots.acceptance_latency([panel(*ROWS)]).axes
        tops = [patch.get_y() + patch.get_height() for patch in right.patches[-3:]]
        for top in tops:
            self.assertAlmostEqual(top, 6.0)

    def test_committed_lengths_of_the_chain_and_of_the_best_tree(self):
        (axes,) = suite_plots.committed_length_bars([panel(*ROWS)]).axes
        self.assertEqual(
            [text.get_text() for text in axes.get_legend().get_texts()], ["chain (τ 3.00, 1.50×)", "fixed:64 (τ 5.00, 2.50×)"]
        )
        self.assertEqual([patch.get_height() for patch in axes.patches], [25.0, 75.0, 25.0, 75.0])

    def test_the_path_score_chart_names_the_correlation(self):
        (axes,) = suite_plots.path_score([panel(row("chain", 1.5))]).axes
        self.assertEqual(axes.texts[0].get_text(), "Pearson 0.80, Spearman 0.70, 3 cycles")
        self.assertEqual(len(axes.collections[0].get_offsets()), 3)

    def test_error_bars_are_the_intervals(self):
        (axes,) = suite_plots.speedup_bars([panel(*ROWS)]).axes
        segments = axes.collections[0].get_segments()
        self.assertEqual([list(segment[:, 1]) for segment in segments][0], [1.25, 2.0])

    def test_datasets_have_a_bar_for_each_policy_and_the_oracle(self):
        rows = [
            row(policy, speedup, dataset=dataset)
            for dataset in ("code", "math")
            for policy, speedup in (("ar", 1.0), ("chain", 1.5), ("fixed:16", 1.75), ("fixed:64", 2.5))
        ]
        (axes,) = suite_plots.speedup_by_dataset([panel(*rows)]).axes
        self.assertEqual([patch.get_height() for patch in axes.patches], [1.5, 1.5, 2.5, 2.5])
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["code", "math"])

    def test_the_latency_chart_has_three_series_by_context(self):
        (axes,) = suite_plots.verify_latency([panel(points=POINTS)]).axes
        self.assertEqual(len(axes.lines), 6)
        self.assertEqual(lines(axes)[0], [1.0, 8.0])

    def test_a_long_name_has_several_lines(self):
        long = "bastion:ema,alpha=0.2,k=64,n=512"
        axes = suite_plots.throughput_bars([panel(row("ar", 1.0), row(long, 2.0))]).axes[0]
        names = [text.get_text() for text in axes.get_yticklabels()]
        self.assertEqual(names[1], "ar", "the first policy is on top")
        self.assertEqual(names[0].replace("\n", ""), long)
        self.assertLessEqual(max(map(len, names[0].split("\n"))), 26)

    def test_prompt_lengths_are_in_order(self):
        rows = [
            row(policy, speedup * length, prompt_tokens=length)
            for length in (800, 100)
            for policy, speedup in (("ar", 1.0), ("linear:6", 1.5))
        ]
        left, _ = suite_plots.prompt_lengths([panel(*rows)]).axes
        self.assertEqual(list(left.lines[1].get_xdata()), [100, 800])

    def test_generation_lengths_are_in_order(self):
        rows = [
            row(policy, speedup, max_new_tokens=length)
            for length in (500, 1000, 100)
            for policy, speedup in (("ar", 1.0), ("linear:6", 1.5))
        ]
        _, right = suite_plots.generation_lengths([panel(*rows)]).axes
        self.assertEqual(list(right.lines[1].get_xdata()), [100, 500, 1000])
        self.assertEqual(right.get_xlabel(), "new tokens")

    def test_without_its_data_there_is_no_chart(self):
        plain = [panel(row("ar", 1.0, expected_length={"cycles": 0}))]
        for chart in (
            suite_plots.budget_policies,
            suite_plots.budget_curve,
            suite_plots.acceptance_latency,
            suite_plots.path_score,
            suite_plots.committed_length_bars,
            suite_plots.prompt_lengths,
            suite_plots.generation_lengths,
            suite_plots.verify_latency,
        ):
            self.assertIsNone(chart(plain), chart.__name__)

    def test_every_machine_has_its_panels(self):
        figure = suite_plots.throughput_bars([panel(*ROWS), panel(*ROWS) | {"device": "another"}])
        self.assertEqual(len(figure.axes), 4)
        self.assertEqual(figure.axes[2].get_title("left"), "another, pair")

    def test_the_plots_of_a_suite_are_written(self):
        results = {"suite": {"name": "s", "title": "t", "plots": ["budget_policies", "speedup_bars"]}, "panels": [panel(*ROWS)]}
        paths = plots.draw_bench_report(results, self.folder)
        self.assertEqual([path.name for path in paths], ["budget_policies.png", "speedup_bars.png"])


if __name__ == "__main__":
    unittest.main()
