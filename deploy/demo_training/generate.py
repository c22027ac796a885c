"""Batched sampling from the target with a key/value cache, and detection of loops in the text."""

import torch
from torch import Tensor

from demo_training.language_model import LanguageModel
from demo_training.tokenizer import EOS

LOOP_WINDOW, LOOP_RATIO = 32, 0.35


def choose(logits: Tensor, temperature: Tensor, generator: torch.Generator) -> Tensor:
    """Next ids [B] from logits [B, V]: argmax if the row's temperature is 0, else a sample (Gumbel-max)."""
    picks = logits.argmax(dim=-1)
    sampled = temperature > 0
    if sampled.any():
        exponential = torch.empty(int(sampled.sum()), logits.shape[1]).exponential_(generator=generator).clamp_(min=1e-20)
        picks[sampled] = (logits[sampled] - temperature[sampled].unsqueeze(1) * exponential.log()).argmax(dim=-1)
    return picks


@torch.no_grad()
def generate(
    model: LanguageModel, prefix: Tensor, count: int, sampling: tuple[Tensor, torch.Generator], taps: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Continues prefix [B, P] by `count` ids, without stopping at the end of text.

    `sampling`: temperatures [B] (0: greedy), and the generator of the noise.

    Returns tokens [B, P + count], final hidden states [B, P + count − 1, C] and features [B, P + count − 1,
    F]. Hidden states and features are fp16 and exclude the last token, which is not run through the model.
    Features are empty without taps.
    """
    caches = model.new_caches(prefix.shape[0], prefix.shape[1] + count)
    tokens, position, hiddens, features = [prefix], 0, [], []
    rows = prefix
    for _ in range(count):
        positions = torch.arange(position, position + rows.shape[1])
        hidden, feature = model.hidden(rows, positions, caches, taps=taps)
        position += rows.shape[1]
        hiddens.append(hidden.half())
        if feature is not None:
            features.append(feature.half())
        rows = choose(model.head(hidden[:, -1]), *sampling).unsqueeze(1)
        tokens.append(rows)
    return torch.cat(tokens, 1), torch.cat(hiddens, 1), torch.cat(features, 1) if taps else torch.empty(0)


def distinct_ratio(ids: list[int]) -> float:
    """Number of distinct 4-grams / number of 4-grams: 1 for text without repetition, near 0 for a loop."""
    grams = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    return len(set(grams)) / len(grams) if grams else 1.0


def useful_length(ids: list[int]) -> int:
    """Number of ids before the text ends or a loop begins.

    A loop is a window of LOOP_WINDOW ids whose distinct_ratio is below LOOP_RATIO.
    """
    end = ids.index(EOS) if EOS in ids else len(ids)
    for start in range(0, end - LOOP_WINDOW + 1, 4):
        if distinct_ratio(ids[start : start + LOOP_WINDOW]) < LOOP_RATIO:
            return start + LOOP_WINDOW // 2
    return end
