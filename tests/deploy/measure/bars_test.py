"""Bars and verdicts. Run by ctest."""

import unittest

from bars import Bar, judge, measured

LEAST = Bar("a.rate", "a rate", 0.85, "%")
MOST = Bar("a.ratio", "a ratio", 1.2, "×", at_most=True)


class BarTest(unittest.TestCase):
    def test_the_limit_itself_is_met(self):
        self.assertTrue(LEAST.is_met(0.85))
        self.assertFalse(LEAST.is_met(0.8499))
        self.assertTrue(MOST.is_met(1.2))
        self.assertFalse(MOST.is_met(1.201))

    def test_units(self):
        self.assertEqual((LEAST.required, MOST.required), ("≥ 85.0 %", "≤ 1.20×"))
        formatted = lambda value: judge(Bar("a", "", 1, "µs"), measured(value)).measured  # noqa: E731
        self.assertEqual([formatted(value) for value in (9, 55, 321)], ["9.00 µs", "55.0 µs", "321 µs"])
        self.assertEqual(Bar("a", "", 0, "", at_most=True).required, "≤ 0")
        self.assertEqual(Bar("a", "", 3, "s").required, "≥ 3.0 s")


class JudgeTest(unittest.TestCase):
    def test_met_and_missed(self):
        self.assertEqual(judge(LEAST, measured(0.9)).outcome, "met")
        missed = judge(MOST, measured(1.25, "fixed:4"))
        self.assertEqual((missed.outcome, missed.measured), ("missed", "1.25× (fixed:4)"))

    def test_nothing_measured(self):
        self.assertEqual(judge(LEAST, None, absent="failed: status 1").outcome, "failed: status 1")
        self.assertEqual((judge(LEAST, None).outcome, judge(LEAST, None).measured), ("not run", "–"))

    def test_an_excluded_bar_is_shown_and_not_judged(self):
        verdict = judge(LEAST, measured(0.1), excluded="no GPU was used")
        self.assertEqual((verdict.measured, verdict.outcome), ("10.0 %", "not judged: no GPU was used"))

    def test_json(self):
        self.assertEqual(judge(LEAST, measured(0.9, "x")).as_json(), {
            "key": "a.rate", "what": "a rate", "required": "≥ 85.0 %", "value": 0.9, "note": "x", "measured": "90.0 % (x)",
            "verdict": "met"})


if __name__ == "__main__":
    unittest.main()
