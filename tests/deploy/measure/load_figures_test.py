"""Tests the figures of hand-made loads."""

import unittest

from load_figures import Targets, figures, level_name, ratio_to_plain, window
from measured import delivered, level, request, run

CLOSED, OPEN = {"concurrency": 2}, {"rate": 1}
# Concurrency 2, three requests. The first two have their first tokens at 1 and 2 s; the third one replaces the first at 4 s.
# The second ends at 6 s and is not replaced.
RUN = run(
    delivered(0, (1, 1), (2, 1), (4, 2)),
    delivered(0, (2, 1), (3, 1), (6, 3)),
    delivered(4, (5, 1), (6, 2), (9, 4)),
)


class WindowTest(unittest.TestCase):
    def test_a_closed_loop_counts_from_the_last_first_token_to_the_first_end_without_replacement(self):
        self.assertEqual(window(RUN, CLOSED), (2, 6))

    def test_an_open_loop_counts_from_the_first_arrival_to_the_last_end(self):
        self.assertEqual(window(RUN, OPEN), (0, 9))

    def test_a_loop_that_was_never_full_has_none(self):
        self.assertEqual(window(RUN, {"concurrency": 4}), (0, 0))
        self.assertEqual(window(run(), {"concurrency": 1}), (0, 0))
        found = figures([RUN], {"concurrency": 4}, Targets())
        self.assertEqual(found["system_tokens_per_second"], 0)
        self.assertIsNone(found["gap_seconds"])

    def test_a_request_without_output_has_no_first_token(self):
        self.assertEqual(window(run(request("p", [], 1)), {"concurrency": 1}), (0, 1))


class FiguresTest(unittest.TestCase):
    def test_throughput_excludes_warm_up_and_drain(self):
        found = figures([RUN], CLOSED, Targets())
        # After 2 s and until 6 s: 2 tokens of the first request, 4 of the second, 3 of the third.
        self.assertEqual(found["window_seconds"], 4)
        self.assertEqual(found["system_tokens_per_second"], 9 / 4)
        self.assertEqual(found["window_share"], 9 / 16)
        self.assertEqual(found["all_tokens_per_second"], 16 / 9)
        self.assertEqual(found["requests"], 3)

    def test_latencies_of_a_closed_loop_count_in_the_window(self):
        found = figures([RUN], CLOSED, Targets())
        # The gaps 2 (two tokens), 1 (one), 3 (three) and 1 (two tokens).
        self.assertEqual(found["gap_seconds"], {"p50": 1, "p90": 3, "p99": 3})
        self.assertEqual(found["token_seconds"]["p90"], 1, "a gap is divided among the tokens that it brings")
        self.assertEqual(found["ttft_seconds"]["p99"], 1, "only the third request has its first token in the window")

    def test_everything_in_an_open_loop_counts(self):
        found = figures([RUN], OPEN, Targets())
        self.assertEqual([found["ttft_seconds"][key] for key in ("p50", "p99")], [1, 2])
        self.assertEqual(found["gap_seconds"]["p99"], 3)
        self.assertEqual(found["system_tokens_per_second"], 16 / 9)
        self.assertEqual(found["window_share"], 1)

    def test_goodput_counts_requests_that_meet_both_targets(self):
        def goodput(**targets) -> float:
            return figures([RUN], CLOSED, Targets(**targets))["goodput_tokens_per_second"]

        self.assertEqual(goodput(), 9 / 4)
        self.assertEqual(goodput(gap=2), 5 / 4, "the second request has a gap of 3 s")
        self.assertEqual(goodput(gap=1), 3 / 4)
        self.assertEqual(goodput(gap=2, ttft=0.5), 2 / 4, "the third request waits 1 s for its first token")
        self.assertEqual(goodput(gap=0.5), 0)

    def test_fairness_is_jains_index_of_the_rates(self):
        equal = run(delivered(0, (1, 1), (2, 3)), delivered(1, (2, 2), (3, 2)))
        self.assertEqual(figures([equal], OPEN, Targets())["fairness"], 1)
        # Rates 1 and 3: (1 + 3)² / (2·(1 + 9)).
        unequal = run(delivered(0, (1, 1), (2, 1)), delivered(0, (1, 1), (2, 5)))
        self.assertEqual(figures([unequal], OPEN, Targets())["fairness"], 0.8)

    def test_rounds_are_added_up(self):
        found = figures([RUN, RUN | {"rejected": 2}], CLOSED, Targets())
        self.assertEqual((found["requests"], found["rejected"], found["window_seconds"]), (6, 2, 8))
        self.assertEqual(found["system_tokens_per_second"], 9 / 4)


class RatioTest(unittest.TestCase):
    def test_the_ratio_is_the_median_over_the_rounds_with_its_range(self):
        def rounds(*tokens: int) -> list[dict]:
            """Each has one token, then some more in a second."""
            return [run(delivered(0, (1, 1), (2, count))) for count in tokens]

        both = level({"ar": rounds(1, 1, 1), "x": rounds(5, 2, 3)}, concurrency=1)
        self.assertEqual(ratio_to_plain(both["arms"][1], both), {"median": 3, "low": 2, "high": 5})
        alone = level({"x": rounds(5)}, concurrency=1)
        self.assertIsNone(ratio_to_plain(alone["arms"][0], alone))

    def test_levels_are_named_by_their_load(self):
        names = [level_name(each) for each in ({"concurrency": 4}, {"rate": 2.5}, {"arrivals": "f.jsonl"})]
        self.assertEqual(names, ["concurrency 4", "rate 2.5/s", "arrivals in f.jsonl"])


if __name__ == "__main__":
    unittest.main()
