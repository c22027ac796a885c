"""Reference evaluation of the GPT-NeoX pair at T = 0, with an own decode loop for one sequence.

Computes the validation loss of both models, how often their most probable tokens agree, and the mean committed
tokens per cycle (τ) of linear speculation: the drafter proposes K tokens, the target accepts a prefix and adds
one token. Every text is compared with plain greedy decoding.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm

from demo_training.dflash_evaluation import greedy, perplexity
from demo_training.gpt_neox import GptNeox
from demo_training.neox_export import load_drafter, load_target
from demo_training.prompts import CONTINUATION
from demo_training.tokenizer import EOS

LINEAR = 6


class Sequence:
    """One model's cache of one sequence. `feed` runs tokens; `rewind` forgets all rows from position n on."""

    def __init__(self, model: GptNeox, capacity: int):
        self.model, self.caches = model, model.new_caches(1, capacity)

    def feed(self, tokens: list[int]) -> list[int]:
        """The most probable successor of each token."""
        start = self.caches[0].used
        hidden, _ = self.model.hidden(torch.tensor([tokens]), torch.arange(start, start + len(tokens)), self.caches)
        return self.model.head(hidden[0]).argmax(dim=-1).tolist()

    def rewind(self, n: int) -> None:
        for cache in self.caches:
            cache.used = min(cache.used, n)


def draft(drafter: Sequence, committed: list[int], count: int) -> list[int]:
    """`count` greedy tokens after `committed`. Runs the committed tokens that the drafter has not seen."""
    tokens = [drafter.feed(committed[drafter.caches[0].used :])[-1]]
    while len(tokens) < count:
        tokens.append(drafter.feed(tokens[-1:])[0])
    return tokens


@torch.no_grad()
def linear_speculation(models: tuple[GptNeox, GptNeox], prompt: list[int], new: int) -> tuple[list[int], list[int]]:
    """Greedy text of at least `new` ids, cut to `new`, and the committed length of each cycle."""
    target, drafter = (Sequence(model, len(prompt) + new + 2 * LINEAR + 2) for model in models)
    committed = prompt + [target.feed(prompt)[-1]]
    lengths = []
    while len(committed) - len(prompt) < new and EOS not in committed[len(prompt) :]:
        drafted = draft(drafter, committed, LINEAR)
        picks = target.feed(committed[-1:] + drafted)
        accepted = 0
        while accepted < LINEAR and drafted[accepted] == picks[accepted]:
            accepted += 1
        committed += picks[: accepted + 1]
        lengths.append(accepted + 1)
        for sequence in (target, drafter):
            sequence.rewind(len(committed) - 1)
    return committed[len(prompt) :][:new], lengths


@torch.no_grad()
def agreement(models: tuple[GptNeox, GptNeox], texts: list[Tensor], skip: list[int]) -> float:
    """Share of positions where both models' most probable tokens agree, given the same text.

    texts: ids [T]. skip: for each text, how many leading predictions not to count.
    """
    hits, total = 0, 0
    for ids, first in zip(texts, skip):
        best = [model(ids[None, :-1])[0, first:].argmax(dim=-1) for model in models]
        hits, total = hits + int((best[0] == best[1]).sum()), total + len(best[0])
    return hits / total


def validation_windows(work: Path, length: int = 512, count: int = 60) -> list[Tensor]:
    stream = np.load(work / "validation.npy").astype(np.int64)
    starts = np.linspace(0, len(stream) - length - 1, count).astype(int)
    return [torch.from_numpy(stream[s : s + length + 1]) for s in starts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = load_target(args.work), load_drafter(args.work)
    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer" / "tokenizer.json"))
    prompts = [
        tokenizer.encode(json.loads(line)["text"], add_special_tokens=False).ids
        for line in args.prompts.read_text().splitlines()
    ]
    lengths, texts, differing = [], [], 0
    for prompt in tqdm(prompts, desc="evaluate", unit="prompt"):
        plain = greedy(models[0], prompt, CONTINUATION)
        text, cycles = linear_speculation(models, prompt, CONTINUATION)
        differing += text != plain[: len(text)]
        lengths.append(cycles)
        texts.append(plain)
    joined = [torch.tensor(p + t) for p, t in zip(prompts, texts)]
    report = {
        "prompts": len(prompts),
        "new_tokens": CONTINUATION,
        "linear": LINEAR,
        "texts_that_differ": differing,
        "target": perplexity(models[0], args.work),
        "drafter": perplexity(models[1], args.work),
        "agreement_on_greedy_text": agreement(models, joined, [len(p) - 1 for p in prompts]),
        "agreement_on_validation": agreement(models, validation_windows(args.work), [0] * 60),
        "tau": float(np.mean(sum(lengths, []))),
        "tau_by_prompt": [round(float(np.mean(c)), 2) for c in lengths],
    }
    (args.work / "neox_evaluation.json").write_text(json.dumps(report, indent=1))
    print(json.dumps({k: v for k, v in report.items() if k != "tau_by_prompt"}, indent=1))


if __name__ == "__main__":
    main()
