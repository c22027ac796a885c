"""Tests the arithmetic of comparisons of engines and policies (arms). Run by ctest."""

import unittest

from arms import Answer, Arm, add_answers, agreement, arms_table, best_ratio, load, ratio, rounds, save
from bars import measured
from fixtures import FolderTest, policy, results


def arm(name: str, *answers: Answer) -> Arm:
    return Arm(name, list(answers))


class ArmTest(FolderTest):
    def test_rates_and_committed_length(self):
        both = arm("x", Answer([1] * 8, 2.0, 4), Answer([1] * 8, 6.0, 8))
        self.assertEqual(both.rates(), [4.0, 8 / 6])
        self.assertEqual(both.rate(), 2.0)
        self.assertEqual(both.tau(), 16 / 12)

    def test_answers_of_several_runs_are_collected_by_policy(self):
        arms: dict[str, Arm] = {}
        for tokens in ([1, 2], [3]):
            add_answers(arms, "bastion", results(policy("ar", 2, tokens), policy("default", 4, tokens)))
        self.assertEqual(list(arms), ["bastion ar", "bastion default"])
        self.assertEqual(arms["bastion ar"].answers, [Answer([1, 2], 1.0, 1), Answer([3], 0.5, 1)])

    def test_a_saved_report_is_read_back(self):
        arms = [arm("ours", Answer([1, 2], 0.5, 1)), arm("theirs", Answer([3], 0.25, 1))]
        save(self.folder / "arms.json", arms)
        self.assertEqual(load(self.folder / "arms.json"), arms)


class CompareTest(unittest.TestCase):
    def test_agreement_ends_at_the_first_difference(self):
        reference = arm("theirs", Answer([1, 2, 3, 4], 1, 4), Answer([5, 6, 7, 8], 1, 4))
        self.assertEqual(agreement(reference, reference), 1)
        self.assertEqual(agreement(arm("ours", Answer([1, 9, 3, 4], 1, 4), Answer([5, 6, 7, 8], 1, 4)), reference), 5 / 8)
        self.assertEqual(agreement(arm("short", Answer([1, 2], 1, 2), Answer([], 1, 1)), reference), 2 / 8)

    def test_rounds_hold_every_prompt_once(self):
        prompts = list(range(7))
        for count in (1, 2, 3, 7, 20):
            shares = rounds(prompts, count)
            self.assertEqual([prompt for share in shares for prompt in share], prompts)
            self.assertTrue(all(shares))

    def test_ratios_are_medians_over_prompts(self):
        reference = Arm("theirs", [Answer([1] * 4, 1.0, 4)] * 3)
        ours = Arm("ours", [Answer([1] * 4, seconds, 4) for seconds in (0.5, 0.25, 0.01)])
        self.assertEqual(ratio(ours, reference), 4)
        self.assertEqual(best_ratio([reference, ours], reference), measured(4, "ours relative to theirs"))
        with self.assertRaises(ValueError):
            ratio(ours, Arm("short", [Answer([1], 1.0, 1)]))

    def test_the_table_begins_with_the_reference(self):
        slow = arm("slow", *(Answer([1] * 4, seconds, 4) for seconds in (1, 1, 1)))
        fast = arm("fast", *(Answer([1] * 4, seconds, 2) for seconds in (0.5, 0.25, 0.01)))
        lines = arms_table([fast, slow], slow).splitlines()
        self.assertTrue(lines[2].startswith("| slow | 4.0 | 4.0 | 1.00× | 1.00 | 100 % |"))
        self.assertTrue(lines[3].startswith("| fast | 15.8 | 16.0 | 4.00× | 2.00 | 100 % |"))


if __name__ == "__main__":
    unittest.main()
