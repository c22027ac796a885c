"""Teacher text for the GPT-NeoX drafter: corpus windows, and continuations of their beginnings by the target.

Each shard in `WORK/neox_teacher/` is one batch: tokens [B, T]; useful [B], the number of tokens before a loop; and the
target's final hidden states [B, T - 1, C] in fp16, from which the drafter's training computes the target's
distribution at every position. Two shards of three are continuations, half of them greedy and half sampled at
temperature 0.8. The third is corpus text alone.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from demo_training.generate import generate, useful_length
from demo_training.gpt_neox import GptNeox
from demo_training.neox_export import load_target
from demo_training.schedule import Clock

BATCH = 96
# (corpus prefix, continuation) in tokens. Shards cycle through them. Continuation 0: corpus text alone.
SHAPES = [(48, 112), (128, 128), (256, 0), (96, 128), (192, 112), (512, 0)]
TEMPERATURE = 0.8


def windows(stream: np.ndarray, length: int, index: int) -> torch.Tensor:
    """Windows [BATCH, length] of the training stream, at offsets that depend on `index` only."""
    offsets = np.random.default_rng([9, index]).integers(0, len(stream) - length, BATCH)
    return torch.from_numpy(np.stack([stream[o : o + length] for o in offsets]).astype(np.int64))


@torch.no_grad()
def make_shard(model: GptNeox, stream: np.ndarray, index: int) -> dict:
    """One batch of teacher text. It depends on the weights and `index` only."""
    prefix, count = SHAPES[index % len(SHAPES)]
    tokens = windows(stream, prefix, index)
    useful = torch.full((BATCH,), prefix)
    if count == 0:
        hidden = torch.cat([model.hidden(part[:, :-1])[0].half() for part in tokens.split(8)])
    else:
        temperature = torch.tensor([0.0, TEMPERATURE]).repeat(BATCH // 2)
        tokens, hidden, _ = generate(model, tokens, count, (temperature, torch.Generator().manual_seed(index)))
        useful = torch.tensor([prefix + useful_length(row[prefix:].tolist()) for row in tokens])
    return {"tokens": tokens.short(), "prefix": prefix, "useful": useful, "hidden": hidden}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=9.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    stream = np.load(args.work / "train.npy")
    model = load_target(args.work)
    folder = args.work / "neox_teacher"
    folder.mkdir(exist_ok=True)
    clock, index, generated = Clock(args.max_minutes, now=time.process_time), len(list(folder.glob("*.pt"))), 0
    bar = tqdm(
        total=100,
        desc="teacher",
        unit="%",
        mininterval=20,
        bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}",
    )
    while clock.share() < 1.0:
        shard = make_shard(model, stream, index)
        torch.save(shard, folder / "part.tmp")
        (folder / "part.tmp").rename(folder / f"{index:04d}.pt")
        index, generated = index + 1, generated + int((shard["useful"] - shard["prefix"]).sum())
        bar.n = round(100 * clock.share(), 1)
        bar.set_postfix(generated=generated, tokens_per_s=f"{generated / clock.seconds():.0f}")
    bar.close()


if __name__ == "__main__":
    main()
