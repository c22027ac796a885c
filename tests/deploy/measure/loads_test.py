"""Tests the system throughput of closed loops and its table. Run by ctest."""

import unittest

from loads import LoadArm, Stream, add_levels, loads_table, round_ratios, system_rate
from runner import Failed


def stream(*times: float) -> Stream:
    return Stream([1] * len(times), list(times))


class LoadsTest(unittest.TestCase):
    def test_only_tokens_of_a_full_loop_count(self):
        # Concurrency 2: full from 2 s (the second first token) to 6 s (the second request ends, none replaces it).
        streams = [stream(1, 2, 4), stream(2, 3, 6), stream(5, 6, 9)]
        self.assertEqual(system_rate(streams, 2), 5 / 4)

    def test_a_loop_that_was_never_full_has_no_throughput(self):
        with self.assertRaisesRegex(Failed, "the loop of 2 requests was never full"):
            system_rate([stream(1, 2), stream(3, 4)], 2)

    def test_levels_of_several_rounds_are_collected_by_policy(self):
        arms: dict[str, LoadArm] = {}
        for rate in (10.0, 12.0):
            add_levels(
                arms,
                "bastion",
                {
                    "levels": [
                        {"concurrency": 1, "arms": [{"policy": "ar", "system_tokens_per_second": rate}]},
                        {"concurrency": 8, "arms": [{"policy": "ar", "system_tokens_per_second": 4 * rate}]},
                    ]
                },
            )
        self.assertEqual(arms, {"bastion ar": LoadArm("bastion ar", {1: [10, 12], 8: [40, 48]})})

    def test_ratios_compare_the_same_round(self):
        theirs = LoadArm("llama.cpp bf16", {1: [10, 20, 40], 8: [20, 20, 20]})
        ours = LoadArm("bastion ar", {1: [20, 30, 120], 8: [50, 30, 40]})
        self.assertEqual(round_ratios(ours, theirs, 1), [2, 1.5, 3])
        lines = loads_table([theirs, ours], theirs).splitlines()
        self.assertEqual(len(lines), 2 + 4)
        self.assertEqual(lines[3], "| 1 | bastion ar | 30.0 | 2.00× | 1.50 to 3.00 |")
        self.assertEqual(lines[5], "| 8 | bastion ar | 40.0 | 2.00× | 1.50 to 2.50 |")
        with self.assertRaises(ValueError):
            round_ratios(LoadArm("short", {1: [1]}), theirs, 1)


if __name__ == "__main__":
    unittest.main()
