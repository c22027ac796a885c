"""Tests how programs are run, timed and stopped. Shell scripts replace bastion's programs. Run by ctest."""

import json
import os
import time
import unittest
from pathlib import Path

from fixtures import FolderTest, policy, results
from runner import Failed, NotRun, Runner, ServiceSettings, Stopped


class RunnerTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.run_ = Runner(programs=self.folder, raw=self.folder / "raw")
        self.addCleanup(self.run_.stop_all)

    def await_line(self, name: str) -> str:
        """Waits for the line that a script writes to a file, and returns it."""
        path, deadline = self.folder / name, time.monotonic() + 10
        while not path.exists() or not path.read_text().endswith("\n"):
            self.assertLess(time.monotonic(), deadline, f"{name} was not written")
            time.sleep(0.01)
        return path.read_text().strip()


class ProgramsTest(RunnerTest):
    def test_a_program_that_takes_too_long_is_stopped(self):
        self.run_.ends = time.monotonic() + 0.2
        began = time.monotonic()
        with self.assertRaises(Stopped):
            self.run_.command("sleep", ["sleep", "30"])
        self.assertLess(time.monotonic() - began, 10)

    def test_a_failure_quotes_the_last_line(self):
        with self.assertRaisesRegex(Failed, "sh, status 3: broken"):
            self.run_.command("sh", ["sh", "-c", "echo fine; echo broken >&2; exit 3"])
        with self.assertRaisesRegex(Failed, "sh, status 4: only stdout"):
            self.run_.output("sh", ["sh", "-c", "echo only stdout; exit 4"])
        with self.assertRaisesRegex(Failed, "killed, perhaps for lack of memory"):
            self.run_.command("sh", ["sh", "-c", "kill -9 $$"])

    def test_output_is_only_stdout(self):
        self.assertEqual(self.run_.output("sh", ["sh", "-c", "echo out; echo err >&2"]), "out\n")
        self.assertEqual((self.folder / "raw/sh.log").read_text(), "err\n")

    def test_a_missing_program_says_what_to_do(self):
        with self.assertRaisesRegex(NotRun, "run deploy/local/build.sh"):
            self.run_.program("bastion-bench")

    def test_stop_also_ends_child_processes(self):
        process = self.run_.start("sh", ["sh", "-c", f"sleep 30 & echo $! >{self.folder}/child; wait"])
        child = Path("/proc") / self.await_line("child") / "stat"
        self.assertTrue(child.exists())
        self.run_.stop(process)
        deadline = time.monotonic() + 10
        while child.exists() and " Z " not in child.read_text():  # Z: a zombie, which init has not reaped yet.
            self.assertLess(time.monotonic(), deadline, "the child is still running")
            time.sleep(0.01)


class BenchTest(RunnerTest):
    def bench(self, exact: bool = True) -> dict:
        return self.run_.bench("b", ['{"id": "one"}'], ["--policies", "ar"], exact)

    def canned_bench(self, tokens: list[int], status: int) -> None:
        """Writes a bastion-bench whose policy `default` generates `tokens`."""
        (self.folder / "canned.json").write_text(json.dumps(results(policy("ar", 1, [1]), policy("default", 1, tokens))))
        self.script("bastion-bench", f'cp "$4/../../canned.json" "$4/results.json"; exit {status}')

    def test_bench_returns_its_results(self):
        self.canned_bench([1], 0)
        self.assertEqual(len(self.bench()["policies"]), 2)
        self.assertEqual((self.folder / "raw/b/prompts.jsonl").read_text(), '{"id": "one"}\n')

    def test_differing_texts_are_a_failure_only_if_exact(self):
        self.canned_bench([2], 1)  # bastion-bench itself exits with an error if texts differ.
        with self.assertRaisesRegex(Failed, "texts differ .*default: 1"):
            self.bench()
        self.assertEqual(self.bench(exact=False)["policies"][1]["policy"], "default")

    def test_bench_allows_differing_texts_only_if_not_exact(self):
        self.canned_bench([1], 0)
        self.script("bastion-bench", f'cp "$4/../../canned.json" "$4/results.json"; echo "$@" >{self.folder}/flags')
        self.bench()
        self.assertNotIn("--texts_may_differ", (self.folder / "flags").read_text())
        self.bench(exact=False)
        self.assertIn("--policies ar --texts_may_differ", (self.folder / "flags").read_text())

    def test_a_bench_that_failed_does_not_return_older_results(self):
        self.canned_bench([2], 1)
        self.bench(exact=False)
        self.script("bastion-bench", "echo no model >&2; exit 1")
        with self.assertRaisesRegex(Failed, "bastion-bench, status 1: no model"):
            self.bench(exact=False)

    def test_an_error_after_the_results_is_a_failure(self):
        self.canned_bench([1], 1)
        with self.assertRaisesRegex(Failed, "bastion-bench, status 1"):
            self.bench(exact=False)


class ServicesTest(RunnerTest):
    def setUp(self):
        super().setUp()
        for name in ("verifier", "drafter", "orchestrator"):
            self.script(f"bastion-{name}", f'echo "$@" >{self.folder}/{name}.flags; exec sleep 30')
        self.script("bastionctl", f"test -f {self.folder}/orchestrator.flags")
        self.settings = ServiceSettings(self.folder / "t", self.folder / "d", ["--threads", 2], shared_memory=True)

    def test_services_are_connected_to_each_other_and_stopped(self):
        with self.run_.services("s", self.settings) as endpoint:
            alive = list(self.run_._alive)
            self.assertEqual(len(alive), 3)
            self.assertTrue(endpoint.startswith("unix://") and endpoint.endswith("/orchestrator.sock"))
            sockets = endpoint.removeprefix("unix://").removesuffix("/orchestrator.sock")
            self.assertIn(f"--shared_memory {sockets}/shm", self.await_line("verifier.flags"))
            self.assertIn(f"--verifier unix://{sockets}/verifier.sock", self.await_line("drafter.flags"))
            flags = self.await_line("orchestrator.flags")
            self.assertIn(f"--listen {endpoint}", flags)
            self.assertIn(f"--verifier unix://{sockets}/verifier.sock --drafter unix://{sockets}/drafter.sock", flags)
            self.assertNotIn("--prior", flags, "the drafter's folder has no prior")
        self.assertTrue(all(process.poll() is not None for process in alive))
        self.assertFalse(os.path.exists(sockets))

    def test_a_service_that_ends_early_is_named(self):
        self.script("bastion-drafter", "echo bad model >&2; exit 1")
        self.script("bastionctl", "exit 1")
        with self.assertRaisesRegex(Failed, "bastion-drafter, status 1: bad model"):
            with self.run_.services("s", self.settings):
                self.fail("the services cannot be ready")
        self.assertEqual(self.run_._alive, [])

    def test_services_stop_at_the_deadline(self):
        self.script("bastionctl", "exit 1")
        self.run_.ends = time.monotonic() + 0.3
        with self.assertRaises(Stopped), self.run_.services("s", self.settings):
            self.fail("the services cannot be ready")
        self.assertEqual(self.run_._alive, [])


if __name__ == "__main__":
    unittest.main()
