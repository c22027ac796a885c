"""Tests the bars (limits on figures) of the GPU run and the values computed from its raw output. Run by ctest."""

import unittest

import gpu_figures as figures
from fixtures import SWEEP_DEVICE, RawTest, forward, load_level, policy, results, sweep_entry, sweep_of_a_step

LOAD = {"ar": 1.0, "fixed:4": 2.0, "ngram:2": 1.1, "adaptive": 2.5, "default": 3.5}
FULL_LOAD = {"ar": 1.0, "fixed:4": 0.7, "ngram:2": 1.25, "adaptive": 1.0, "default": 1.25}
PROGRAM = {"status": 0, "seconds": 1, "complete": True, "passed": 3, "failed": 0, "skipped": 0}


class BarsTest(RawTest):
    def verdicts(self) -> dict[str, tuple[str, str]]:
        found = [verdict.as_json() for verdict in figures.judge_all(figures.load(self.raw))]
        return {verdict["key"]: (verdict["measured"].split(" (")[0], verdict["verdict"]) for verdict in found}

    def test_bars_without_output_are_not_run(self):
        self.assertEqual({verdict for _, verdict in self.verdicts().values()}, {"not run"})

    def test_good_values_meet_their_bars(self):
        self.put(
            "roofline_8b/roofline.json",
            {"device": "d", "forwards": [forward(1, 0.0062), forward(64, 0.007), forward(1, 0.1, context=16)]},
        )
        self.put(
            "sweep/attention.json",
            {
                "device": SWEEP_DEVICE,
                "figures": [
                    sweep_entry("attention", "32:8 heads of 128 over 32768", 32, 60.0),
                    sweep_entry("attention", "32:8 heads of 128 over 32768", 1, 30.0),
                    sweep_entry("attention", "32:8 heads of 128 over 2048", 32, 9.0),
                    sweep_entry("attention", "32:8 heads of 128 over 2048", 1, 6.5),
                    sweep_entry("attention", "32:8 heads of 128 over 2048", 64, 14.0),
                ],
            },
        )
        self.put("roofline_4b/roofline.json", {"device": "d", "forwards": [forward(1, 0.007)]})
        self.put("sweep/product.json", self.products(tflops=700))
        self.put(
            "decode_8b/results.json",
            results(
                policy("ar", 10, [1, 2]),
                policy("fixed:4", 20, [1, 2]),
                policy("fixed:16", 30, [1, 2]),
                policy("adaptive", 29.5, [1, 2]),
                policy("default", 40, [1, 2]),
            ),
        )
        self.put("services_8b/results.json", results(policy("default", 38, [1, 2])))
        self.put("load_8b/results.json", {"policies": [], "levels": [load_level(1, LOAD), load_level(64, FULL_LOAD)]})
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [1])))
        self.put("kernels/programs.json", {"a": PROGRAM})
        self.assertEqual(
            self.verdicts(),
            {
                "tests": ("0", "met"),
                "decode": ("80.6 %", "met"),
                "decode_4b": ("71.4 %", "met"),
                "attention_long": ("75.0 %", "met"),
                "attention_long_one": ("75.0 %", "met"),
                "attention_short": ("9.00 µs", "met"),
                "attention_one": ("6.50 µs", "met"),
                "attention_many": ("14.0 µs", "met"),
                "verify": ("1.13×", "met"),
                "prompts": ("70.8 %", "met"),
                "adaptive": ("0.98×", "met"),
                "default": ("4.00×", "met"),
                "default_rate": ("40 tokens/s", "missed"),
                "load_1": ("3.50×", "met"),
                "load_4": ("–", "not run"),
                "load_16": ("–", "not run"),
                "load_64": ("1.25×", "met"),
                "load_plain": ("1.00×", "met"),
                "load_best": ("1.00×", "met"),
                "services": ("0.95×", "met"),
                "exact_bf16": ("0", "met"),
                "exact": ("0", "met"),
            },
        )

    def products(self, tflops: float) -> dict:
        """A sweep of two products of an H200. The head does not count."""
        names = {"Qwen3-8B qkv 6144 x 4096": tflops, "Qwen3-8B down 4096 x 12288": tflops, "Qwen3-8B head 1 x 1": 1}
        entries = [sweep_entry("product", name, 2048, 50.0) | {"tflops": rate} for name, rate in names.items()]
        return {"device": SWEEP_DEVICE | {"name": "NVIDIA H200"}, "figures": entries}

    def test_a_load_that_loses_names_the_policy_and_the_level(self):
        levels = [load_level(1, LOAD), load_level(64, FULL_LOAD | {"adaptive": 0.68, "default": 1.0})]
        self.put("load_8b/results.json", {"policies": [], "levels": levels})
        found = figures.measured_bars(figures.load(self.raw))
        self.assertEqual(found["load_plain"], {"value": 0.68, "note": "adaptive at 64"})
        self.assertEqual(found["load_best"], {"value": 1 / 1.25, "note": "ngram:2 at 64"})
        self.assertEqual(self.verdicts()["load_64"], ("1.00×", "missed"))

    def test_default_must_also_reach_an_absolute_rate(self):
        for rate, verdict in ((869, "missed"), (870, "met")):
            self.put("decode_8b/results.json", results(policy("ar", 200, [1, 2]), policy("default", rate, [1, 2])))
            self.assertEqual(self.verdicts()["default_rate"], (f"{rate} tokens/s", verdict))

    def test_services_must_reach_92_percent_of_one_process(self):
        self.put("decode_8b/results.json", results(policy("ar", 200, [1, 2]), policy("default", 900, [1, 2])))
        for rate, verdict in ((827, "missed"), (829, "met")):
            self.put("services_8b/results.json", results(policy("default", rate, [1, 2])))
            self.assertEqual(self.verdicts()["services"], ("0.92×", verdict))

    def test_texts_that_differ_count_at_temperature_1_after_long_contexts_and_under_load_too(self):
        same, other = policy("ar", 10, [1]), policy("default", 20, [2])
        for kind in ("decode", "sampled", "long"):
            self.put(f"{kind}_8b/results.json", results(same, policy("default", 20, [1])))
        self.assertEqual(self.verdicts()["exact_bf16"], ("0", "met"))
        self.put("sampled_8b/results.json", results(same, other, other | {"policy": "adaptive"}))
        self.put("long_8b/results.json", results(same, other))
        level = load_level(1, LOAD)
        self.put("load_8b/results.json", {"policies": [], "levels": [level], "outputs": {"compared": 9, "different": 3}})
        found = figures.measured_bars(figures.load(self.raw))["exact_bf16"]
        assert found
        self.assertEqual(found, {"value": 5, "note": "sampled: default, adaptive; long: default; load"})

    def test_adaptive_is_compared_with_every_fixed_budget_and_with_bastion(self):
        for best, rate in (("fixed:1024", 40), ("bastion", 41)):
            policies = {"ar": 10, "fixed:16": 30, "fixed:1024": 20, "bastion": 20, "adaptive": 38} | {best: rate}
            self.put("decode_8b/results.json", results(*(policy(name, speed, [1, 2]) for name, speed in policies.items())))
            found = figures.measured_bars(figures.load(self.raw))["adaptive"]
            assert found
            self.assertEqual(found["note"], best)
            self.assertAlmostEqual(found["value"], 38 / rate)
        self.assertEqual(self.verdicts()["adaptive"], ("0.93×", "missed"))

    def test_bad_values_miss_their_bars(self):
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0065), forward(64, 0.0084)]})
        self.put("sweep/product.json", self.products(tflops=500))
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [2])))
        self.put("decode_8b/results.json", results(policy("ar", 10, [1]), policy("default", 20, [2])))
        self.put(
            "kernels/programs.json", {"a": PROGRAM | {"skipped": 2}, "b": {"status": -11, "seconds": 1, "complete": False}}
        )
        verdicts = self.verdicts()
        self.assertEqual(verdicts["decode"], ("76.9 %", "missed"))
        self.assertEqual(verdicts["prompts"], ("50.6 %", "missed"))
        self.assertEqual(verdicts["verify"][1], "missed")
        self.assertEqual(verdicts["exact"], ("1", "missed"))
        self.assertEqual(verdicts["exact_bf16"], ("1", "missed"))
        self.assertEqual(verdicts["tests"], ("3", "missed"), "two skipped tests and one program that crashed")

    def test_without_a_gpu_no_bar_is_judged(self):
        self.put("machine.json", {"device": "cpu"})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        self.assertEqual({verdict for _, verdict in self.verdicts().values()}, {"not judged: no GPU was used"})

    def test_bars_of_models_with_a_changed_shape_are_not_judged(self):
        self.put("machine.json", {"device": "cuda", "shape": '{"layers": 9}'})
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(1, 0.0062)]})
        self.put("services_demo/results.json", results(policy("ar", 10, [1]), policy("default", 20, [1])))
        self.assertEqual(self.verdicts()["decode"], ("80.6 %", "not judged: the run changed the shape of its models"))
        self.assertEqual(self.verdicts()["exact"][1], "met", "the demo pair always has its own shape")


class SharesTest(RawTest):
    def test_the_products_of_the_project_replace_those_of_cublaslt_and_the_activation(self):
        step = sweep_of_a_step()
        for entry in list(step["figures"]):
            if entry["part"] == "gemm":
                step["figures"].append(entry | {"part": "product", "us": entry["us"] / 2})
        self.put("sweep/gemm.json", step)
        shares = figures.kernel_shares(figures.load(self.raw), 1)
        assert shares
        self.assertEqual(shares["sum"], 2 * (36 * 4 + 3) + 4 * 36 + 1)

    def test_a_step_is_the_sum_of_its_kernels(self):
        self.put("sweep/gemm.json", sweep_of_a_step())
        self.put("roofline_8b/roofline.json", {"device": "d", "forwards": [forward(32, 0.001)]})
        found = figures.load(self.raw)
        # Per layer: four products, attention, two norms, rotation and activation. Then norm, head, embedding and choice.
        one, many = figures.kernel_shares(found, 1), figures.kernel_shares(found, 32)
        assert one and many
        self.assertEqual(one["sum"], 2 * (36 * 9 + 4))
        self.assertEqual(many["measured"], 1000)
        self.assertEqual(figures.microseconds(found, "choose", "greedy", 48), 5.0, "halfway between 32 and 64 rows")
        self.assertIsNone(figures.kernel_shares(found, 128), "this sweep ends at 64 rows")


if __name__ == "__main__":
    unittest.main()
