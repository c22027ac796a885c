"""What the evaluations of both kinds of drafters share: prompts, plain greedy decoding, perplexity, and the report."""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

from demo_training import tokenizer
from demo_training.generate import generate
from demo_training.language_model import LanguageModel
from demo_training.windows import mean_loss


def prompt_ids(args: argparse.Namespace) -> dict[str, list[int]]:
    """The ids of each prompt, by its name."""
    encoder = tokenizer.load(args.work / "tokenizer")
    lines = map(json.loads, (args.out / "prompts.jsonl").read_text().splitlines())
    return {line["id"]: tokenizer.token_ids(encoder, line["text"]) for line in lines}


@torch.no_grad()
def greedy(model: LanguageModel, prompt: list[int], new: int) -> list[int]:
    """Plain greedy decoding, one token per forward."""
    tokens, _, _ = generate(model, torch.tensor([prompt]), new, (torch.zeros(1), torch.Generator()))
    return tokens[0, len(prompt) :].tolist()


def perplexity(model: LanguageModel, work: Path, length: int = 512, limit: int = 400) -> dict:
    """Nats per token and bits per byte over the validation files, in windows of `length`."""
    stream = torch.from_numpy(np.load(work / "validation.npy").astype(np.int64))
    sizes = json.loads((work / "tokens.json").read_text())["validation"]
    starts = range(0, min(len(stream) - length - 1, limit * length), length)
    nats = mean_loss(model, [stream[start : start + length + 1] for start in starts])
    return {
        "nats_per_token": nats,
        "perplexity": math.exp(nats),
        "bits_per_byte": nats / math.log(2) * sizes["tokens"] / sizes["bytes"],
    }


def mean_length(cycles: list[list[int]]) -> float:
    """Mean committed tokens per cycle (τ) over all cycles of all prompts."""
    return float(np.mean(sum(cycles, [])))


def by_prompt(cycles: list[list[int]]) -> list[float]:
    """The mean committed tokens per cycle of each prompt."""
    return [round(mean_length([lengths]), 2) for lengths in cycles]


def write_report(work: Path, report: dict) -> None:
    """Writes the report for the model card, and prints it without the values of single prompts."""
    (work / "evaluation.json").write_text(json.dumps(report, indent=1))
    print(json.dumps({k: v for k, v in report.items() if k != "tau_by_prompt"}, indent=1))
