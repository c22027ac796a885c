"""Tests how the GPU run chooses steps and handles failures. Run by ctest."""

import contextlib
import io
import unittest

import gpu_run
import gpu_steps
from fixtures import FolderTest
from gpu_runner import GpuRun, Pairs
from runner import Failed, NotRun, Stopped


class StepsTest(FolderTest):
    def make_run(self) -> GpuRun:
        return GpuRun(programs=self.folder, raw=self.folder / "raw", pairs=self.folder, device="cuda", quick=True, shape="")

    def run_step(self, error: Exception | None = None, seconds: float = 5.0) -> dict:
        """Runs a step that raises `error` and returns its entry."""

        def work(*_):
            if error is not None:
                raise error

        run = self.make_run()
        with contextlib.redirect_stderr(io.StringIO()):
            return gpu_run.run_step(gpu_steps.Step("a", "kernels", seconds, work), run, Pairs(run), seconds)

    def test_every_outcome_of_a_step_has_a_status(self):
        self.assertEqual(self.run_step()["status"], "ok")
        self.assertEqual(self.run_step(NotRun("no GPU"))["status"], "not run")
        self.assertEqual(self.run_step(Stopped("late"))["status"], "stopped")
        self.assertEqual(self.run_step(Failed("bad"))["why"], "bad")
        self.assertEqual(self.run_step(ZeroDivisionError("x"))["why"], "ZeroDivisionError('x')")
        self.assertEqual(self.run_step(seconds=1.0)["status"], "skipped")

    def test_a_missing_program_is_a_failure(self):
        self.assertRaisesRegex(Failed, "bastion-bench was not packed", self.make_run().program, "bastion-bench")

    def test_a_missing_pair_is_a_failure(self):
        self.assertRaisesRegex(Failed, "8b pair", Pairs(self.make_run()).ready, "8b")

    def test_parts_include_the_pairs_that_they_need(self):
        names = lambda *parts: [step.name for step in gpu_steps.chosen_steps(list(parts))]  # noqa: E731
        self.assertEqual(names("sweep"), ["sweep"])
        self.assertEqual(names("services"), ["pair_8b", "services_demo", "services_8b"])
        self.assertEqual(names("pairs", "decode"), ["pair_8b", "decode_8b", "pair_4b", "decode_4b"])

    def test_the_steps_fit_into_the_deadline(self):
        self.assertLess(sum(step.seconds for step in gpu_steps.STEPS), gpu_run.DEADLINE)
        self.assertLess(gpu_run.DEADLINE, 540)


if __name__ == "__main__":
    unittest.main()
