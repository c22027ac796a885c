"""Tests the tables and the chart of a drafter's accuracy on hand-made counts."""

import unittest

from accuracy_plots import block_accuracy
from accuracy_tables import accuracy_table, reach

DEPTHS = [
    {"cycles": 4, "offered": 8, "accepted": 3, "reached": 4},
    {"cycles": 4, "offered": 4, "accepted": 1, "reached": 3},
]
ACCURACY = {
    "drafter": "",
    "blocks": [[[4, 3], [2, 1]], [[1, 1], [0, 0]]],
    "buckets": [[6, 2, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
}


class AccuracyTablesTest(unittest.TestCase):
    def test_acceptance_by_depth_counts_cycles_that_came_so_far(self):
        table = reach([{"policy": "ar", "depths": []}, {"policy": "eagle", "depths": DEPTHS}])
        self.assertIn("| eagle | 0.750 | 0.333 |", table)
        self.assertNotIn("| ar |", table)

    def test_blocks_have_shares_and_counts(self):
        table = accuracy_table("blocks", [ACCURACY])
        self.assertIn("the suite's drafter:\n", table)
        self.assertIn("| 1 | 0.750 of 4 | 0.500 of 2 |\n| 2 | 1.000 of 1 | – |\n", table)

    def test_the_rank_head_has_precision_and_recall_for_each_bucket(self):
        table = accuracy_table("ranks", [ACCURACY])
        self.assertIn("10 positions:", table)
        self.assertIn("| rank 1 | 80.0 % | 0.857 | 0.750 | 0.800 |", table)
        self.assertIn("| ranks 2 to 4 | 20.0 % | 0.333 | 0.500 | 0.400 |", table)
        self.assertIn("| beyond 10 | 0.0 % | 0.000 | 0.000 | 0.000 |", table)

    def test_without_counts_there_is_no_table_and_no_chart(self):
        empty = {"drafter": "eagle3", "blocks": [], "buckets": [[0] * 4] * 4}
        self.assertEqual(accuracy_table("blocks", [empty]) + accuracy_table("ranks", [empty]), "")
        self.assertIsNone(block_accuracy([{"accuracies": [empty]}]))


if __name__ == "__main__":
    unittest.main()
