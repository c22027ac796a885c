"""Tests what the charts show and which files are written. Needs matplotlib. Run by ctest with build/venv/bin/python."""

import unittest

import plots
from fixtures import FolderTest, policy, results
from program_output import policies

RESULTS = results(policy("ar", 10, [1, 2, 3], [1, 1, 1]), policy("default", 25, [1, 2, 3], [2, 1]))


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


class ChartsTest(FolderTest):
    def test_each_name_has_a_bar_with_a_label(self):
        panel = plots.BarPanel(
            "a title",
            {"bastion ar": 1.5, "bastion services default": 3.0},
            {"bastion ar": "1.50×", "bastion services default": "3.00×"},
            baseline=1.0,
            limit=4.0,
        )
        (axes,) = plots.bar_chart([panel]).axes
        self.assertEqual([bar.get_width() for bar in axes.patches], [3.0, 1.5], "the first name is on top")
        self.assertEqual([text.get_text() for text in axes.texts], ["3.00×", "1.50×"])
        self.assertEqual([line.get_xdata()[0] for line in axes.lines], [1.0, 4.0])
        self.assertGreater(axes.get_xlim()[1], 4.0, "the limit is inside the axes")
        self.assertEqual(axes.get_title("left"), "a title")
        self.assertNotEqual(axes.patches[0].get_facecolor(), axes.patches[1].get_facecolor())

    def test_the_verify_chart_has_a_line_per_pair_and_the_limits(self):
        (axes,) = plots.verify_chart(
            {"inflated pair": {1: 1.0, 4: 1.2}, "demo pair": {1: 1.0, 4: 1.5}, "none": {}}, {4: 1.3}, "at most"
        ).axes
        self.assertEqual([list(line.get_ydata()) for line in axes.lines], [[1.0, 1.2], [1.0, 1.5]])
        self.assertEqual(legend(axes), ["inflated pair", "demo pair", "at most"])
        self.assertEqual(axes.collections[0].get_offsets().tolist(), [[4.0, 1.3]])
        self.assertEqual(
            [text.get_text() for text in axes.texts], ["1.20×"], "only the first line has labels, at limits and at its end"
        )
        self.assertLess(axes.get_ylim()[0], 1.0)
        self.assertGreater(axes.get_ylim()[1], 1.5)

    def test_committed_lengths_are_shown_in_percent_of_cycles(self):
        (axes,) = plots.committed_length_chart(RESULTS).axes
        self.assertEqual([list(line.get_ydata()) for line in axes.lines], [[50.0, 50.0]], "plain decoding has no line")

    def test_stages_are_stacked(self):
        (axes,) = plots.stages_chart(policies(RESULTS)).axes
        ends = [patch.get_x() + patch.get_width() for patch in axes.patches[-2:]]
        whole = [sum(row[stage] for stage in plots.STAGES) for row in policies(RESULTS)]
        for end, milliseconds in zip(ends, whole):
            self.assertAlmostEqual(end, milliseconds)

    def test_without_data_there_is_no_chart(self):
        self.assertIsNone(plots.bar_chart([]))
        self.assertIsNone(plots.verify_chart({"pair": {}}, {4: 1.2}, ""))
        plain = results(policy("ar", 10, [1, 2], [1, 1]) | {"verify_trace": []})
        self.assertIsNone(plots.committed_length_chart(plain))
        self.assertIsNone(plots.verify_time_chart(plain))

    def test_a_bench_report_has_four_plots(self):
        paths = plots.draw_bench_report(RESULTS, self.folder)
        self.assertEqual(
            [path.name for path in paths], ["tokens_per_second.png", "committed_length.png", "verify_time.png", "stages.png"]
        )
        for path in paths:
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_a_bench_report_needs_no_plain_decoding(self):
        paths = plots.draw_bench_report(results(policy("default", 25, [1, 2, 3], [2, 1])), self.folder)
        self.assertEqual(len(paths), 4)


if __name__ == "__main__":
    unittest.main()
