"""Windows of a token stream, and the mean loss over windows."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from demo_training.language_model import LanguageModel


def random_windows(stream: np.ndarray, length: int, count: int, seed: int | list[int]) -> Tensor:
    """Ids [count, length], at offsets that depend on `seed` only."""
    offsets = np.random.default_rng(seed).integers(0, len(stream) - length, count)
    return torch.from_numpy(np.stack([stream[o : o + length] for o in offsets]).astype(np.int64))


def validation_windows(work: Path, count: int, length: int = 512) -> list[Tensor]:
    """`count` evenly spaced windows [length + 1] of the validation stream."""
    stream = np.load(work / "validation.npy").astype(np.int64)
    starts = np.linspace(0, len(stream) - length - 1, count).astype(int)
    return [torch.from_numpy(stream[s : s + length + 1]) for s in starts]


@torch.no_grad()
def mean_loss(model: LanguageModel, windows: Iterable[Tensor]) -> float:
    """Mean nats per token of windows [T]: each token is predicted from those before it."""
    return float(np.mean([F.cross_entropy(model(ids[None, :-1])[0], ids[1:]).item() for ids in windows]))
