"""Writes the model card, the README.md next to target/ and drafter/, from the results of the stages.

The text of each pair is in a module of its own: TEMPLATE, EXACTNESS (what card.exactness says) and values().
"""

import argparse
import json
from pathlib import Path

import torch

from demo_training import demo_card, neox_card, teacher
from demo_training.prompts import CONTINUATION, MIN_DISTINCT
from demo_training.stage import parse, parser

CARDS = {"demo": demo_card, "neox": neox_card}


def exactness(evaluation: dict, subjects: tuple[str, str]) -> str:
    """The result of comparing the texts. `subjects`: the texts that are equal; the text that differs."""
    differ = evaluation["texts_that_differ"]
    if differ == 0:
        return f"{subjects[0]} of plain greedy decoding, token for token."
    return f"On {differ} prompts, {subjects[1]} of plain greedy decoding (near ties)."


def teacher_tokens(work: Path) -> tuple[int, int]:
    """The tokens of the teacher text that come from the corpus, and those that the target generated."""
    corpus, generated = 0, 0
    for path in teacher.shards(work):
        shard = torch.load(path, weights_only=True, mmap=True)
        corpus += shard["prefix"] * len(shard["useful"])
        generated += int((shard["useful"] - shard["prefix"]).sum())
    return corpus, generated


def model_values(args: argparse.Namespace, name: str, losses: dict) -> dict:
    """Sizes, training and losses of one model."""
    config = json.loads((args.out / name / "config.json").read_text())
    state = torch.load(args.work / f"{name}.pt", weights_only=True)
    values = {
        "config": config,
        "layers": config["num_hidden_layers"],
        "hidden": config["hidden_size"],
        "ffn": config["intermediate_size"],
        "heads": config["num_attention_heads"],
        "head": config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]),
        "millions": sum(t.numel() for t in state["model"].values()) / 1e6,
        "mb": (args.out / name / "model.safetensors").stat().st_size / 1e6,
        "tokens": state["counters"]["tokens"] / 1e6,
        "minutes": state["counters"]["seconds"] / 60,
        "steps": state["counters"]["step"],
        "nats": losses.get("nats_per_token"),
        "perplexity": losses.get("perplexity"),
        "bits": losses.get("bits_per_byte"),
    }
    return {f"{name}_{key}": value for key, value in values.items()}


def shared_values(args: argparse.Namespace, evaluation: dict, subjects: tuple[str, str]) -> dict:
    """The values that both templates use."""
    corpus, generated = teacher_tokens(args.work)
    return {
        **model_values(args, "target", evaluation["target"]),
        **model_values(args, "drafter", evaluation.get("drafter", {})),
        **json.loads((args.work / "prompts.json").read_text()),
        "prompts": evaluation["prompts"],
        "new_tokens": evaluation["new_tokens"],
        "exactness": exactness(evaluation, subjects),
        "continuation": CONTINUATION,
        "min_distinct": 100 * MIN_DISTINCT,
        "teacher_corpus": corpus / 1e6,
        "teacher_generated": generated / 1e6,
        "temperature": teacher.TEMPERATURE,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--teacher-minutes", type=float, help="duration of the stage teacher. Default: the pair's")
    options.add_argument("--notes", default="", help="a paragraph to add at the end")
    args = parse(options)
    card = CARDS[args.pair.name]
    evaluation = json.loads((args.work / "evaluation.json").read_text())
    values = shared_values(args, evaluation, card.EXACTNESS)
    notes = f"\n{args.notes}\n" if args.notes else ""
    text = card.TEMPLATE.format(**values, **card.values(args, evaluation, values))
    (args.out / "README.md").write_text(text + notes)


if __name__ == "__main__":
    main()
