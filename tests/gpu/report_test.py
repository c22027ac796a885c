"""What tests/gpu/report.py makes of made-up raw output, and how run.py deals with time and failures; run by ctest."""

import json
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import report  # noqa: E402
import report_figures as figures  # noqa: E402
import run as driver  # noqa: E402
import steps as all_steps  # noqa: E402
from runner import Failed, NotHere, Pairs, Run, Stopped  # noqa: E402

DEVICE = {"name": "NVIDIA Test", "capability": 90, "multiprocessors": 132, "bytes_per_second": 3e12}


def gtest(*results: str) -> dict:
    tests = []
    for index, result in enumerate(results):
        test = {"name": f"Test{index}", "status": "RUN", "result": "SKIPPED" if result == "skipped" else "COMPLETED"}
        tests.append({**test, "failures": [{"failure": "no"}]} if result == "failed" else test)
    return {"testsuites": [{"name": "Suite", "testsuite": tests}]}


def policy(name: str, rate: float, tokens: list[int]) -> dict:
    stages = {"draft": 0.001, "tree": 0, "verify": 0.01, "commit": 0, "transfer": 0}
    prompt = {"id": "one", "output_token_ids": tokens, "committed_lengths": [len(tokens)], "nodes_per_cycle": [4],
              "seconds": len(tokens) / rate, "prefill_seconds": 0, "stage_seconds": stages}
    return {"policy": name, "tokens_per_second": rate, "tau": 1.0, "speedup_vs_ar": 1, "verify_prediction_error_median": 0.1,
            "verify_trace": [[5, 0.009, 0.01]], "prompts": [prompt]}


def results(*policies: dict) -> dict:
    return {"device": "NVIDIA Test, bf16", "policies": list(policies)}


def forward(rows: int, seconds: float, context: int = 2048) -> dict:
    return {"forward": "decode" if rows == 1 else "verify", "rows": rows, "context": context, "bytes": 16e9, "flops": 1e9,
            "bound_seconds": 0.005, "seconds": seconds}


def sweep_entry(part: str, work: str, rows: int, us: float) -> dict:
    return {"part": part, "work": work, "rows": rows, "us": us, "us_p10": us, "us_p90": us, "share_of_memory": 0.75}


def kernels_of_a_step() -> list[dict]:
    names = [("gemm", f"Qwen3-8B {name}") for name in ("qkv 6144 x 4096", "o 4096 x 4096", "gate_up 24576 x 4096",
                                                       "down 4096 x 12288", "head 151936 x 4096")]
    names += [("rowwise", name) for name in ("norm", "qkv", "silu", "embed")]
    names += [("attention", "32:8 heads of 128 over 2048"), ("choose", "greedy")]
    return [sweep_entry(part, work, rows, us) for part, work in names for rows, us in ((1, 2.0), (32, 4.0), (64, 6.0))]


class RawTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.raw = self.folder / "raw"
        self.put("machine.json", {"device": "cuda", "when": "a day", "gpus": ["NVIDIA Test, 580.1"], "built": "abc"})
        self.put("steps.json", {})

    def put(self, name: str, content) -> None:
        path = self.raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def verdicts(self) -> dict[str, tuple[str, str]]:
        return {bar["key"]: (bar["measured"], bar["verdict"]) for bar in figures.judged(figures.load(self.raw))}


class BarsTest(RawTest):
    def test_nothing_ran(self):
        self.assertEqual({verdict for _, verdict in self.verdicts().values()}, {"not run"})

    def test_met(self):
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062), forward(64, 0.007),
                                                                            forward(1, 0.1, context=16)]})
        self.put("sweep/attention.json", {"device": DEVICE, "figures": [
            sweep_entry("attention", "32:8 heads of 128 over 32768", 32, 60.0),
            sweep_entry("attention", "32:8 heads of 128 over 2048", 32, 9.0)]})
        self.put("decode_8b/results.json", results(policy("ar", 10, [1, 2]), policy("fixed:4", 20, [1, 2]),
                                                   policy("fixed:16", 30, [1, 2]), policy("adaptive", 29.5, [1, 3])))
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [1])))
        self.put("kernels/programs.json", {"a": {"status": 0, "seconds": 1, "whole": True, "passed": 3, "failed": 0,
                                                 "skipped": 0}})
        self.assertEqual(self.verdicts(), {
            "tests": ("0", "met"), "decode": ("80.6 %", "met"), "attention_long": ("75.0 %", "met"),
            "attention_short": ("9.00 µs", "met"), "verify": ("1.13×", "met"), "adaptive": ("0.98×", "met"), "exact": ("0", "met")})

    def test_missed(self):
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0064), forward(64, 0.0074)]})
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [2])))
        self.put("kernels/programs.json", {"a": {"status": 0, "seconds": 1, "whole": True, "passed": 3, "failed": 0, "skipped": 2},
                                           "b": {"status": -11, "seconds": 1, "whole": False}})
        verdicts = self.verdicts()
        self.assertEqual(verdicts["decode"], ("78.1 %", "missed"))
        self.assertEqual(verdicts["verify"][1], "missed")
        self.assertEqual(verdicts["exact"], ("1", "missed"))
        self.assertEqual(verdicts["tests"], ("3", "missed"), "two that were skipped, one program that crashed")

    def test_without_a_gpu_nothing_is_met(self):
        self.put("machine.json", {"device": "cpu"})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        self.assertEqual(self.verdicts()["decode"][1], "says nothing: no GPU")

    def test_other_shapes_than_those_asked_for_meet_nothing(self):
        self.put("machine.json", {"device": "cuda", "shape": '{"layers": 9}'})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [1])))
        self.assertEqual(self.verdicts()["decode"][1], "says nothing: other shapes")
        self.assertEqual(self.verdicts()["exact"][1], "met", "the demo pair is what it is")

    def test_of_tests_each_counts_once(self):
        counts = figures.test_counts(gtest("passed", "failed", "skipped", "passed"))
        self.assertEqual((counts["passed"], counts["failed"], counts["skipped"]), (2, 1, 1))
        self.assertEqual(counts["names"], ["Suite.Test1: failed", "Suite.Test2: skipped"])


class SharesTest(RawTest):
    def test_a_step_is_the_sum_of_its_kernels(self):
        self.put("sweep/gemm.json", {"device": DEVICE, "figures": kernels_of_a_step()})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(32, 0.001)]})
        found = figures.load(self.raw)
        # Per layer four products, attention, two norms, rotation and activation; then norm, head, embedding and choice.
        self.assertEqual(figures.kernel_shares(found, 1)["sum"], 2 * (36 * 9 + 4))
        self.assertEqual(figures.kernel_shares(found, 32)["measured"], 1000)
        self.assertEqual(figures.microseconds(found, "choose", "greedy", 48), 5.0, "half way between 32 and 64 rows")
        self.assertIsNone(figures.kernel_shares(found, 128), "the sweep ends at 64 rows here")


class ReportTest(RawTest):
    def test_everything_is_told(self):
        self.put("steps.json", {"kernels": {"part": "kernels", "status": "failed", "why": "not green", "seconds": 1.5, "limit": 90}})
        self.put("kernels/programs.json", {"a": {"status": 1, "seconds": 1, "whole": True, "passed": 3, "failed": 1, "skipped": 0,
                                                 "names": ["Suite.Bad: failed"]}})
        self.put("sweep/gemm.json", {"device": DEVICE, "figures": kernels_of_a_step()})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.006), forward(64, 0.007),
                                                                            {**forward(8, 0.001), "forward": "draft"}]})
        self.put("decode_8b/results.json", results(policy("ar", 10, [1, 2]), policy("adaptive", 20, [1, 3])))
        out = self.folder / "out"
        report.write([self.raw], out, with_plots=False)
        text = (out / "gpu_results.md").read_text()
        for expected in ("# GPU results: NVIDIA Test", "NVIDIA Test, 580.1", "Suite.Bad: failed", "| 64 | 7.000, 1.17× |", "2.00×",
                         "1 of 1", "| 5 | 2 | 9.000 | 10.000 | 10.0 % |", "not green", "measured step", "Sweep: gemm"):
            self.assertIn(expected, text)
        numbers = json.loads((out / "gpu_results.json").read_text())
        self.assertEqual(numbers["device"], "NVIDIA Test")
        self.assertEqual(len(list(out.iterdir())), 3)
        with tarfile.open(out / "gpu_raw.tar.gz") as tar:
            self.assertIn("raw/decode_8b/results.json", tar.getnames())

    def test_broken_output_is_left_out(self):
        (self.raw / "decode_8b").mkdir(parents=True)
        (self.raw / "decode_8b/results.json").write_text('{"device": "cut sh')
        report.write([self.raw], self.folder / "out", with_plots=False)
        self.assertIn("| not run |", (self.folder / "out/gpu_results.md").read_text())

    def test_two_runs_make_one_report(self):
        self.put("steps.json", {"roofline_8b": {"part": "roofline", "status": "ok", "why": "", "seconds": 1, "limit": 2}})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        report.write([self.raw], self.folder / "first", with_plots=False)
        self.raw = self.folder / "later/raw"
        self.put("machine.json", {"device": "cuda"})
        self.put("steps.json", {"services_demo": {"part": "services", "status": "ok", "why": "", "seconds": 1, "limit": 2}})
        self.put("services_demo/results.json", results(policy("ar", 10, [1])))
        report.write([self.folder / "first/gpu_raw.tar.gz", self.raw], self.folder / "both", with_plots=False)
        both = json.loads((self.folder / "both/gpu_results.json").read_text())
        self.assertEqual(set(both["steps"]), {"roofline_8b", "services_demo"})
        self.assertEqual([bar["key"] for bar in both["bars"] if bar["verdict"] == "met"], ["decode", "exact"])


class StepsTest(RawTest):
    def make_run(self, device: str = "cuda") -> Run:
        return Run(pack=self.folder, raw=self.raw, pairs=self.folder, device=device, quick=True, shape="")

    def step(self, work, seconds: float = 5.0) -> dict:
        run = self.make_run()
        return driver.run_step(all_steps.Step("a", "kernels", seconds, work), run, Pairs(run), seconds)

    def test_whatever_breaks_is_an_entry(self):
        def breaks(error):
            def work(*_):
                raise error
            return work

        self.assertEqual(self.step(lambda *_: None)["status"], "ok")
        self.assertEqual(self.step(breaks(NotHere("no GPU")))["status"], "not here")
        self.assertEqual(self.step(breaks(Failed("bad")))["why"], "bad")
        self.assertEqual(self.step(lambda *_: None, seconds=1.0)["status"], "skipped")

    def test_a_program_that_takes_too_long_is_stopped(self):
        run = self.make_run()
        run.ends = time.monotonic() + 0.2
        began = time.monotonic()
        with self.assertRaises(Stopped):
            run.command("sleep", ["sleep", "30"])
        self.assertLess(time.monotonic() - began, 10)

    def test_a_program_that_fails_tells_its_last_words(self):
        run = self.make_run()
        run.ends = time.monotonic() + 10
        with self.assertRaisesRegex(Failed, "sh, status 3: broken"):
            run.command("sh", ["sh", "-c", "echo fine; echo broken >&2; exit 3"])

    def test_a_skipped_test_failed_where_a_gpu_was_promised(self):
        program = self.folder / "cuda_some_test"
        program.write_text(f"#!/bin/sh\ncat <<'END' >${{1#--gtest_output=json:}}\n{json.dumps(gtest('passed', 'skipped'))}\nEND\n")
        program.chmod(0o755)
        for device, works in (("cpu", True), ("cuda", False)):
            run = self.make_run(device)
            run.ends = time.monotonic() + 10
            if works:
                all_steps.kernels(run, Pairs(run))
            else:
                self.assertRaisesRegex(Failed, "cuda_some_test", all_steps.kernels, run, Pairs(run))

    def test_shards_are_one_program(self):
        ends = [{"status": 0, "whole": True, "seconds": 1, "passed": 3, "failed": 0, "skipped": 1, "names": ["a"]},
                {"status": None, "whole": False, "seconds": 9}]
        self.assertEqual(all_steps.one_program(ends), {"status": None, "whole": False, "seconds": 9, "names": ["a"], "passed": 3,
                                                       "failed": 0, "skipped": 1})
        self.assertEqual(all_steps.one_program(ends[:1])["status"], 0)

    def test_tests_that_found_no_time_are_not_green(self):
        program = self.folder / "cuda_slow_test"
        program.write_text("#!/bin/sh\nexec sleep 30\n")
        program.chmod(0o755)
        run = self.make_run()
        run.ends = time.monotonic() + 0.2
        self.assertRaisesRegex(Failed, "cuda_slow_test", all_steps.kernels, run, Pairs(run))
        programs = json.loads((self.raw / "kernels/programs.json").read_text())
        self.assertEqual((programs["cuda_slow_test"]["status"], programs["cuda_slow_test"]["whole"]), (None, False))

    def test_parts_bring_the_pairs_that_they_need(self):
        names = lambda *parts: [step.name for step in all_steps.chosen_steps(list(parts))]  # noqa: E731
        self.assertEqual(names("sweep"), ["sweep"])
        self.assertEqual(names("services"), ["pair_8b", "services_demo", "services_8b"])
        self.assertEqual(names("pairs", "decode"), ["pair_8b", "decode_8b", "pair_4b", "decode_4b"])
        self.assertLess(sum(step.seconds for step in all_steps.STEPS), driver.DEADLINE)
        self.assertLess(driver.DEADLINE, 540)


if __name__ == "__main__":
    unittest.main()
