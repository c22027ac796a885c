"""Tests the code that the comparison scripts share. Run by ctest."""

import contextlib
import io
import json
import unittest

from arms import Arm
from compare_common import Bastion, Prompt, make_parser, save_report, take_turns
from fixtures import FolderTest, policy, results
from runner import Runner


class CompareCommonTest(FolderTest):
    def test_both_engines_answer_each_share_of_the_prompts_in_alternating_order(self):
        args, calls = make_parser("")[0].parse_args(["--rounds", "2"]), []
        turns = [lambda share: calls.append(("ours", share)), lambda share: calls.append(("theirs", share))]
        with contextlib.redirect_stderr(io.StringIO()):
            take_turns(args, [Prompt("a", [1]), Prompt("b", [2]), Prompt("c", [3])], turns)
        self.assertEqual([side for side, _ in calls], ["ours", "theirs", "theirs", "ours"])
        self.assertEqual([[prompt.id for prompt in share] for _, share in calls], [["a"], ["a"], ["b", "c"], ["b", "c"]])

    def test_bastion_bench_gets_the_prompts_and_policies(self):
        (self.folder / "canned.json").write_text(json.dumps(results(policy("ar", 2, [7, 8]))))
        self.script("bastion-bench", 'echo "$@" >"$4/arguments"; cp "$4/../../canned.json" "$4/results.json"')
        args = make_parser("")[0].parse_args(["--policies", "ar", "--threads", "3"])
        bastion = Bastion(args, Runner(programs=self.folder, raw=self.folder / "raw"))
        bastion.answer([Prompt("a", [5, 6])], "bastion services", "unix:///x.sock")
        self.assertEqual(bastion.arms["bastion services ar"].answers[0].tokens, [7, 8])
        self.assertEqual(json.loads((self.folder / "raw/bench/prompts.jsonl").read_text()), {"id": "a", "token_ids": [5, 6]})
        arguments = (self.folder / "raw/bench/arguments").read_text()
        for flags in ("--policies ar", "--threads 3", "--ignore_eos", "--endpoint unix:///x.sock", "--temperature 0"):
            self.assertIn(flags, arguments)

    def test_a_report_is_written_if_requested(self):
        parser, _ = make_parser("")
        save_report(parser.parse_args([]), [Arm("x")])
        save_report(parser.parse_args(["--report", str(self.folder / "r.json")]), [Arm("x")])
        self.assertEqual(json.loads((self.folder / "r.json").read_text()), [{"name": "x", "answers": []}])


if __name__ == "__main__":
    unittest.main()
