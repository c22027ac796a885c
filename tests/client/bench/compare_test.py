"""The arithmetic of client/bench/compare_common.py; run by ctest."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "client/bench"))

from compare_common import Answer, Arm, Prompt, agreement, rounds, table  # noqa: E402


def arm(name: str, *answers: Answer) -> Arm:
    return Arm(name, list(answers))


class CompareTest(unittest.TestCase):
    def test_rates_and_committed_length(self):
        both = arm("x", Answer([1] * 8, 2.0, 4), Answer([1] * 8, 6.0, 8))
        self.assertEqual(both.rates(), [4.0, 8 / 6])
        self.assertEqual(both.rate(), 2.0)
        self.assertEqual(both.tau(), 16 / 12)

    def test_agreement_ends_at_the_first_difference(self):
        reference = arm("theirs", Answer([1, 2, 3, 4], 1, 4), Answer([5, 6, 7, 8], 1, 4))
        self.assertEqual(agreement(reference, reference), 1)
        self.assertEqual(agreement(arm("ours", Answer([1, 9, 3, 4], 1, 4), Answer([5, 6, 7, 8], 1, 4)), reference), 5 / 8)
        self.assertEqual(agreement(arm("short", Answer([1, 2], 1, 2), Answer([], 1, 1)), reference), 2 / 8)

    def test_rounds_hold_every_prompt_once(self):
        prompts = [Prompt(str(i), [i]) for i in range(7)]
        for count in (1, 2, 3, 7, 20):
            shares = rounds(prompts, count)
            self.assertEqual([p for share in shares for p in share], prompts)
            self.assertTrue(all(shares))

    def test_the_ratio_is_a_median_over_prompts(self):
        slow = arm("slow", *(Answer([1] * 4, seconds, 4) for seconds in (1, 1, 1)))
        fast = arm("fast", *(Answer([1] * 4, seconds, 2) for seconds in (0.5, 0.25, 0.01)))
        lines = table([fast, slow], slow).splitlines()
        self.assertTrue(lines[2].startswith("| slow | 4.0 | 4.0 | 1.00× | 1.00 | 100 % |"))
        self.assertTrue(lines[3].startswith("| fast | 15.8 | 16.0 | 4.00× | 2.00 | 100 % |"))


if __name__ == "__main__":
    unittest.main()
