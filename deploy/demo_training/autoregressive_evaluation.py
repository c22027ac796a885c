"""Reference evaluation of an autoregressive drafter at T = 0, with its own decode loop for one sequence.

Computes the validation loss of both models, how often their most probable tokens agree, and the mean committed
tokens per cycle (τ) of linear speculation: the drafter proposes K tokens, the target accepts a prefix and adds
one token. Every text is compared with plain greedy decoding.
"""

import torch
from torch import Tensor
from tqdm import tqdm

from demo_training.evaluation import by_prompt, greedy, mean_length, perplexity, prompt_ids, write_report
from demo_training.export import load
from demo_training.language_model import LanguageModel
from demo_training.prompts import CONTINUATION
from demo_training.stage import parse, parser
from demo_training.tokenizer import EOS
from demo_training.windows import validation_windows

LINEAR = 6


class Sequence:
    """One model's cache of one sequence. `feed` runs tokens; `rewind` forgets all rows from position n on."""

    def __init__(self, model: LanguageModel, capacity: int):
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
def linear_speculation(models: tuple[LanguageModel, LanguageModel], prompt: list[int], new: int) -> tuple[list[int], list[int]]:
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
def agreement(models: tuple[LanguageModel, LanguageModel], texts: list[Tensor], skip: list[int]) -> float:
    """Share of positions where both models' most probable tokens agree, given the same text.

    texts: ids [T]. skip: for each text, how many leading predictions not to count.
    """
    hits, total = 0, 0
    for ids, first in zip(texts, skip):
        best = [model(ids[None, :-1])[0, first:].argmax(dim=-1) for model in models]
        hits, total = hits + int((best[0] == best[1]).sum()), total + len(best[0])
    return hits / total


def main() -> None:
    args = parse(parser(__doc__))
    models: tuple[LanguageModel, LanguageModel] = load(args.work, args.pair.target), load(args.work, args.pair.drafter)
    prompts = list(prompt_ids(args).values())
    lengths, texts, differing = [], [], 0
    for prompt in tqdm(prompts, desc="evaluate", unit="prompt"):
        plain = greedy(models[0], prompt, CONTINUATION)
        text, cycles = linear_speculation(models, prompt, CONTINUATION)
        differing += text != plain[: len(text)]
        lengths.append(cycles)
        texts.append(torch.tensor(prompt + plain))
    windows = validation_windows(args.work, 60)
    report = {
        "prompts": len(prompts),
        "new_tokens": CONTINUATION,
        "linear": LINEAR,
        "texts_that_differ": differing,
        "target": perplexity(models[0], args.work),
        "drafter": perplexity(models[1], args.work),
        "agreement_on_greedy_text": agreement(models, texts, [len(p) - 1 for p in prompts]),
        "agreement_on_validation": agreement(models, windows, [0] * len(windows)),
        "tau": mean_length(lengths),
        "tau_by_prompt": by_prompt(lengths),
    }
    write_report(args.work, report)


if __name__ == "__main__":
    main()
