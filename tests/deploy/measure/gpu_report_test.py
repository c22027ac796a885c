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
            {
                "kernels": {
                    "part": "kernels",
                    "status": "failed",
                    "why": "a test failed",
                    "seconds": 1.5,
                    "planned": 85,
                    "limit": 90,
                }
            },
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
            "| 1.5 | 85 | 90 | kernels: failed, a test failed |",
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

    def put_further_parts(self) -> None:
        """Writes the output of temperature 1, long contexts, draft vocabularies, the chat model and other engines."""
        pair = results(policy("ar", 10, [1, 2]), policy("default", 25, [1, 2]))
        level = load_level(16, {"ar": 1.0, "default": 1.5})
        self.put("sampled_8b/results.json", pair)
        self.put("int8_8b/results.json", pair)
        self.put("sampled_load_8b/results.json", {"levels": [level], "outputs": {"compared": 40, "different": 0}} | pair)
        for one in pair["policies"]:
            one["prompts"][0] |= {"id": "32768-0", "contexts": [32704], "prefill_seconds": 2.0}
        self.put("long_8b/results.json", pair)
        for name, rate in (
            ("vocabulary_8b_0", 100),
            ("vocabulary_8b_16384", 120),
            ("vocabulary_chat_16384", 200),
            ("chat", 300),
        ):
            self.put(f"{name}/results.json", results(policy("chain", 50, [1, 2]), policy("default", rate, [1, 2])))
        step = {"context": 2048, "eager_ms": 38.9, "graph_ms": 9.31}
        more = {"prompts": ["one"], "arms": [], "steps": [step], "left_out": {"DDTree's code": "no checkout was named"}}
        self.put("peers_8b/peers.json", {"torch": "2.11", "transformers": "4.57"} | more)

    def test_further_parts_have_a_section_each(self):
        self.put_further_parts()
        gpu_report.write([self.raw], self.folder / "out", with_plots=False)
        text = (self.folder / "out/gpu_results.md").read_text()
        for expected in (
            "## At temperature 1 in process, Qwen3-8B shape",
            "## At temperature 1 under load in process, Qwen3-8B shape",
            "| 16 | bastion default | 150.0 | 1.50× | 1.50 to 1.50 |",
            "0 of 40 answers differ",
            "## With int8 weights in process, Qwen3-8B shape",
            "## After long contexts in process, Qwen3-8B shape",
            "| 32704 | default | 25.0 | 2.50× |",
            "for `default`: Qwen3-8B shape: 16,384; SmolLM2-135M: all.",
            "## Policies in process, SmolLM2-135M",
            "## Beside other engines, Qwen3-8B shape",
            "| 2048 | 38.90 | 9.31 | – | – |",
            "Left out: DDTree's code: no checkout was named.",
        ):
            self.assertIn(expected, text)
        found = json.loads((self.folder / "out/gpu_results.json").read_text())
        self.assertEqual(found["vocabulary"]["8b"][1]["relative"], 1.2)
        self.assertEqual(found["long"]["8b"]["32768"][1]["context"], 32704)
        self.assertEqual(found["sampled"]["8b"][1]["speedup"], 2.5)
        self.assertEqual(found["load"], {}, "the load at temperature 1 is not the load of the bars")

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
