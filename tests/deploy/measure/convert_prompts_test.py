"""Tests the converters of benchmark sets on samples written by hand. Run by ctest."""

import contextlib
import gzip
import io
import json
import sys
from unittest import main, mock

import convert_prompts
from fixtures import FolderTest

SAMPLES = {
    "gsm8k": ({"question": "Two and two?", "answer": "#### 4"}, "gsm8k-0", "Two and two?"),
    "math-500": ({"problem": "1+1", "unique_id": "test/a/1.json"}, "math-500-test/a/1.json", "\\boxed{}"),
    "aime": ({"id": 60, "problem": "Find n."}, "aime-60", "Find n."),
    "humaneval": ({"task_id": "HumanEval/0", "prompt": "def f(x):\n"}, "humaneval-HumanEval/0", "```python\ndef f(x):\n```"),
    "mbpp": ({"task_id": 11, "text": "Remove a character."}, "mbpp-11", "Remove a character."),
    "livecodebench": (
        {"question_id": "q1", "question_content": "Sort.", "starter_code": "class S:"},
        "livecodebench-q1",
        "class S:",
    ),
    "swe-bench-lite": ({"instance_id": "r-1", "repo": "o/r", "problem_statement": "It fails."}, "swe-bench-lite-r-1", "o/r"),
    "alpaca": ({"instruction": "Translate.", "input": "Hallo"}, "alpaca-0", "Translate.\n\nHallo"),
    "longbench": (
        {"_id": "x", "dataset": "qasper", "context": "An article.", "input": "Why?"},
        "longbench-qasper-x",
        "Question: Why?",
    ),
}


class ConvertTest(FolderTest):
    def write(self, content: str, name: str = "file.jsonl"):
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return path

    def run_script(self, *arguments) -> tuple[int, str]:
        errors = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["convert_prompts.py", *map(str, arguments)]),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(errors),
        ):
            return convert_prompts.main(), errors.getvalue()

    def test_every_dataset_converts_its_fields(self):
        for name, (entry, wanted, text) in SAMPLES.items():
            with self.subTest(name):
                (prompt,) = convert_prompts.convert(name, self.write(json.dumps(entry)))
                self.assertEqual(prompt["id"], wanted)
                self.assertIn(text, prompt["turns"][0])
                self.assertEqual(len(prompt["turns"]), 1)
        self.assertEqual(set(SAMPLES) | {"mt-bench"}, set(convert_prompts.DATASETS), "a dataset without a sample")

    def test_mt_bench_keeps_its_turns(self):
        file = self.write('{"question_id": 81, "turns": ["Write.", "Rewrite."]}\n')
        (prompt,) = convert_prompts.convert("mt-bench", file)
        self.assertEqual(prompt, {"id": "mt-bench-81", "dataset": "mt-bench", "turns": ["Write.", "Rewrite."]})

    def test_lists_and_compressed_lines_are_read(self):
        entries = [{"question": "a"}, {"question": "b"}]
        self.assertEqual(len(convert_prompts.convert("gsm8k", self.write(json.dumps(entries), "list.json"))), 2)
        packed = self.folder / "lines.jsonl.gz"
        with gzip.open(packed, "wt") as out:
            out.write("\n".join(map(json.dumps, entries)))
        self.assertEqual([prompt["id"] for prompt in convert_prompts.convert("gsm8k", packed)], ["gsm8k-0", "gsm8k-1"])

    def test_plain_text_becomes_its_long_paragraphs(self):
        long = " ".join(["word"] * 50)
        file = self.write(f" = Heading = \n\n{long}\n\nshort\n\n{long} end\n", "wiki.txt")
        prompts = convert_prompts.convert("wikitext", file)
        self.assertEqual([prompt["text"] for prompt in prompts], [long, f"{long} end"])

    def test_the_file_is_appended_to_and_thinking_is_switched_off(self):
        out = self.folder / "prompts.jsonl"
        math = self.write("\n".join(json.dumps({"question": text}) for text in "abc"))
        self.assertEqual(self.run_script("gsm8k", math, "--out", out, "--count", 2)[0], 0)
        chat = self.write('{"question_id": 1, "turns": ["x"]}', "chat.jsonl")
        self.assertEqual(self.run_script("mt-bench", chat, "--out", out, "--append", "--no-thinking")[0], 0)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual([line["dataset"] for line in lines], ["gsm8k", "gsm8k", "mt-bench"])
        self.assertNotIn("template_args", lines[0])
        self.assertEqual(lines[2]["template_args"], {"enable_thinking": False})

    def test_a_wrong_file_is_an_error_that_names_it(self):
        for name, content, problem in (
            ("gsm8k", '{"text": "x"}', "question"),
            ("gsm8k", "{\n", "line 1"),
            ("gsm8k", "3", "no JSON objects"),
            ("mt-bench", '{"turns": []}', "turns"),
            ("longbench", '{"dataset": "lcc", "context": "c"}', "lcc"),
        ):
            status, errors = self.run_script(name, self.write(content), "--out", self.folder / "out.jsonl")
            self.assertEqual(status, 1)
            self.assertIn("file.jsonl", errors)
            self.assertIn(problem, errors)
        self.assertFalse((self.folder / "out.jsonl").exists())
        self.assertEqual(self.run_script("gsm8k", self.folder / "none.jsonl")[0], 1)


if __name__ == "__main__":
    main()
