"""Tests the code that reads the output of the measured programs. Run by ctest."""

import unittest

import program_output as outputs
from fixtures import FolderTest, forward, gtest, policy, results

# Plain: 4 tokens in 4 cycles of 100 ms. The tree: 4 tokens in 2 cycles of 100 ms; the host takes 10 ms of each.
PLAIN = policy("ar", 10, [1, 2, 3, 4], [1, 1, 1, 1], {"draft": 0, "verify": 0.36, "commit": 0.004})
TREE = policy("fixed:4", 20, [1, 2, 3, 4], [3, 1], {"draft": 0.02, "verify": 0.16, "tree": 0.01, "transfer": 0.01})

TRANSPORT = {
    "benchmarks": [
        {
            "name": f"BM_CycleBeyondCompute/large:{large}/shared:{shared}/compute:0/iterations:1",
            "p50_us": p50,
            "p99_us": 2 * p50,
        }
        for large, shared, p50 in ((0, 0, 187.0), (0, 1, 20.0), (1, 0, 321.0), (1, 1, 55.0))
    ]
}

COUNTS = """[ RUN      ] Policies/AllocationsTest.OfACycleInProcess/0
ar: 34.15 allocations, 2086.4 bytes a cycle
fixed:16: 132.75 allocations, 1.5e+06 bytes a cycle
fixed:16: 38654 instructions a cycle
[  PASSED  ] 6 tests.
"""


class PoliciesTest(unittest.TestCase):
    def test_the_ideal_speedup_counts_only_forwards(self):
        tree = outputs.row_of(outputs.policies(results(PLAIN, TREE)), "fixed:4")
        assert tree
        self.assertAlmostEqual(tree["speedup"], 2)
        self.assertAlmostEqual(tree["ideal"], 2 * 90 / (80 + 10))
        self.assertAlmostEqual(tree["share"], 1)
        self.assertAlmostEqual(tree["host"], 0.1)
        self.assertEqual((tree["nodes"], tree["differing"], tree["prompts"]), (4, 0, 1))

    def test_without_plain_decoding_there_is_no_speedup(self):
        (row,) = outputs.policies(results(TREE))
        self.assertEqual((row["speedup"], row["ideal"], row["share"]), (None, None, None))
        self.assertAlmostEqual(row["verify"], 80)

    def test_texts_are_compared_with_the_first_policy(self):
        other = policy("adaptive", 20, [1, 2, 3, 5])
        found = results(PLAIN, TREE, other)
        self.assertEqual(outputs.differing_prompts(found), {"fixed:4": [], "adaptive": ["one"]})
        self.assertEqual(outputs.differing_text(found), "adaptive: 1")
        adaptive = outputs.row_of(outputs.policies(found), "adaptive")
        assert adaptive
        self.assertEqual(adaptive["differing"], 1)

    def test_predictions_are_medians_by_rows(self):
        trace = {"verify_trace": [[5, 0.009, 0.010], [5, 0.012, 0.010], [5, 0.010, 0.010], [2, 0.004, 0.005], [3, 0.1, 0]]}
        two, five = outputs.predictions(results(PLAIN | trace))
        self.assertEqual((two["rows"], two["cycles"], five["rows"], five["cycles"]), (2, 1, 5, 3))
        self.assertAlmostEqual(five["predicted"], 10)
        self.assertAlmostEqual(five["error"], 0.1)
        self.assertAlmostEqual(two["error"], 0.2)


class RooflineTest(unittest.TestCase):
    ROOFLINE = {
        "forwards": [forward(1, 1.0), forward(4, 1.25), forward(4, 9.0, context=16), {**forward(8, 0.2), "forward": "draft"}]
    }

    def test_forwards_of_the_target(self):
        four = outputs.forward(self.ROOFLINE, 4, 2048)
        assert four
        self.assertEqual(four["seconds"], 1.25)
        self.assertIsNone(outputs.forward(self.ROOFLINE, 8, 2048), "the forward with 8 rows is the drafter's")
        self.assertIsNone(outputs.forward({}, 1, 2048))
        self.assertEqual(outputs.contexts(self.ROOFLINE), [16, 2048])

    def test_ratios_to_one_row_of_the_same_context(self):
        self.assertEqual(outputs.row_ratios(self.ROOFLINE, 2048), {1: 1.0, 4: 1.25})
        self.assertEqual(outputs.row_ratios(self.ROOFLINE, 16), {})


class TestsAndBenchmarksTest(FolderTest):
    def test_each_test_counts_once(self):
        counts = outputs.test_counts(gtest("passed", "failed", "skipped", "passed"))
        self.assertEqual((counts["passed"], counts["failed"], counts["skipped"]), (2, 1, 1))
        self.assertEqual(counts["names"], ["Suite.Test1: failed", "Suite.Test2: skipped"])

    def test_transport_times_are_read_by_carrier_and_size(self):
        times = outputs.transport_times(TRANSPORT)
        self.assertEqual(times["shared"], {"3 × 320, 7 × 64; 0 µs": (20, 40), "5 × 4096, 15 × 64; 0 µs": (55, 110)})
        self.assertEqual(times["inline"]["5 × 4096, 15 × 64; 0 µs"], (321, 642))

    def test_counts_of_a_cycle_are_read(self):
        self.assertEqual(
            outputs.cycle_counts(COUNTS),
            {
                "ar": {"allocations": 34.15, "bytes": 2086.4},
                "fixed:16": {"allocations": 132.75, "bytes": 1.5e6, "instructions": 38654},
            },
        )

    def test_a_truncated_file_is_none(self):
        (self.folder / "cut.json").write_text('{"device": "cut sh')
        self.assertIsNone(outputs.load_json(self.folder / "cut.json"))
        self.assertIsNone(outputs.load_json(self.folder / "missing.json"))


if __name__ == "__main__":
    unittest.main()
