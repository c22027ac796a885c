"""Picks the prompts of `prompts.jsonl`: pieces of Python files that were held out from training.

A prompt begins at the start of a line and has 40–200 tokens (one of LENGTHS before trimming). A prompt is
good if the target's greedy continuation of CONTINUATION tokens has no end of text and no loop (at least a
share MIN_DISTINCT of its 4-grams is distinct). A loop is too easy for any drafter. Longer continuations of
this small target loop, so measure with at most CONTINUATION tokens. WANTED good prompts are drawn at random, at
most MAX_PER_FILE from one file.
"""

import json
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from demo_training import corpus
from demo_training.export import load
from demo_training.generate import distinct_ratio, generate
from demo_training.language_model import LanguageModel
from demo_training.stage import parse, parser
from demo_training.tokenizer import EOS, token_ids
from demo_training.tokenizer import load as load_tokenizer

CONTINUATION = 64
KIND = "python"
LENGTHS = (48, 72, 104, 144, 192)
MIN_TOKENS, MAX_TOKENS = 40, 200
MIN_DISTINCT = 0.6
MAX_PER_FILE, CANDIDATES_PER_FILE, WANTED = 3, 24, 32
BATCH = 64
# Where a candidate may begin: a definition, a class, an import or a comment.
STARTS = re.compile(r"^(?:def |class |    def |import |from |#)", re.M)


def candidates(document: corpus.Document, tokenizer: Tokenizer, generator: torch.Generator) -> list[str]:
    """Up to CANDIDATES_PER_FILE pieces of a file. A piece may end anywhere, like a prompt."""
    starts = [m.start() for m in STARTS.finditer(document.text)]
    order = torch.randperm(len(starts), generator=generator)[:CANDIDATES_PER_FILE].tolist()
    texts = []
    for start in sorted(starts[i] for i in order):
        wanted = LENGTHS[int(torch.randint(len(LENGTHS), (1,), generator=generator))]
        piece = document.text[start : start + 4000]
        encoding = tokenizer.encode(piece, add_special_tokens=False)
        if len(encoding.ids) <= wanted:
            continue
        text = piece[: encoding.offsets[wanted][0]].rstrip()
        if MIN_TOKENS <= len(token_ids(tokenizer, text)) <= MAX_TOKENS:
            texts.append(text)
    return texts


def continuations(model: LanguageModel, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy continuations of CONTINUATION ids. Prompts of equal length run as one batch."""
    by_length: dict[int, list[int]] = {}
    for index, ids in enumerate(prompts):
        by_length.setdefault(len(ids), []).append(index)
    batches = [group[i : i + BATCH] for group in by_length.values() for i in range(0, len(group), BATCH)]
    out: list[list[int]] = [[] for _ in prompts]
    generator = torch.Generator()
    for group in tqdm(batches, desc="prompts", unit="batch"):
        prefix = torch.tensor([prompts[i] for i in group])
        tokens, _, _ = generate(model, prefix, CONTINUATION, (torch.zeros(len(group)), generator))
        for index, row in zip(group, tokens[:, prefix.shape[1] :].tolist()):
            out[index] = row
    return out


def is_good(continuation: list[int]) -> bool:
    """Whether the continuation makes its prompt good, as the docstring of this module defines it."""
    return EOS not in continuation and distinct_ratio(continuation) >= MIN_DISTINCT


def pick(model: LanguageModel, work: Path) -> tuple[list[dict], dict]:
    """The prompts that are good for this target, as lines of prompts.jsonl, and how many were tried and good."""
    tokenizer = load_tokenizer(work / "tokenizer")
    generator = torch.Generator().manual_seed(11)
    tried = [
        (document, text)
        for document in corpus.load(work, "heldout")
        if document.kind == KIND
        for text in candidates(document, tokenizer, generator)
    ]
    greedy = continuations(model, [token_ids(tokenizer, text) for _, text in tried])
    good = [i for i, continuation in enumerate(greedy) if is_good(continuation)]
    per_file: dict[str, int] = {}
    lines: list[dict] = []
    for draw in torch.randperm(len(good), generator=generator).tolist():
        document, text = tried[good[draw]]
        used = per_file.get(document.path, 0)
        if used < MAX_PER_FILE and len(lines) < WANTED:
            per_file[document.path] = used + 1
            lines.append({"id": f"{len(lines):02d}-{Path(document.path).name.split('.')[0]}", "text": text})
    if not lines:
        raise SystemExit(f"prompts: none of {len(tried)} candidates is good for this target; train it for longer")
    return lines, {"candidates": len(tried), "good": len(good), "chosen": len(lines)}


def main() -> None:
    args = parse(parser(__doc__))
    lines, counts = pick(load(args.work, args.pair.target), args.work)
    (args.out / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (args.work / "prompts.json").write_text(json.dumps(counts))
    print(counts)


if __name__ == "__main__":
    main()
