"""Teacher text for the drafter: continuations of training-file prefixes, sampled from the trained target.

Half of the sequences are greedy and half are sampled at temperature 0.8. Text after the start of a loop
is not used. Each shard in `WORK/teacher/` is one batch: tokens [B, T]; prefix, the number of corpus tokens;
useful [B], the number of tokens before a loop; features [B, T − 1, F] and final hidden states [B, T − 1, C],
both in fp16.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from demo_training.dflash import TARGET_LAYERS
from demo_training.export import load_target
from demo_training.generate import generate, useful_length
from demo_training.schedule import Clock

BATCH = 96
# (corpus prefix, continuation) in tokens. Shards cycle through them. Most prefixes are as long as the prompts;
# some are longer.
SHAPES = [(48, 160), (96, 160), (160, 160), (64, 160), (128, 160), (224, 160), (72, 192), (448, 96)]
TEMPERATURE = 0.8


def prefixes(stream: np.ndarray, length: int, seed: int) -> torch.Tensor:
    """Windows [BATCH, length] of the training stream, at offsets that depend on `seed` only."""
    offsets = np.random.default_rng([7, seed]).integers(0, len(stream) - length, BATCH)
    return torch.from_numpy(np.stack([stream[o : o + length] for o in offsets]).astype(np.int64))


def make_shard(model: torch.nn.Module, stream: np.ndarray, index: int) -> dict:
    """One batch of teacher text. It depends on the weights and `index` only."""
    prefix, count = SHAPES[index % len(SHAPES)]
    temperature = torch.tensor([0.0, TEMPERATURE]).repeat(BATCH // 2)
    generator = torch.Generator().manual_seed(index)
    tokens, hidden, features = generate(model, prefixes(stream, prefix, index), count, (temperature, generator), TARGET_LAYERS)
    useful = torch.tensor([prefix + useful_length(row[prefix:].tolist()) for row in tokens])
    return {"tokens": tokens.short(), "prefix": prefix, "useful": useful, "hidden": hidden, "features": features}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=9.0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    stream = np.load(args.work / "train.npy")
    model = load_target(args.work)
    folder = args.work / "teacher"
    folder.mkdir(exist_ok=True)
    clock, index, useful = Clock(args.max_minutes), len(list(folder.glob("*.pt"))), 0
    bar = tqdm(total=100, desc="teacher", unit="%", bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}")
    while clock.share() < 1.0:
        shard = make_shard(model, stream, index)
        torch.save(shard, folder / "part.tmp")
        (folder / "part.tmp").rename(folder / f"{index:04d}.pt")
        index, useful = index + 1, useful + int((shard["useful"] - shard["prefix"]).sum())
        bar.n = round(100 * clock.share(), 1)
        bar.set_postfix(useful=useful, tokens_per_s=f"{useful / clock.seconds():.0f}")
    bar.close()


if __name__ == "__main__":
    main()
