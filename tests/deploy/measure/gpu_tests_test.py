"""Tests the step that runs the GPU tests. Shell scripts replace the test programs. Run by ctest."""

import contextlib
import io
import json
import time
import unittest

import gpu_tests
from fixtures import FolderTest, gtest
from gpu_runner import GpuRun, Pairs
from runner import Failed


class KernelsTest(FolderTest):
    def kernels(self, device: str, seconds: float = 10) -> None:
        run = GpuRun(programs=self.folder, raw=self.folder / "raw", pairs=self.folder, device=device, quick=True, shape="")
        run.ends = time.monotonic() + seconds
        with contextlib.redirect_stdout(io.StringIO()):
            gpu_tests.kernels(run, Pairs(run))

    def write_program(self, *kinds: str) -> None:
        """Writes a program whose tests have these results."""
        self.script("cuda_some_test", f"cat <<'END' >${{1#--gtest_output=json:}}\n{json.dumps(gtest(*kinds))}\nEND")

    def test_a_skipped_test_is_a_failure_only_on_a_gpu(self):
        self.write_program("passed", "skipped")
        self.kernels("cpu")
        self.assertRaisesRegex(Failed, "cuda_some_test", self.kernels, "cuda")

    def test_a_failed_test_is_always_a_failure(self):
        self.write_program("passed", "failed")
        self.assertRaisesRegex(Failed, "cuda_some_test", self.kernels, "cpu")

    def test_a_program_that_times_out_has_failed(self):
        self.script("cuda_slow_test", "exec sleep 30")
        self.assertRaisesRegex(Failed, "cuda_slow_test", self.kernels, "cuda", 0.2)
        programs = json.loads((self.folder / "raw/kernels/programs.json").read_text())
        self.assertEqual((programs["cuda_slow_test"]["status"], programs["cuda_slow_test"]["complete"]), (None, False))

    def test_a_pack_without_tests_is_an_error(self):
        self.assertRaisesRegex(Failed, "no cuda_", self.kernels, "cuda")

    def test_the_tests_of_attention_are_split_and_use_one_core_each(self):
        self.script(
            "cuda_kernels_attention_oracle_test",
            'echo "$GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS $OMP_NUM_THREADS" >>"$(dirname "$0")/shards"\n'
            f"cat <<'END' >${{1#--gtest_output=json:}}\n{json.dumps(gtest('passed'))}\nEND",
        )
        self.kernels("cuda", 60)
        lines = sorted((self.folder / "shards").read_text().split("\n"))[1:]
        self.assertGreaterEqual(len(lines), 8)
        self.assertEqual(lines, sorted(f"{index}/{len(lines)} 1" for index in range(len(lines))))

    def test_shards_are_merged_into_one_program(self):
        ends: list[dict] = [
            {"status": 0, "complete": True, "seconds": 1, "passed": 3, "failed": 0, "skipped": 1, "names": ["a"]},
            {"status": None, "complete": False, "seconds": 9},
        ]
        self.assertEqual(
            gpu_tests.one_program(ends),
            {"status": None, "complete": False, "seconds": 9, "names": ["a"], "passed": 3, "failed": 0, "skipped": 1},
        )
        self.assertEqual(gpu_tests.one_program(ends[:1])["status"], 0)


if __name__ == "__main__":
    unittest.main()
