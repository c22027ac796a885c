"""Tests bars (limits that measured numbers must meet) and the verdicts on them. Run by ctest."""

import unittest

from bars import Bar, judge, measured

AT_LEAST = Bar("a.rate", "a rate", 0.85, "%")
AT_MOST = Bar("a.ratio", "a ratio", 1.2, "×", at_most=True)


class BarTest(unittest.TestCase):
    def test_a_value_at_the_limit_meets_the_bar(self):
        self.assertTrue(AT_LEAST.is_met(0.85))
        self.assertFalse(AT_LEAST.is_met(0.8499))
        self.assertTrue(AT_MOST.is_met(1.2))
        self.assertFalse(AT_MOST.is_met(1.201))

    def test_values_are_formatted_by_unit(self):
        self.assertEqual((AT_LEAST.required, AT_MOST.required), ("≥ 85.0 %", "≤ 1.20×"))
        formatted = lambda value: judge(Bar("a", "", 1, "µs"), measured(value)).measured  # noqa: E731
        self.assertEqual([formatted(value) for value in (9, 55, 321)], ["9.00 µs", "55.0 µs", "321 µs"])
        self.assertEqual(Bar("a", "", 0, "", at_most=True).required, "≤ 0")
        self.assertEqual(Bar("a", "", 3, "s").required, "≥ 3.0 s")


class JudgeTest(unittest.TestCase):
    def test_verdicts_are_met_or_missed(self):
        self.assertEqual(judge(AT_LEAST, measured(0.9)).outcome, "met")
        missed = judge(AT_MOST, measured(1.25, "fixed:4"))
        self.assertEqual((missed.outcome, missed.measured), ("missed", "1.25× (fixed:4)"))

    def test_without_a_measurement_the_verdict_says_why(self):
        self.assertEqual(judge(AT_LEAST, None, absent="failed: status 1").outcome, "failed: status 1")
        self.assertEqual((judge(AT_LEAST, None).outcome, judge(AT_LEAST, None).measured), ("not run", "–"))

    def test_an_excluded_bar_is_shown_and_not_judged(self):
        verdict = judge(AT_LEAST, measured(0.1), excluded="no GPU was used")
        self.assertEqual((verdict.measured, verdict.outcome), ("10.0 %", "not judged: no GPU was used"))

    def test_a_verdict_is_written_as_json(self):
        self.assertEqual(
            judge(AT_LEAST, measured(0.9, "x")).as_json(),
            {
                "key": "a.rate",
                "what": "a rate",
                "required": "≥ 85.0 %",
                "value": 0.9,
                "note": "x",
                "measured": "90.0 % (x)",
                "verdict": "met",
            },
        )


if __name__ == "__main__":
    unittest.main()
