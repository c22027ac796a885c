"""Trains the GPT-NeoX target for `--max-minutes` of processor time, with the first pair's windows, optimizers and loss.

Products run in bf16, weights and sums in fp32. The model grows: SHALLOW layers run until GROW_AT of the time has
passed, then all of them. If training is interrupted, the same command continues from the last checkpoint.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from demo_training.gpt_neox import TARGET, GptNeox
from demo_training.muon import optimizers
from demo_training.schedule import Checkpoint, Clock, append_log, learning_rate_scale, set_scale
from demo_training.target import batch, train_step, validation_loss, window_length

STEP_TOKENS = 2048
SHALLOW, GROW_AT = 4, 0.4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=38.0)
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    stream = np.load(args.work / "train.npy")
    validation = np.load(args.work / "validation.npy")
    checkpoint = Checkpoint(args.work / "neox_target.pt")
    model = GptNeox(TARGET)
    optimizer_pair = optimizers(model, args.muon_lr, args.adam_lr, weight_decay=0.0)
    counters = checkpoint.load(model, optimizer_pair)
    clock = Clock(args.max_minutes, counters.get("seconds", 0.0), time.process_time)
    step, tokens = counters.get("step", 0), counters.get("tokens", 0)
    bar = tqdm(
        total=100, desc="target", unit="%", mininterval=20, bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}"
    )
    done = clock.share() >= 1.0
    while not done:
        share = clock.share()
        model.depth = SHALLOW if share < GROW_AT else TARGET.num_hidden_layers
        set_scale(optimizer_pair, learning_rate_scale(share))
        length = window_length(share, step)
        with torch.autocast("cpu", torch.bfloat16):
            loss = train_step(model, batch(stream, length, STEP_TOKENS // length, step))
            for optimizer in optimizer_pair:
                optimizer.step()
                optimizer.zero_grad()
        step, tokens = step + 1, tokens + STEP_TOKENS
        if step % 10 == 0:
            record = {"step": step, "tokens": tokens, "seconds": round(clock.seconds(), 1), "loss": round(loss, 4)}
            append_log(args.work / "neox_target.log.jsonl", record)
            bar.n = round(100 * share, 1)
            bar.set_postfix(step=step, loss=f"{loss:.3f}", tokens_per_s=f"{tokens / clock.seconds():.0f}")
        done = clock.share() >= 1.0
        if checkpoint.due() or done:
            counters = {
                "step": step,
                "tokens": tokens,
                "seconds": clock.seconds(),
                "validation_loss": validation_loss(model, validation, 24),
            }
            append_log(args.work / "neox_target.log.jsonl", counters)
            checkpoint.save(model, optimizer_pair, counters)
    bar.close()


if __name__ == "__main__":
    main()
