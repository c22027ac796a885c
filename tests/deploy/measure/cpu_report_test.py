"""Tests the verdicts on the CPU figures and the page that shows the figures. Run by ctest."""

import unittest
from pathlib import Path

import cpu_report
import report
from bars import measured

BAR = {bar.key: bar for bar in cpu_report.BARS}


def section(found=None, why="") -> dict:
    return {
        "measured": found or {},
        "why": why,
        "text": "",
        "quick": True,
        "when": "today",
        "seconds": 1,
        "others": 0.01,
        "numbers": {},
    }


class VerdictTest(unittest.TestCase):
    def test_bars_are_met_missed_or_not_run(self):
        sections = {
            "machine": section({"machine.decode": measured(0.9), "machine.rows4": measured(1.25)}),
            "llama": section(why="not run: no venv"),
        }

        def verdict_of(key: str) -> tuple[str, str]:
            verdict = cpu_report.judge_bar(BAR[key], sections, False)
            return verdict.measured, verdict.outcome

        self.assertEqual(verdict_of("machine.decode"), ("90.0 %", "met"))
        self.assertEqual(verdict_of("machine.rows4"), ("1.25×", "missed"))
        self.assertEqual(verdict_of("machine.rows16"), ("–", "not judged: this CPU has no AMX"))
        self.assertEqual(verdict_of("llama.demo"), ("–", "not run: no venv"))
        self.assertEqual(verdict_of("ddtree.best"), ("–", "not run: its section was not chosen"))
        self.assertEqual(verdict_of("machine.rows8"), ("–", "not run: see its section"))

    def test_a_cpu_with_amx_has_its_own_bars(self):
        sections = {"machine": section({"machine.rows4": measured(9), "machine.rows16": measured(1.1)})}
        self.assertEqual(cpu_report.judge_bar(BAR["machine.rows4"], sections, True).outcome, "not judged: this CPU has AMX")
        self.assertEqual(cpu_report.judge_bar(BAR["machine.rows16"], sections, True).outcome, "met")
        self.assertTrue(cpu_report.all_met(sections, True))
        self.assertFalse(cpu_report.all_met(sections, False))

    def test_bars_are_missed_if_a_section_failed_but_not_if_it_did_not_run(self):
        self.assertTrue(cpu_report.all_met({"llama": section(why="not run: no venv")}, False))
        self.assertFalse(cpu_report.all_met({"llama": section(why="failed: bastion-bench, status 1")}, False))


class PageTest(unittest.TestCase):
    def test_a_busy_machine_is_reported(self):
        self.assertIn("the machine was busy", cpu_report.circumstances(section() | {"others": 0.2}))
        self.assertNotIn("busy", cpu_report.circumstances(section()))

    def test_every_bar_is_in_the_table(self):
        sections = {"demo": section({"demo.host": measured(0.06, "default")})}
        verdicts = cpu_report.judge_all(sections, False)
        table = report.bars_table(verdicts)
        self.assertEqual(len(table.splitlines()), len(cpu_report.BARS) + 2)
        self.assertIn("| ≤ 5.0 % | 6.0 % (default) | **missed** |", table)

    def test_sections_come_in_order_after_bars_and_plots(self):
        sections = {"demo": section(), "machine": section()}
        texts = cpu_report.section_texts(sections, {"machine": "The machine", "int8": "int8", "demo": "Policies"})
        text = "\n\n".join(report.page("Figures", ["a box"], [], [Path("a/ratios.png")], texts))
        parts = [
            "# Figures",
            "a box",
            "| bar |",
            "![ratios](ratios.png)",
            "## The machine",
            "## Policies\n\n`demo`: short run of today, 1 s; other programs used 1 % of the CPUs.",
        ]
        places = [text.index(part) for part in parts]
        self.assertEqual(places, sorted(places))
        self.assertNotIn("## int8", text)


class PlotDataTest(unittest.TestCase):
    def test_each_engine_that_ran_has_a_panel(self):
        sections = {"llama": {"numbers": {"demo": {"bastion ar": 2.0}}}, "ddtree": {"numbers": {"ratios": {"bastion ar": 9.0}}}}
        panels = cpu_report.ratio_panels(sections)
        self.assertEqual(
            [(panel.values, panel.limit) for panel in panels], [({"bastion ar": 2.0}, 1.0), ({"bastion ar": 9.0}, 8.0)]
        )
        self.assertEqual(panels[0].labels, {"bastion ar": "2.00×"})
        self.assertEqual(cpu_report.ratio_panels({}), [])

    def test_rows_of_the_verify_plot_are_numbers(self):
        sections = {"machine": {"numbers": {"demo": {"1": 1.0, "4": 1.5}, "device": "a box"}}}
        self.assertEqual(cpu_report.verify_series(sections), {"demo pair": {1: 1.0, 4: 1.5}})


if __name__ == "__main__":
    unittest.main()
