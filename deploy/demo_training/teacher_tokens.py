"""Writes the teacher text as token ids to WORK/teacher_tokens.jsonl, one {"token_ids": […]} per line.

`bastion-train prior` counts them. The transition prior describes the text that the target generates, not the
text of the corpus. So a row begins with the two tokens before the target's first token, as context, and ends
with the useful text.
"""

import argparse
import json
from pathlib import Path

import torch
from tqdm import tqdm

CONTEXT = 2  # The prior counts what follows pairs of tokens.


def rows(shard: dict) -> list[list[int]]:
    """For each row, the last CONTEXT tokens of the prefix and the tokens that the target generated."""
    begin = shard["prefix"] - CONTEXT
    return [row[begin:useful].tolist() for row, useful in zip(shard["tokens"], shard["useful"].tolist())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    paths = sorted((args.work / "teacher").glob("*.pt"))
    if not paths:
        raise SystemExit(f"teacher_tokens: no teacher text in {args.work / 'teacher'}; run teacher.py first")
    part = args.work / "teacher_tokens.tmp"
    with open(part, "w", encoding="utf-8") as out:
        for path in tqdm(paths, desc="teacher tokens", unit="shard"):
            for ids in rows(torch.load(path, weights_only=True, mmap=True)):
                out.write(json.dumps({"token_ids": ids}) + "\n")
    part.rename(args.work / "teacher_tokens.jsonl")


if __name__ == "__main__":
    main()
