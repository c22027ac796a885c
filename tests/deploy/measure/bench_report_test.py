"""Tests the command that makes reports of measurements: its files, what it prints, and what it refuses."""

import contextlib
import io
import json
import sys
import unittest
from unittest import mock

import bench_report
import bench_tables
import suite_report
from fixtures import FolderTest, forward
from measured import comparison, level, request, run, suite

ROOFLINE = {"device": "gpu", "read_bytes_per_second": 4e12, "bf16_flops_per_second": 6e14, "forwards": []}
REPLAY = {
    "device": "a box",
    "cycles": 40,
    "compared_cycles": 40,
    "estimators": [
        {"name": "ema", "rmse_seconds": 0.002, "median_error": 0.1, "p95_error": 0.25}
        | {"regret_tokens_per_second": 3.0, "regret_share": 0.05},
        {"name": "recorded", "rmse_seconds": 0.001, "median_error": 0.1, "p95_error": 0.2},
    ],
}
CHAINS = {
    "device": "a box",
    "target": "large",
    "drafter": "small",
    "settings": {"temperature": 0.8, "seed": 1},
    "chains": [
        {
            "policy": "linear:2",
            "length": 2,
            "keyed": {
                "cycles": 100,
                "committed": 150,
                "positions": [
                    {"reached": 80, "accepted": 40, "overlap": 48.0, "top": 40.0},
                    {"reached": 20, "accepted": 5, "overlap": 9.0, "top": 4.0},
                ],
            },
            "sampled": {
                "cycles": 10,
                "committed": 20,
                "positions": [
                    {"reached": 10, "accepted": 7, "overlap": 6.5, "top": 5.0},
                    {"reached": 6, "accepted": 3, "overlap": 2.7, "top": 1.8},
                ],
            },
        },
        {
            "policy": "chain",
            "length": 7,
            "keyed": {"cycles": 0, "committed": 0, "positions": []},
            "sampled": {
                "cycles": 4,
                "committed": 4,
                "positions": [{"reached": 4, "accepted": 0, "overlap": 1.0, "top": 0.5}],
            },
        },
    ],
}
COMPARISON = comparison(level({"ar": [run(request("p0", [5], 1.0, {"verify": 1.0}))]}, concurrency=1))


def suite_run() -> dict:
    plain, chain = (request("p0", [5, 6], seconds, {}, {}) for seconds in (2.0, 1.0))
    levels = [level({"ar": [run(plain)], "chain": [run(chain)]}, concurrency=1)]
    return {"temperature": 0.0, "seed": 1, "prompt_tokens": 0, "max_new_tokens": 64, "peak_memory_bytes": {}, "levels": levels}


class ScriptTest(FolderTest):
    """A test that runs the script in its temporary folder."""

    def measure(self, kind: str, measurements: dict, name: str = "report") -> str:
        folder = self.folder / name
        folder.mkdir()
        (folder / "measurements.json").write_text(json.dumps(measurements | {"format": 1, "kind": kind}))
        return str(folder)

    def run_script(self, *arguments: str) -> tuple[int, str]:
        """The exit status, and what the script says. Without matplotlib: plots_test.py draws."""
        said = io.StringIO()
        arguments_of = mock.patch.object(sys, "argv", ["bench_report.py", *arguments])
        without_plots = mock.patch.object(bench_report, "is_available", lambda: False)
        with arguments_of, without_plots, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return bench_report.main(), said.getvalue()

    def files(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.folder / folder).iterdir())


class BenchReportTest(ScriptTest):
    def test_each_kind_has_its_files(self):
        kinds = {
            "comparison": (COMPARISON, ["report.md", "results.json"]),
            "suite": (suite([suite_run()], {"p0": "math"}), ["report.md", "results.json"]),
            "roofline": (ROOFLINE, ["roofline.json", "roofline.md"]),
            "replay": (REPLAY, ["replay.json"]),
            "rejection_sampling": (CHAINS, ["rejection_sampling.json", "rejection_sampling.md"]),
        }
        for kind, (measurements, files) in kinds.items():
            status, said = self.run_script(self.measure(kind, measurements, kind))
            self.assertEqual(status, 0, said)
            self.assertEqual(self.files(kind), ["measurements.json", *files])

    def test_results_are_those_of_the_report(self):
        folder = self.measure("suite", suite([suite_run()], {"p0": "math"}))
        _, said = self.run_script(folder)
        results = json.loads((self.folder / "report/results.json").read_text())
        self.assertEqual(results["panels"][0]["figures"][1]["speedup"], 2)
        self.assertEqual(results["panels"][0]["runs"][0]["requests"][0]["dataset"], "math")
        text = (self.folder / "report/report.md").read_text()
        self.assertTrue(said.startswith(text))
        for part in ("# small: Small", "- 4.2× on its machine.", "## machine", "Speedup by dataset", "Every policy generated"):
            self.assertIn(part, text)

    def test_tables_alone_write_nothing(self):
        folder = self.measure("comparison", COMPARISON)
        status, said = self.run_script("--tables", folder)
        self.assertEqual(status, 0)
        self.assertIn("### One stream, concurrency 1", said)
        self.assertEqual(self.files("report"), ["measurements.json"])

    def test_without_matplotlib_only_the_plots_are_missing(self):
        status, said = self.run_script(self.measure("comparison", COMPARISON))
        self.assertEqual(status, 0)
        self.assertIn("no plots", said)

    def test_other_files_are_refused(self):
        for name, content in (("none", None), ("broken", "{"), ("old", '{"kind": "comparison"}'), ("other", '{"format": 1}')):
            folder = self.folder / name
            folder.mkdir()
            if content is not None:
                (folder / "measurements.json").write_text(content)
            status, said = self.run_script(str(folder))
            self.assertEqual(status, 1, name)
            self.assertIn(f"{folder}/measurements.json", said)


class MergeTest(ScriptTest):
    def report_of(self, name: str, **more) -> str:
        folder = self.measure("suite", suite([suite_run()], {"p0": "math"}, **more), name)
        self.run_script(folder)
        return folder

    def test_reports_of_the_release_before_have_one_limit_of_new_tokens(self):
        run = suite_run()
        del run["max_new_tokens"]
        written = suite([run], {"p0": "math"})
        written["suite"]["tables"] = ["generation"]
        old = self.measure("suite", written, "old")
        status, said = self.run_script(old)
        self.assertEqual(status, 0, said)
        self.assertIn("At most 4 new tokens.", said)
        results = json.loads((self.folder / "old/results.json").read_text())
        results["suite"]["max_new_tokens"] = 4
        for row in results["panels"][0]["figures"]:
            del row["max_new_tokens"]
        (self.folder / "old/results.json").write_text(json.dumps(results))
        status, said = self.run_script("--merge", old)
        self.assertEqual(status, 0, said)
        self.assertIn("At most 4 new tokens.", said)

    def test_a_list_of_limits_is_written_out(self):
        written = suite([suite_run()], {"p0": "math"})
        written["suite"]["max_new_tokens"] = [100, 500]
        self.assertIn("At most 100, 500 new tokens.", suite_report.markdown(suite_report.results(written)))

    def test_a_merged_report_has_a_panel_per_machine(self):
        folders = [self.report_of(name, device=f"{name} machine") for name in ("small", "large")]
        status, said = self.run_script("--merge", *folders, "--report", str(self.folder / "both"))
        self.assertEqual(status, 0, said)
        results = json.loads((self.folder / "both/results.json").read_text())
        self.assertEqual([panel["device"] for panel in results["panels"]], ["small machine", "large machine"])
        self.assertIn("## large machine", (self.folder / "both/report.md").read_text())
        self.assertEqual(self.run_script("--merge", *folders)[1], (self.folder / "both/report.md").read_text())

    def test_what_does_not_fit_is_refused(self):
        one, same = self.report_of("one"), self.report_of("same")
        other = self.report_of("other", suite=suite([], {})["suite"] | {"name": "another"}, device="x")
        comparison_folder = self.measure("comparison", COMPARISON, "comparison")
        self.run_script(comparison_folder)
        for folder, problem in (
            (same, "same device"),
            (other, "has the suite another"),
            (comparison_folder, "not the results of a suite"),
            (str(self.folder / "none"), "cannot read"),
        ):
            status, said = self.run_script("--merge", one, folder)
            self.assertEqual(status, 1)
            self.assertIn(problem, said)


class SmallReportsTest(unittest.TestCase):
    def test_the_roofline_leaves_out_rates_that_were_not_measured(self):
        self.assertIn("read 4000.0 GB/s; matrix products 600000 GFLOP/s in bf16\n", bench_tables.roofline(ROOFLINE))

    def test_forwards_are_compared_with_one_row_of_their_context(self):
        forwards = [forward(1, 0.01, 16), forward(8, 0.02, 16), forward(1, 0.02, 64), forward(8, 0.03, 64)]
        table = bench_tables.roofline(ROOFLINE | {"forwards": forwards})
        self.assertIn("| verify | 16 | 8 | 16000.0 | 1.00 | 5.000 | 20.000 | 25 % | 2.00× |\n", table)
        self.assertIn("| 17 % | 1.50× |\n", table)

    def test_the_replay_shows_no_regret_of_recorded_predictions(self):
        table = bench_tables.replay(REPLAY)
        self.assertIn("a box: 40 cycles, 40 with a choice of sizes.\n", table)
        self.assertIn("| ema | 2.000 | 10.0 % | 25.0 % | 3.0 | 5.00 % |\n", table)
        self.assertIn("| recorded | 1.000 | 10.0 % | 20.0 % | – | – |\n", table)

    def test_rejection_sampling_is_compared_with_the_keyed_choice(self):
        table = bench_tables.rejection_sampling(CHAINS)
        self.assertIn("a box: large with small, T = 0.8, seed 1\n", table)
        # The arm reached 100 positions in all, and SpS 16.
        self.assertIn("| linear:2 | 1.50 | 45.0 % | 44.0 % | 57.0 % | 2.00 | 62.5 % | 57.5 % | 10 |\n", table)
        self.assertIn("| linear:2 | 1 | 80 | 50.0 % | 50.0 % | 60.0 % | 10 | 70.0 % | 65.0 % |\n", table)
        self.assertIn("| linear:2 | 2 | 20 | 25.0 % | 20.0 % | 45.0 % | 6 | 50.0 % | 45.0 % |\n", table)

    def test_positions_that_were_not_reached_have_no_shares(self):
        table = bench_tables.rejection_sampling(CHAINS)
        self.assertIn("| chain | – | – | – | – | 1.00 | 0.0 % | 25.0 % | 4 |\n", table)
        self.assertIn("| chain | 1 | 0 | – | – | – | 4 | 0.0 % | 25.0 % |\n", table)

    def test_different_texts_are_said_in_the_panel(self):
        results = suite_report.results(suite([suite_run()], {"p0": "math"}, same_texts=False))
        self.assertIn("**Outputs differ between policies.**", suite_report.markdown(results))


if __name__ == "__main__":
    unittest.main()
