"""Trains the target for `--max-minutes`: next-token cross-entropy on the corpus, Muon and AdamW, fp32.

Because attention over long windows is expensive on a CPU, training begins with windows of 256 tokens. Windows of
512 and then some of 1024 follow. The model grows too (grow.py). If training is interrupted, the same command
continues from the last checkpoint.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

from demo_training.grow import INITIAL, grown
from demo_training.muon import optimizers
from demo_training.qwen3 import Config, Qwen3
from demo_training.schedule import Checkpoint, Clock, append_log, learning_rate_scale, set_scale

MICRO_TOKENS = 2048
GROW_AT = 0.45  # Share of the training time after which the model grows.


def step_tokens(share: float) -> int:
    """Tokens per optimizer step. Early in training, many small steps learn faster than a few large steps."""
    return 2048 if share < 0.75 else 4096


def window_length(share: float, step: int) -> int:
    """Tokens per window."""
    if share < 0.55:
        return 256
    return 1024 if share > 0.8 and step % 3 == 0 else 512


def batch(stream: np.ndarray, length: int, windows: int, step: int) -> torch.Tensor:
    """Ids [windows, length + 1], at offsets that depend on `step` only."""
    offsets = np.random.default_rng(step).integers(0, len(stream) - length - 1, windows)
    return torch.from_numpy(np.stack([stream[o : o + length + 1] for o in offsets]).astype(np.int64))


def train_step(model: Qwen3, windows: torch.Tensor) -> float:
    """Accumulates the gradient of one step; returns the mean loss in nats per token."""
    rows = max(1, MICRO_TOKENS // (windows.shape[1] - 1))
    total = 0.0
    for part in windows.split(rows):
        hidden, _ = model.hidden(part[:, :-1])
        loss = F.cross_entropy(model.head(hidden).flatten(0, 1), part[:, 1:].flatten()) * len(part) / len(windows)
        loss.backward()
        total += loss.item()
    return total


@torch.no_grad()
def validation_loss(model: Qwen3, stream: np.ndarray, windows: int, length: int = 512) -> float:
    """Mean nats per token over evenly spaced windows of the validation stream."""
    losses = []
    for offset in np.linspace(0, len(stream) - length - 1, windows).astype(int):
        ids = torch.from_numpy(stream[offset : offset + length + 1].astype(np.int64))[None]
        losses.append(F.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:]).item())
    return float(np.mean(losses))


def new_optimizers(model: Qwen3, args: argparse.Namespace) -> list:
    return optimizers(model, args.muon_lr, args.adam_lr, weight_decay=0.0)


def start(checkpoint: Checkpoint, args: argparse.Namespace) -> tuple[Qwen3, list, dict]:
    """Model, optimizers and counters of the last checkpoint, or new objects if there is no checkpoint."""
    layers = checkpoint.peek().get("layers", INITIAL.num_hidden_layers)
    model = Qwen3(INITIAL if layers == INITIAL.num_hidden_layers else Config())
    optimizer_pair = new_optimizers(model, args)
    return model, optimizer_pair, checkpoint.load(model, optimizer_pair)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=65.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    stream = np.load(args.work / "train.npy")
    validation = np.load(args.work / "validation.npy")
    checkpoint = Checkpoint(args.work / "target.pt")
    model, optimizer_pair, counters = start(checkpoint, args)
    clock = Clock(args.max_minutes, counters.get("seconds", 0.0))
    step, tokens = counters.get("step", 0), counters.get("tokens", 0)
    bar = tqdm(total=100, desc="target", unit="%", bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}")
    done = clock.share() >= 1.0
    while not done:
        share = clock.share()
        if share >= GROW_AT and model.config == INITIAL:
            model = grown(model, Config())
            optimizer_pair = new_optimizers(model, args)
        set_scale(optimizer_pair, learning_rate_scale(share))
        length, size = window_length(share, step), step_tokens(share)
        loss = train_step(model, batch(stream, length, size // length, step))
        for optimizer in optimizer_pair:
            optimizer.step()
            optimizer.zero_grad()
        step, tokens = step + 1, tokens + size
        if step % 10 == 0:
            record = {"step": step, "tokens": tokens, "seconds": round(clock.seconds(), 1), "loss": round(loss, 4)}
            append_log(args.work / "target.log.jsonl", record)
            bar.n = round(100 * share, 1)
            bar.set_postfix(step=step, loss=f"{loss:.3f}", tokens_per_s=f"{tokens / clock.seconds():.0f}")
        done = clock.share() >= 1.0
        if checkpoint.due() or done:
            counters = {
                "layers": model.config.num_hidden_layers,
                "step": step,
                "tokens": tokens,
                "seconds": clock.seconds(),
                "validation_loss": validation_loss(model, validation, 24),
            }
            append_log(args.work / "target.log.jsonl", counters)
            checkpoint.save(model, optimizer_pair, counters)
    bar.close()


if __name__ == "__main__":
    main()
