"""Writes the teacher text as token ids to WORK/teacher_tokens.jsonl, one {"token_ids": […]} per line.

`bastion-train prior` counts them. The transition prior describes the text that the target generates, not the
text of the corpus. So a row begins with the two tokens before the target's first token, as context, and ends
with the useful text.
"""

import json

import torch
from tqdm import tqdm

from demo_training.stage import parse, parser
from demo_training.teacher import shards

CONTEXT = 2  # The prior counts what follows pairs of tokens.


def rows(shard: dict) -> list[list[int]]:
    """For each row, the last CONTEXT tokens of the prefix and the tokens that the target generated."""
    begin = shard["prefix"] - CONTEXT
    return [row[begin:useful].tolist() for row, useful in zip(shard["tokens"], shard["useful"].tolist())]


def main() -> None:
    args = parse(parser(__doc__))
    part = args.work / "teacher_tokens.tmp"
    with open(part, "w", encoding="utf-8") as out:
        for path in tqdm(shards(args.work), desc="teacher tokens", unit="shard"):
            for ids in rows(torch.load(path, weights_only=True, mmap=True)):
                out.write(json.dumps({"token_ids": ids}) + "\n")
    part.rename(args.work / "teacher_tokens.jsonl")


if __name__ == "__main__":
    main()
