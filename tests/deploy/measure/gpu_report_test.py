"""Tests the GPU report with fake raw output. Run by ctest."""

import json
import tarfile
import unittest

import gpu_report
from fixtures import RawTest, forward, load_level, policy, results, sweep_of_a_step


class ReportTest(RawTest):
    def test_the_report_has_every_part(self):
        self.put(
            "steps.json",
            {"kernels": {"part": "kernels", "status": "failed", "why": "a test failed", "seconds": 1.5, "limit": 90}},
        )
        self.put(
            "kernels/programs.json",
            {
                "a": {
                    "status": 1,
                    "seconds": 1,
                    "complete": True,
                    "passed": 3,
                    "failed": 1,
                    "skipped": 0,
                    "names": ["Suite.Bad: failed"],
                }
            },
        )
        self.put("sweep/gemm.json", sweep_of_a_step())
        self.put(
            "roofline_8b/roofline.json",
            {"device": "d", "forwards": [forward(1, 0.006), forward(64, 0.007), {**forward(8, 0.001), "forward": "draft"}]},
        )
        self.put("decode_8b/results.json", results(policy("ar", 10, [1, 2]), policy("adaptive", 20, [1, 3])))
        level = load_level(16, {"ar": 1.0, "default": 2.25})
        self.put("load_8b/results.json", {"policies": [], "levels": [level]})
        out = self.folder / "out"
        gpu_report.write([self.raw], out, with_plots=False)
        text = (out / "gpu_results.md").read_text()
        for expected in (
            "# GPU results: NVIDIA Test",
            "NVIDIA Test, 580.1",
            "Suite.Bad: failed",
            "| 64 | 7.000, 1.17× |",
            "2.00×",
            "1 of 1",
            "| 5 | 2 | 9.000 | 10.000 | 10.0 % |",
            "a test failed",
            "measured step",
            "Sweep: gemm",
            "| 16 | bastion default | 225.0 | 2.25× | 2.25 to 2.25 |",
        ):
            self.assertIn(expected, text)
        numbers = json.loads((out / "gpu_results.json").read_text())
        self.assertEqual(numbers["device"], "NVIDIA Test")
        self.assertEqual(len(list(out.iterdir())), 3)
        with tarfile.open(out / "gpu_raw.tar.gz") as tar:
            self.assertIn("raw/decode_8b/results.json", tar.getnames())

    def test_truncated_output_is_omitted(self):
        (self.raw / "decode_8b").mkdir(parents=True)
        (self.raw / "decode_8b/results.json").write_text('{"device": "cut sh')
        gpu_report.write([self.raw], self.folder / "out", with_plots=False)
        self.assertIn("| not run |", (self.folder / "out/gpu_results.md").read_text())

    def test_a_run_without_a_gpu_says_so(self):
        self.put("machine.json", {"device": "cpu"})
        gpu_report.write([self.raw], self.folder / "out", with_plots=False)
        self.assertIn("No GPU was used", (self.folder / "out/gpu_results.md").read_text())

    def test_two_runs_make_one_report(self):
        self.put("steps.json", {"roofline_8b": {"part": "roofline", "status": "ok", "why": "", "seconds": 1, "limit": 2}})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        gpu_report.write([self.raw], self.folder / "first", with_plots=False)
        self.raw = self.folder / "later/raw"
        self.put("machine.json", {"device": "cuda"})
        self.put("steps.json", {"services_demo": {"part": "services", "status": "ok", "why": "", "seconds": 1, "limit": 2}})
        self.put("services_demo/results.json", results(policy("ar", 10, [1])))
        gpu_report.write([self.folder / "first/gpu_raw.tar.gz", self.raw], self.folder / "both", with_plots=False)
        both = json.loads((self.folder / "both/gpu_results.json").read_text())
        self.assertEqual(set(both["steps"]), {"roofline_8b", "services_demo"})
        self.assertEqual([bar["key"] for bar in both["bars"] if bar["verdict"] == "met"], ["decode", "exact"])

    def test_a_source_without_raw_output_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "nothing has no raw output"):
            gpu_report.write([self.folder / "nothing"], self.folder / "out", with_plots=False)


if __name__ == "__main__":
    unittest.main()
