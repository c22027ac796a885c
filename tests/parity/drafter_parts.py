"""What the drafters of the goldens share: rotary embeddings and the folder of a checkpoint."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def rope(x: torch.Tensor, positions: torch.Tensor, theta: float) -> torch.Tensor:
    """Applies RoPE in its half-split form to x [rows, heads, D] with absolute positions [rows]."""
    half = x.shape[-1] // 2
    angle = positions.float()[:, None, None] * theta ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def write_checkpoint(folder: Path, config: dict, stored: dict[str, torch.Tensor], file: str = "model.safetensors") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(stored, folder / file, metadata={"format": "pt"})


def round_weights(
    weights: dict[str, torch.Tensor], dtype: torch.dtype
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The weights in the type of the file, and in fp32 after that."""
    stored = {name: tensor.to(dtype) for name, tensor in weights.items()}
    return stored, {name: tensor.float() for name, tensor in stored.items()}


def add_draft_tokens(tensors: list[dict[str, torch.Tensor]], count: int, vocabulary: int) -> None:
    """Draws the tokens that the drafter can predict, and adds their tables d2t and t2d. All tokens need no tables."""
    if count == vocabulary:
        return
    ids = torch.randperm(vocabulary)[:count].sort().values
    tables = {
        "d2t": ids - torch.arange(count),
        "t2d": torch.zeros(vocabulary, dtype=torch.bool).index_fill(0, ids, True),
    }
    for one in tensors:
        one.update(tables)
