"""Tests the plot of training runs."""

import json
import tempfile
import unittest
from pathlib import Path

import training_plot


def write_log(folder: Path, entries: list[dict]) -> None:
    (folder / "training.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def loss(step: int, value: float) -> dict:
    return {"step": step, "seconds": 6.0 * step, "loss": value}


class TrainingPlotTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def test_steps_that_a_resumed_run_repeated_count_once(self):
        tau = {"step": 20, "seconds": 120.0, "tau": {"chain": 2.0, "fixed:16": 3.0}}
        write_log(self.folder, [loss(10, 5), loss(20, 4), tau, loss(20, 3), loss(30, 2), tau])
        losses, judgements = training_plot.read_log(self.folder)
        self.assertEqual([(entry["step"], entry["loss"]) for entry in losses], [(10, 5), (20, 3), (30, 2)])
        self.assertEqual(judgements, [tau])

    def test_the_loss_is_averaged_over_a_twentieth_of_the_run(self):
        losses = [loss(step, float(step % 2)) for step in range(1, 41)]
        minutes, means = zip(*training_plot.smoothed(losses))
        self.assertEqual(means, (0.5,) * 20)
        for place, at in enumerate(minutes):
            self.assertAlmostEqual(at, 0.2 * (place + 1))

    def test_a_figure_has_a_line_for_each_loss_and_each_policy(self):
        tau = {"step": 20, "seconds": 120.0, "tau": {"chain": 2.0, "fixed:16": 3.0}}
        figure = training_plot.draw([("a", [loss(10, 5)], [tau]), ("b", [loss(10, 4)], [])])
        left, right = figure.axes
        self.assertEqual([line.get_label() for line in left.lines], ["a", "b"])
        self.assertEqual([line.get_label() for line in right.lines], ["a chain", "a fixed:16"])

    def test_a_folder_without_a_run_is_named(self):
        with self.assertRaisesRegex(SystemExit, "training.jsonl does not exist"):
            training_plot.read_log(self.folder)


if __name__ == "__main__":
    unittest.main()
