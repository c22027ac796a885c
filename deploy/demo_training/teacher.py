"""Teacher text for the drafter: corpus text, and continuations of it that the trained target generates.

Half of the continuations are greedy and half are sampled at temperature 0.8. Text after the start of a loop
is not used. Each shard in `WORK/teacher/` is one batch: tokens [B, T]; prefix, the number of corpus tokens;
useful [B], the number of tokens before a loop; the target's final hidden states [B, T − 1, C], from which a
drafter's training computes the target's distributions; and, if the drafter reads them, features [B, T − 1, F].
Hidden states and features are fp16.
"""

from pathlib import Path

import numpy as np
import torch

from demo_training.export import load
from demo_training.generate import generate, useful_length
from demo_training.language_model import LanguageModel
from demo_training.pairs import TeacherRecipe
from demo_training.schedule import Clock
from demo_training.stage import parse, timed_parser
from demo_training.training import progress_bar, show
from demo_training.windows import random_windows

BATCH = 96
TEMPERATURE = 0.8


def shards(work: Path) -> list[Path]:
    """The shards that exist now."""
    paths = sorted((work / "teacher").glob("*.pt"))
    if not paths:
        raise SystemExit(f"no teacher text in {work / 'teacher'}; run the stage teacher first")
    return paths


@torch.no_grad()
def make_shard(model: LanguageModel, recipe: TeacherRecipe, stream: np.ndarray, index: int) -> dict:
    """One batch of teacher text. It depends on the weights, the recipe and `index` only."""
    prefix, count = recipe.shapes[index % len(recipe.shapes)]
    tokens = random_windows(stream, prefix, BATCH, [recipe.seed, index])
    useful, extra = torch.full((BATCH,), prefix), {}
    if count == 0:
        hidden = torch.cat([model.hidden(part[:, :-1])[0].half() for part in tokens.split(8)])
    else:
        sampling = torch.tensor([0.0, TEMPERATURE]).repeat(BATCH // 2), torch.Generator().manual_seed(index)
        tokens, hidden, features = generate(model, tokens, count, sampling, recipe.taps)
        useful = torch.tensor([prefix + useful_length(row[prefix:].tolist()) for row in tokens])
        extra = {"features": features} if recipe.taps else {}
    return {"tokens": tokens.short(), "prefix": prefix, "useful": useful, "hidden": hidden, **extra}


def main() -> None:
    args = parse(timed_parser(__doc__))
    recipe = args.pair.teacher
    stream = np.load(args.work / "train.npy")
    model = load(args.work, args.pair.target)
    folder = args.work / "teacher"
    folder.mkdir(exist_ok=True)
    clock = Clock(args.max_minutes or recipe.minutes, now=args.pair.now)
    index, generated = len(list(folder.glob("*.pt"))), 0
    bar = progress_bar("teacher")
    while clock.share() < 1.0:
        shard = make_shard(model, recipe, stream, index)
        torch.save(shard, folder / "part.tmp")
        (folder / "part.tmp").rename(folder / f"{index:04d}.pt")
        index, generated = index + 1, generated + int((shard["useful"] - shard["prefix"]).sum())
        show(bar, clock.share(), generated=generated, tokens_per_s=f"{generated / clock.seconds():.0f}")
    bar.close()


if __name__ == "__main__":
    main()
