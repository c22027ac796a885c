"""Tests what the charts of loads show. Needs matplotlib. Run by ctest with build/venv/bin/python."""

import unittest

import load_plots
from chart_style import save
from fixtures import FolderTest


def arm(policy: str, rate: float, ratio: float | None, milliseconds: float) -> dict:
    """An arm of a level. Its p99 is three times its p50."""
    times = {"p50": milliseconds / 1e3, "p99": 3 * milliseconds / 1e3}
    return {
        "policy": policy,
        "requests": 4,
        "seconds": 2,
        "system_tokens_per_second": rate,
        "all_tokens_per_second": rate,
        "gap_seconds": times,
        "ttft_seconds": times,
        "ratio_to_ar": ratio and {"median": ratio, "low": ratio - 0.1, "high": ratio + 0.2},
    }


CLOSED = [
    {"concurrency": 4, "arms": [arm("ar", 30, 1, 4), arm("default", 45, 1.5, 3)]},
    {"concurrency": 1, "arms": [arm("ar", 10, 1, 2), arm("default", 20, 2, 1)]},
]
OPEN = [
    {"rate": 1, "arms": [arm("ar", 10, 1, 2), arm("default", 10, 1, 1)]},
    {"rate": 8, "arms": [arm("ar", 30, 1, 90), arm("default", 40, 1.3, 50)]},
]


def labels(axes) -> dict[str, float]:
    """The heights of the names right of the axes."""
    return {text.get_text(): text.get_position()[1] for text in axes.texts if text.get_text() in ("ar", "default")}


class LoadChartsTest(FolderTest):
    def test_throughput_is_relative_to_plain_decoding_with_its_range(self):
        (axes,) = load_plots.throughput_chart(CLOSED).axes
        (line,) = [container.lines[0] for container in axes.containers]
        self.assertEqual(list(line.get_ydata()), [2, 1.5], "the levels are in ascending order")
        bars = [segment[:, 1].tolist() for segment in axes.containers[0].lines[2][0].get_segments()]
        self.assertEqual(bars, [[1.9, 2.2], [1.4, 1.7]])
        self.assertEqual([tick.get_text() for tick in axes.get_xticklabels()], ["1", "4"])
        self.assertEqual(list(labels(axes)), ["default"])

    def test_gaps_have_a_panel_per_quantile(self):
        median, tail = load_plots.gaps_chart(CLOSED).axes
        self.assertEqual([list(line.get_ydata()) for line in median.lines], [[2, 4], [1, 3]])
        self.assertEqual([list(line.get_ydata()) for line in tail.lines], [[6, 12], [3, 9]])
        self.assertEqual(median.get_ylim(), tail.get_ylim())

    def test_an_open_loop_shows_throughput_beside_the_offered_load_and_the_wait(self):
        throughput, wait = load_plots.rate_chart(OPEN).axes
        self.assertEqual([list(line.get_ydata()) for line in throughput.lines], [[10, 30], [10, 40], [5, 8 * 17.5]])
        self.assertLess(throughput.get_ylim()[1], 50, "the offered load may leave the axes")
        self.assertEqual([list(line.get_ydata()) for line in wait.lines], [[2, 90], [1, 50]])

    def test_names_do_not_overlap(self):
        close = [level | {"arms": [arm("ar", 10, 1, 2), arm("default", 10, 1, 2)]} for level in CLOSED]
        for axes in load_plots.gaps_chart(close).axes:
            heights = labels(axes)
            self.assertAlmostEqual(heights["default"] - heights["ar"], load_plots.LABEL_HEIGHT)

    def test_levels_without_a_value_are_left_out(self):
        empty = {"concurrency": 8, "arms": [arm("ar", 30, 1, 4) | {"gap_seconds": None}]}
        axes = load_plots.gaps_chart([*CLOSED, empty]).axes[0]
        self.assertEqual([list(line.get_xdata()) for line in axes.lines], [[1, 4], [1, 4]])

    def test_without_several_levels_there_is_no_chart(self):
        self.assertEqual(set(load_plots.load_charts({}).values()), {None})
        self.assertEqual(set(load_plots.load_charts({"levels": [CLOSED[0], OPEN[0]]}).values()), {None})
        plain = [{"concurrency": count, "arms": [arm("ar", 10, 1, 2)]} for count in (1, 2)]
        self.assertIsNone(load_plots.throughput_chart(plain))
        self.assertIsNone(
            load_plots.throughput_chart([{"concurrency": count, "arms": [arm("default", 10, None, 2)]} for count in (1, 2)])
        )

    def test_every_chart_is_written(self):
        paths = save(load_plots.load_charts({"levels": CLOSED + OPEN}), self.folder, "a title")
        self.assertEqual([path.name for path in paths], ["throughput.png", "gaps.png", "arrival_rate.png"])
        for path in paths:
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
