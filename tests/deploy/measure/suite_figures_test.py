"""Tests the figures of a suite on hand-made runs."""

import unittest

from measured import level, request, run, suite
from suite_figures import suite_figures

MATH_AND_CODE = {"a": "math", "b": "code"}


def chain(name: str, lengths: list[int], seconds: float) -> dict:
    """A request of one cycle per committed length, each with a chain of three nodes. The first token comes after 0.5 s."""
    cycles = [
        {"committed": n, "nodes": 3, "accepted": n - 1, "offered": [1, 1, 1], "expected_length": n + 0.5, "verify": 0.01}
        for n in lengths
    ]
    deltas = [[0.5 + 0.25 * index, length] for index, length in enumerate(lengths)]
    return request(name, [7] * sum(lengths), seconds, *cycles) | {"deltas": deltas, "ended": 0.5 + 0.25 * len(lengths)}


def plain(name: str, seconds: float) -> dict:
    """A request of four tokens."""
    deltas = [[0.5 + 0.25 * index, 1] for index in range(4)]
    return request(name, [7] * 4, seconds, *[{"verify": 0.01}] * 4) | {"deltas": deltas, "ended": 1.5}


def measured(seed: int, seconds: float) -> dict:
    arms = {"ar": [run(plain("a", 4), plain("b", 4))], "chain": [run(chain("a", [3, 1], seconds), chain("b", [2, 2], seconds))]}
    peaks = {"chain": 1000 * seed}
    levels = [level(arms, concurrency=1)]
    return {
        "temperature": 0.0,
        "seed": seed,
        "prompt_tokens": 0,
        "max_new_tokens": 64,
        "peak_memory_bytes": peaks,
        "levels": levels,
    }


def row_of(rows: list[dict], policy: str, dataset: str = "") -> dict:
    return next(row for row in rows if (row["policy"], row["dataset"]) == (policy, dataset))


class SuiteFiguresTest(unittest.TestCase):
    def test_figures_are_over_all_seeds_and_rounds(self):
        rows = suite_figures(suite([measured(1, 1), measured(2, 3)], MATH_AND_CODE))
        self.assertEqual(len(rows), 6, "two policies; all prompts and two datasets")
        found = row_of(rows, "chain")
        self.assertEqual(found["requests"], 4)
        self.assertEqual(found["speedup"], 2, "16 tokens in 8 seconds, plain in 16")
        self.assertIsNotNone(found["speedup_95"])
        self.assertEqual((found["tau"], found["nodes"], found["acceptance_rate"]), (2, 3, 1 / 3))
        self.assertEqual(found["peak_memory_bytes"], 2000)
        self.assertAlmostEqual(found["seconds"]["ttft"], 0.5)
        self.assertAlmostEqual(found["seconds"]["tpot"], (0.25 + 0.125) / 2)
        self.assertAlmostEqual(found["seconds"]["verify"], 0.01)
        self.assertEqual(found["committed_lengths"], [[1, 2], [2, 4], [3, 2]])
        self.assertAlmostEqual(found["expected_length"]["pearson"], 1)
        self.assertEqual(found["expected_length"]["cycles"], 8)
        self.assertIsNone(row_of(rows, "ar")["speedup_95"])
        self.assertEqual(row_of(rows, "ar")["expected_length"]["cycles"], 0)

    def test_depths_have_denominators(self):
        rows = suite_figures(suite([measured(1, 1)], {"a": "math", "b": "math"}))
        self.assertEqual(len(rows), 2, "one dataset needs no rows of its own")
        depths = row_of(rows, "chain")["depths"]
        self.assertEqual([depth["offered"] for depth in depths], [4, 4, 4])
        self.assertEqual([depth["accepted"] for depth in depths], [3, 1, 0], "committed lengths 3, 1, 2, 2")
        self.assertEqual(depths[2]["cycles"], 4)
        self.assertEqual([depth["reached"] for depth in depths], [4, 3, 1])

    def test_datasets_have_their_own_figures(self):
        rows = suite_figures(suite([measured(1, 1)], MATH_AND_CODE))
        self.assertEqual(row_of(rows, "chain", "math")["requests"], 1)
        self.assertEqual(row_of(rows, "chain", "code")["committed_lengths"], [[2, 2]])
        self.assertEqual(row_of(rows, "chain", "code")["system_tokens_per_second"], 0)

    def test_under_load_the_speedup_is_that_of_the_system(self):
        def three(step: float) -> dict:
            requests = []
            for index, name in enumerate("abc"):
                arrived = 0 if index < 2 else 4 * step
                deltas = [[arrived + step * (token + 1), 1] for token in range(4)]
                ends = {"arrived": arrived, "ended": arrived + 4 * step, "deltas": deltas}
                requests.append(request(name, [7] * 4, 4 * step, *[{}] * 4) | ends)
            return run(*requests)

        levels = [level({"ar": [three(0.2)], "fixed:4": [three(0.1)]}, concurrency=2)]
        one = measured(1, 1) | {"levels": levels, "peak_memory_bytes": {}}
        rows = suite_figures(suite([one], {"a": "x", "b": "y", "c": "y"}))
        self.assertEqual(len(rows), 2, "no figures of datasets under load")
        self.assertAlmostEqual(rows[1]["speedup"], 2)
        self.assertGreater(rows[1]["system_tokens_per_second"], rows[0]["system_tokens_per_second"])
        self.assertIsNone(rows[1]["speedup_95"])

    def test_without_plain_decoding_there_is_no_speedup(self):
        alone = measured(1, 1)
        del alone["levels"][0]["arms"][0]
        (found,) = suite_figures(suite([alone], {"a": "x", "b": "x"}))
        self.assertEqual((found["speedup"], found["speedup_95"]), (0, None))

    def test_the_sample_for_the_plot_is_evenly_spaced(self):
        long = measured(1, 1)
        long["levels"][0]["arms"][1]["rounds"] = [run(chain("a", [2] * 5000, 1))]
        sample = row_of(suite_figures(suite([long], {"a": "x", "b": "x"})), "chain")["expected_length"]["sample"]
        self.assertEqual(len(sample), 1667)


if __name__ == "__main__":
    unittest.main()
