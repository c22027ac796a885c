#!/usr/bin/env python3
"""Converts files of public benchmark sets to prompts for bastion-bench.

    convert_prompts.py DATASET FILE [--out PROMPTS.jsonl] [--count N] [--append] [--no-thinking]

You download FILE; this script downloads nothing. FILE is .json, .jsonl (also gzipped, .gz) or, for wikitext and pg19,
plain text. Run the script once for each dataset and add the later ones with --append:

    convert_prompts.py gsm8k gsm8k/test.jsonl --out prompts.jsonl
    convert_prompts.py mt-bench question.jsonl --out prompts.jsonl --append

A line of the output has "id", "dataset", and "turns" (what the user says, for the chat template) or "text" (plain text,
for models without one). With --no-thinking it also has "template_args": {"enable_thinking": false}, which switches
Qwen3's thinking off. The papers do not print their instructions, so those below are this project's.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MATH = "{}\n\nReason step by step, and put the final answer in \\boxed{{}}."
CODE = "Write Python code that solves this problem:\n\n{}"
LONG = {
    "qasper": "Article:\n{context}\n\nAnswer this question about the article briefly.\n\nQuestion: {input}",
    "multifieldqa_en": "Text:\n{context}\n\nAnswer this question about the text briefly.\n\nQuestion: {input}",
    "gov_report": "Report:\n{context}\n\nSummarize the report in one page.",
    "multi_news": "News:\n{context}\n\nSummarize all news in one page.",
    "triviaqa": "{context}\n\nAnswer the last question like the examples.\n\n{input}",
    "samsum": "{context}\n\nSummarize the last dialogue like the examples.\n\n{input}",
    "passage_retrieval_en": '{context}\n\nName the paragraph that this abstract summarizes, as "Paragraph N".\n\n{input}',
}


class BadFile(Exception):
    """The file is not what the dataset's converter expects."""


def _field(entry: dict, *names: str) -> str:
    """The first of these fields that the entry has."""
    for name in names:
        if isinstance(entry.get(name), str) and entry[name].strip():
            return entry[name].strip()
    raise BadFile(f"an entry has none of the fields {', '.join(names)}; it has {', '.join(entry)}")


def _alpaca(entry: dict) -> list[str]:
    instruction, given = _field(entry, "instruction"), str(entry.get("input", "")).strip()
    return [f"{instruction}\n\n{given}" if given else instruction]


def _mt_bench(entry: dict) -> list[str]:
    turns = entry.get("turns", entry.get("prompt"))
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) for turn in turns):
        raise BadFile("an entry has no list of strings in 'turns'")
    return turns


def _live_code(entry: dict) -> list[str]:
    starter = str(entry.get("starter_code", "")).strip()
    problem = CODE.format(_field(entry, "question_content", "question"))
    return [f"{problem}\n\nBegin with this code:\n\n```python\n{starter}\n```" if starter else problem]


def _swe_bench(entry: dict) -> list[str]:
    return [
        f"This is an issue of the repository {_field(entry, 'repo')}:\n\n{_field(entry, 'problem_statement')}\n\n"
        "Write a patch that resolves it."
    ]


def _long_bench(entry: dict) -> list[str]:
    subset = re.sub(r"_e$", "", str(entry.get("dataset", "")))
    if subset not in LONG:
        raise BadFile(f"the LongBench subset '{subset}' is not one of {', '.join(LONG)}")
    return [LONG[subset].format(context=_field(entry, "context"), input=str(entry.get("input", "")).strip())]


@dataclass(frozen=True)
class Dataset:
    """How to convert an entry. `key`: the field with the entry's id, if it has one."""

    turns: Callable[[dict], list[str]]
    key: str = ""


DATASETS = {
    "gsm8k": Dataset(lambda entry: [MATH.format(_field(entry, "question"))]),
    "math-500": Dataset(lambda entry: [MATH.format(_field(entry, "problem"))], "unique_id"),
    "aime": Dataset(lambda entry: [MATH.format(_field(entry, "problem", "question", "Problem"))], "id"),
    "humaneval": Dataset(
        lambda entry: [f"Complete this Python function:\n\n```python\n{_field(entry, 'prompt')}\n```"], "task_id"
    ),
    "mbpp": Dataset(lambda entry: [CODE.format(_field(entry, "text", "prompt"))], "task_id"),
    "livecodebench": Dataset(_live_code, "question_id"),
    "swe-bench-lite": Dataset(_swe_bench, "instance_id"),
    "mt-bench": Dataset(_mt_bench, "question_id"),
    "alpaca": Dataset(_alpaca),
    "longbench": Dataset(_long_bench, "_id"),
}
TEXT_DATASETS = ("wikitext", "pg19")
MIN_PASSAGE_WORDS = 40


def read_entries(file: Path) -> list[dict]:
    """The objects of a .json or .jsonl file."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8") as stream:
        text = stream.read()
    try:
        whole = json.loads(text)
        entries = whole.get("data", [whole]) if isinstance(whole, dict) else whole
    except json.JSONDecodeError:
        entries = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                entries.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise BadFile(f"line {number} is not JSON ({error.msg})") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise BadFile("it has no JSON objects")
    return entries


def passages(text: str) -> Iterable[str]:
    """The paragraphs of plain text with at least MIN_PASSAGE_WORDS words, without headings."""
    for paragraph in re.split(r"\n\s*\n|\n(?= = )", text):
        paragraph = " ".join(line.strip() for line in paragraph.splitlines() if not line.strip().startswith("= "))
        if len(paragraph.split()) >= MIN_PASSAGE_WORDS:
            yield paragraph


def convert(name: str, file: Path) -> list[dict]:
    """The prompts of one file. The ids begin with the name of the dataset."""
    if name in TEXT_DATASETS:
        return [
            {"id": f"{name}-{index}", "dataset": name, "text": text}
            for index, text in enumerate(passages(file.read_text(encoding="utf-8")))
        ]
    dataset, prompts = DATASETS[name], []
    for index, entry in enumerate(read_entries(file)):
        label = f"{name}-{entry.get('dataset')}" if name == "longbench" else name
        key = str(entry.get(dataset.key, index)) if dataset.key else str(index)
        try:
            prompts.append({"id": f"{label}-{key}", "dataset": label, "turns": dataset.turns(entry)})
        except BadFile as error:
            raise BadFile(f"entry {index}: {error}") from error
    return prompts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=[*DATASETS, *TEXT_DATASETS])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=Path("prompts.jsonl"), help="default: prompts.jsonl")
    parser.add_argument("--count", type=int, default=0, help="use the first prompts only. 0: all. Default: 0")
    parser.add_argument("--append", action="store_true", help="add to the output file instead of replacing it")
    parser.add_argument("--no-thinking", action="store_true", help="switch the thinking of Qwen3's chat template off")
    args = parser.parse_args()
    try:
        prompts = convert(args.dataset, args.file)
        if not prompts:
            raise BadFile("it has no prompts")
    except (OSError, UnicodeDecodeError, BadFile) as error:
        print(f"convert_prompts: {args.file}: {error}", file=sys.stderr)
        return 1
    if args.count > 0:
        prompts = prompts[: args.count]
    if args.no_thinking:
        prompts = [prompt | {"template_args": {"enable_thinking": False}} for prompt in prompts]
    with open(args.out, "a" if args.append else "w", encoding="utf-8") as out:
        out.writelines(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts)
    print(f"{len(prompts)} prompts of {args.dataset} in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
