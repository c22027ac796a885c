"""What both target architectures share: rotary embedding, key/value caches, and the interface of the models.

Shapes: B sequences, T tokens, C hidden, D head size, V vocabulary.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Rope = tuple[Tensor, Tensor]  # cos and sin


def rope_table(positions: Tensor, dims: int, base: float) -> Rope:
    """cos and sin, each [..., T, dims], for absolute positions [..., T]."""
    exponent = torch.arange(0, dims, 2, dtype=torch.float32) / dims
    angle = positions.float().unsqueeze(-1) * base**-exponent
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rope: Rope) -> Tensor:
    """Applies RoPE in its half-split form to the last axis of x."""
    low, high = x.chunk(2, dim=-1)
    return x * rope[0] + torch.cat([-high, low], dim=-1) * rope[1]


class Cache:
    """Keys and values of one layer for B sequences of equal length, preallocated [B, key/value heads, capacity, D]."""

    def __init__(self, shape: tuple[int, int, int, int]):
        self.k, self.v, self.used = torch.empty(shape), torch.empty(shape), 0

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends [B, key/value heads, T, D] and returns everything stored so far."""
        end = self.used + k.shape[2]
        self.k[:, :, self.used : end], self.v[:, :, self.used : end] = k, v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


class ModelConfig(Protocol):
    """The dims of a model, under the names of config.json."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    def to_json(self) -> dict: ...


class LanguageModel(nn.Module):
    """A decoder with tied embeddings: the LM head is `embedding`."""

    config: ModelConfig

    @property
    def embedding(self) -> Tensor:
        """[V, C]"""
        raise NotImplementedError

    def hidden(
        self, tokens: Tensor, positions: Tensor | None = None, caches: list[Cache] | None = None, taps: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor | None]:
        """tokens [B, T] -> final normed hidden [B, T, C] and, with taps, the features [B, T, len(taps)·C].

        A feature is the output of layer `tap` (HF hidden_states[tap + 1]). positions default to 0..T-1.
        """
        raise NotImplementedError

    def reset(self, outputs: tuple[str, ...]) -> None:
        """Initializes matrices and biases. `outputs` (ends of names) are zero, so each layer starts as the identity."""
        for name, parameter in self.named_parameters():
            if name.endswith((*outputs, ".bias")):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 if "embed" in name else parameter.shape[1] ** -0.5)

    def head(self, hidden: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]"""
        return F.linear(hidden, self.embedding)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.hidden(tokens)[0])

    def new_caches(self, batch: int, capacity: int) -> list[Cache]:
        """One cache per layer, for `batch` sequences of at most `capacity` tokens."""
        shape = (batch, self.config.num_key_value_heads, capacity, self.config.head_dim)
        return [Cache(shape) for _ in range(self.config.num_hidden_layers)]
