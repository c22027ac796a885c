"""Tests how the sections of the CPU figures compute values from raw output. Run by ctest."""

import unittest

import cpu_sections
from bars import measured
from cpu_report import BARS
from fixtures import forward

ROWS = [
    {"policy": "ar", "share": 1.0, "host": 0.01},
    {"policy": "fixed:4", "share": 0.9, "host": 0.1},
    {"policy": "adaptive", "share": 0.5, "host": 0.05},
]


class SectionsTest(unittest.TestCase):
    def test_bars_use_the_value_of_the_worst_policy(self):
        self.assertEqual(cpu_sections.lowest_share(ROWS), measured(0.5, "adaptive"))
        self.assertEqual(cpu_sections.largest_host(ROWS), measured(0.1, "fixed:4"))

    def test_roofline_bars_use_the_forwards_of_the_target(self):
        roofline = {"forwards": [forward(1, 0.01, 256), forward(4, 0.0125, 256), {**forward(8, 0.2, 256), "forward": "draft"}]}
        found = cpu_sections.roofline_bars(roofline)
        self.assertEqual(found["machine.decode"], measured(0.5))
        self.assertEqual(found["machine.rows4"], measured(1.25))
        self.assertNotIn("machine.rows8", found, "the forward with 8 rows is the drafter's")

    def test_a_roofline_without_the_forward_of_one_row_has_no_bars(self):
        self.assertEqual(cpu_sections.roofline_bars({"forwards": [forward(4, 0.0125, 256)]}), {})

    def test_every_bar_belongs_to_a_section(self):
        self.assertLessEqual({bar.key.split(".")[0] for bar in BARS}, set(cpu_sections.SECTIONS))


if __name__ == "__main__":
    unittest.main()
