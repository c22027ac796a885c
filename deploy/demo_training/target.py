"""Trains the target for `--max-minutes`: next-token cross-entropy on the corpus, with Muon and AdamW.

Because attention over long windows is expensive on a CPU, training begins with windows of 256 tokens. Windows of
512 and then some of 1024 follow. The model grows too (TargetRecipe.grow).
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from demo_training.language_model import LanguageModel
from demo_training.schedule import Checkpoint
from demo_training.stage import parse, timed_parser
from demo_training.training import Training
from demo_training.windows import mean_loss, random_windows, validation_windows

MICRO_TOKENS = 2048


def window_length(share: float, step: int) -> int:
    """Tokens per window."""
    if share < 0.55:
        return 256
    return 1024 if share > 0.8 and step % 3 == 0 else 512


def accumulate(model: LanguageModel, windows: Tensor) -> float:
    """Accumulates the gradient of one step over windows [N, T + 1]; returns the mean loss in nats per token."""
    rows = max(1, MICRO_TOKENS // (windows.shape[1] - 1))
    total = 0.0
    for part in windows.split(rows):
        loss = F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) * len(part) / len(windows)
        loss.backward()
        total += loss.item()
    return total


def main() -> None:
    args = parse(timed_parser(__doc__))
    recipe = args.pair.target
    torch.manual_seed(recipe.seed)
    stream = np.load(args.work / "train.npy")
    first = recipe.first(Checkpoint(args.work / f"{recipe.name}.pt").peek().get("layers"))
    training: Training[LanguageModel] = Training(args, recipe, first)

    def gradient() -> tuple[int, dict]:
        model = recipe.grow(training.model, training.share)
        if model is not training.model:
            training.use(model)
        length, tokens = window_length(training.share, training.step), recipe.step_tokens(training.share)
        windows = random_windows(stream, length + 1, tokens // length, training.step)
        return tokens, {"loss": round(accumulate(model, windows), 4)}

    def report() -> dict:
        loss = mean_loss(training.model, validation_windows(args.work, 24))
        return {"layers": training.model.config.num_hidden_layers, "validation_loss": loss}

    training.run(gradient, report)


if __name__ == "__main__":
    main()
