"""Tests how the GPU run chooses steps and handles failures. Run by ctest."""

import contextlib
import io
import unittest
import unittest.mock

import gpu_run
import gpu_steps
from fixtures import FolderTest
from gpu_runner import GpuRun, Pairs
from runner import Failed, NotRun, Stopped


class StepsTest(FolderTest):
    def make_run(self) -> GpuRun:
        return GpuRun(programs=self.folder, raw=self.folder / "raw", pairs=self.folder, device="cuda", quick=True, shape="")

    def run_step(self, error: Exception | None = None, left: float = 5.0) -> dict:
        """Runs a step that is planned for 5 s and raises `error`. Returns its entry. `left`: seconds before its limit."""

        def work(*_):
            if error is not None:
                raise error

        run = self.make_run()
        with contextlib.redirect_stderr(io.StringIO()):
            return gpu_run.run_step(gpu_steps.Step("a", "kernels", 5.0, work), run, Pairs(run), left)

    def test_every_outcome_of_a_step_has_a_status(self):
        self.assertEqual(self.run_step()["status"], "ok")
        self.assertEqual(self.run_step(NotRun("no GPU"))["status"], "not run")
        self.assertEqual(self.run_step(Stopped("late"))["status"], "stopped")
        self.assertEqual(self.run_step(Failed("bad"))["why"], "bad")
        self.assertEqual(self.run_step(ZeroDivisionError("x"))["why"], "ZeroDivisionError('x')")

    def test_a_step_that_does_not_fit_is_skipped_and_named(self):
        entry = self.run_step(left=2.9)
        self.assertEqual((entry["status"], entry["why"]), ("skipped", "it needs about 5 s, and 3 s were left"))
        self.assertEqual(self.run_step(left=-1.0)["why"], "it needs about 5 s, and 0 s were left")
        entry = self.run_step(left=3.1)
        self.assertEqual((entry["status"], entry["planned"], entry["limit"]), ("ok", 5.0, 3.1))

    def test_a_missing_program_is_a_failure(self):
        self.assertRaisesRegex(Failed, "bastion-bench was not packed", self.make_run().program, "bastion-bench")

    def test_a_missing_pair_is_a_failure(self):
        self.assertRaisesRegex(Failed, "8b pair", Pairs(self.make_run()).ready, "8b")

    def test_parts_include_the_pairs_that_they_need(self):
        names = lambda *parts: [step.name for step in gpu_steps.chosen_steps(list(parts))]  # noqa: E731
        self.assertEqual(names("sweep"), ["sweep"])
        self.assertEqual(names("services"), ["pair_8b", "services_demo", "services_8b"])
        self.assertEqual(names("pairs", "decode"), ["pair_8b", "decode_8b", "pair_4b", "decode_4b"])
        self.assertEqual(names("peers"), ["pair_8b", "peers_8b"])
        self.assertEqual(names("chat"), ["chat"], "the chat model needs no grown pair")

    def test_the_steps_fit_into_the_deadline(self):
        self.assertLess(sum(step.seconds for step in gpu_steps.STEPS), gpu_run.DEADLINE)
        self.assertLess(gpu_run.DEADLINE, 540)

    def test_the_plan_names_every_step_and_its_time(self):
        lines = gpu_steps.plan(gpu_steps.STEPS).splitlines()
        self.assertEqual(len(lines), 3 + len(gpu_steps.STEPS))
        self.assertIn("| peers_8b | peers | 62 |", lines)
        self.assertEqual(lines[-1], f"| sum |  | {sum(step.seconds for step in gpu_steps.STEPS):.0f} |")


class PeersStepTest(FolderTest):
    def peers(self, script: str, **settings) -> None:
        """Runs the step with an interpreter that is a shell script."""
        run = GpuRun(programs=self.folder, raw=self.folder, pairs=self.folder, device="cuda", quick=True, shape="", **settings)
        pairs = Pairs(run)
        pairs.folder("8b").mkdir(exist_ok=True)
        (pairs.folder("8b") / "complete").write_text("{}")
        self.script("python", script)
        with unittest.mock.patch("sys.executable", str(self.folder / "python")):
            gpu_steps.peers("8b", run, pairs)

    def test_a_python_without_the_packages_is_no_failure(self):
        with self.assertRaisesRegex(NotRun, "need torch"):
            self.peers("echo they need torch >&2; exit 3")

    def test_a_failure_of_other_code_is_a_failure(self):
        with self.assertRaisesRegex(Failed, "gpu_peers.py, status 1: no memory"):
            self.peers("echo no memory >&2; exit 1")

    def test_the_checkout_of_ddtree_is_named_only_if_there_is_one(self):
        self.peers(f'echo "$@" >{self.folder}/flags')
        self.assertNotIn("--ddtree", (self.folder / "flags").read_text())
        self.peers(f'echo "$@" >{self.folder}/flags', ddtree=self.folder / "theirs")
        flags = (self.folder / "flags").read_text()
        self.assertIn(f"--ddtree {self.folder}/theirs --quick", flags)
        self.assertIn("--device cuda", flags)


if __name__ == "__main__":
    unittest.main()
