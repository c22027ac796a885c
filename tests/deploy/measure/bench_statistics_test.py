"""Tests the statistics on values computed by hand, and on those of the C++ code that computed them before."""

import itertools
import unittest

from bench_statistics import (
    PairedWork,
    bootstrap_ratio,
    jains_index,
    lower_median,
    mersenne_twister,
    pearson,
    quantile,
    rate_ratio,
    spearman,
    total,
)

# Eight prompts: two to three times as fast as the baseline.
PROMPTS = [PairedWork(60, 1.0 + 0.1 * index, 60, 3) for index in range(8)]


class QuantilesTest(unittest.TestCase):
    def test_a_quantile_is_the_nearest_rank(self):
        values = list(range(100, 0, -1))
        self.assertEqual([quantile(values, share) for share in (0.5, 0.99, 1)], [50, 99, 100])
        self.assertEqual([quantile([3, 1, 2], share) for share in (0.5, 0.9)], [2, 3])
        self.assertEqual(quantile([7], 0.01), 7)

    def test_the_median_of_an_even_count_is_the_lower_middle(self):
        self.assertEqual(lower_median([4, 1, 3, 2]), 2)
        self.assertEqual(lower_median([3, 1, 2]), 2)

    def test_fairness_is_one_for_equal_rates(self):
        self.assertEqual(jains_index([2, 2]), 1)
        self.assertEqual(jains_index([1, 3]), 0.8)
        self.assertEqual(jains_index([]), 0)

    def test_sums_are_not_compensated(self):
        self.assertEqual(total([1e16, 1.0, 1.0]), 1e16, "left to right, each 1 is lost")


class CorrelationTest(unittest.TestCase):
    PAIRS = [(1.0, 2.0), (1.5, 2.0), (0.3, 7.0), (2.2, 1.0), (2.2, 4.0)]

    def test_equal_values_share_their_mean_rank(self):
        self.assertEqual(pearson(self.PAIRS), -0.6352910917381337)
        self.assertEqual(spearman(self.PAIRS), -0.52631578947368418)

    def test_a_constant_side_has_no_correlation(self):
        self.assertEqual(pearson([(1, 2), (1, 3)]), 0)
        self.assertEqual(spearman([(1, 2), (1, 3)]), 0)
        self.assertEqual(pearson([(1, 2)]), 0)


class BootstrapTest(unittest.TestCase):
    def test_the_generator_is_that_of_the_cpp_standard(self):
        self.assertEqual(next(itertools.islice(mersenne_twister(5489), 9999, None)), 9981545732273789042)

    def test_the_interval_is_that_of_earlier_reports(self):
        self.assertEqual(bootstrap_ratio(PROMPTS), (1.9999999999999998, 2.5263157894736841))
        uneven = [PairedWork(10 + index, 1 / (1 + index), 20, 0.7 * index + 0.1) for index in range(3)]
        self.assertEqual(bootstrap_ratio(uneven, draws=200, seed=7), (0.05000000000000001, 1.9000000000000004))

    def test_the_interval_contains_the_ratio_and_shrinks_with_more_prompts(self):
        few, many = bootstrap_ratio(PROMPTS), bootstrap_ratio(PROMPTS * 16)
        assert few and many
        self.assertLess(few[0], rate_ratio(PROMPTS))
        self.assertGreater(few[1], rate_ratio(PROMPTS))
        self.assertLess(many[1] - many[0], (few[1] - few[0]) / 2)

    def test_one_prompt_has_no_interval(self):
        self.assertEqual(rate_ratio([PairedWork(20, 1, 10, 1)]), 2)
        self.assertIsNone(bootstrap_ratio([PairedWork(20, 1, 10, 1)]))
        self.assertEqual(rate_ratio([PairedWork(20, 0, 10, 1)]), 0)


if __name__ == "__main__":
    unittest.main()
