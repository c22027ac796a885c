"""The dense Qwen3 decoder in plain PyTorch, with the parameter names of `transformers`' Qwen3ForCausalLM.

Shapes: B sequences, T tokens, C hidden, H query heads, G key/value heads, D head size, V vocabulary. Training
on a few CPU cores needs only this small subset of `transformers`. export.py compares the logits with those of
`transformers` on the exported folder.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The dims in config.json, under the same names."""

    vocab_size: int = 4096
    hidden_size: int = 320
    intermediate_size: int = 1280
    num_hidden_layers: int = 9
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 64
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048

    def to_json(self) -> dict:
        """config.json of the target, for Qwen3ForCausalLM."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            **asdict(self),
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": True,
            "initializer_range": 0.02,
            "use_cache": True,
            "use_sliding_window": False,
            "sliding_window": None,
            "rope_scaling": None,
            "bos_token_id": None,
            "eos_token_id": 0,
            "pad_token_id": 0,
            "torch_dtype": "bfloat16",
        }


class RMSNorm(nn.Module):
    """x / rms(x) · weight over the last axis."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rope_table(positions: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """cos and sin, each [..., T, 1, D], for absolute positions [..., T]."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angle = positions.float().unsqueeze(-1) * config.rope_theta**-half
    angle = torch.cat([angle, angle], dim=-1).unsqueeze(-2)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """Applies RoPE in its half-split form to x [..., T, heads, D]."""
    low, high = x.chunk(2, dim=-1)
    return x * rope[0] + torch.cat([-high, low], dim=-1) * rope[1]


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        c, d = config.hidden_size, config.head_dim
        self.heads, self.groups, self.d = config.num_attention_heads, config.num_key_value_heads, d
        self.q_proj = nn.Linear(c, self.heads * d, bias=False)
        self.k_proj = nn.Linear(c, self.groups * d, bias=False)
        self.v_proj = nn.Linear(c, self.groups * d, bias=False)
        self.o_proj = nn.Linear(self.heads * d, c, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)

    def queries(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        """[B, T, C] -> [B, H, T, D]"""
        q = self.q_proj(x).unflatten(-1, (self.heads, self.d))
        return rotate(self.q_norm(q), rope).transpose(1, 2)

    def keys_values(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """[B, T, C] -> two of [B, G, T, D]"""
        k = self.k_proj(x).unflatten(-1, (self.groups, self.d))
        v = self.v_proj(x).unflatten(-1, (self.groups, self.d))
        return rotate(self.k_norm(k), rope).transpose(1, 2), v.transpose(1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """q [B, H, T, D], k and v [B, G, S, D] -> [B, T, C]. mask [.., T, S]: True where a key is visible."""
        repeat = self.heads // self.groups
        if q.shape[2] == 1 and mask is None:  # Decode. The heads of a group become rows: no key is copied.
            grouped = q.reshape(q.shape[0], self.groups, repeat, self.d)
            out = F.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
        else:
            k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class Cache:
    """Keys and values of one layer for B sequences of equal length, preallocated [B, G, capacity, D]."""

    def __init__(self, batch: int, capacity: int, config: Config):
        shape = (batch, config.num_key_value_heads, capacity, config.head_dim)
        self.k, self.v, self.used = torch.empty(shape), torch.empty(shape), 0

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends [B, G, T, D] and returns everything stored so far."""
        end = self.used + k.shape[2]
        self.k[:, :, self.used : end], self.v[:, :, self.used : end] = k, v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


class MLP(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
        """[B, T, C] -> [B, T, C]. Appends the T rows to the cache, if any. Causal unless a mask is given."""
        normed = self.input_layernorm(x)
        q = self.self_attn.queries(normed, rope)
        k, v = self.self_attn.keys_values(normed, rope)
        if cache is not None:
            k, v = cache.extend(k, v)
        causal = mask is None and q.shape[2] == k.shape[2]
        x = x + self.self_attn.attend(q, k, v, mask, causal)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Qwen3(nn.Module):
    """Tied embeddings: the LM head is `model.embed_tokens.weight`."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.reset()

    def reset(self) -> None:
        """Initializes the weights. Output projections are zero, so each block starts as the identity."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=0.02 if "embed" in name else parameter.shape[1] ** -0.5)

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        caches: list[Cache] | None = None,
        mask: Tensor | None = None,
        taps: tuple[int, ...] = (),
    ) -> tuple[Tensor, Tensor | None]:
        """tokens [B, T] -> final normed hidden [B, T, C] and the features [B, T, len(taps)·C].

        A feature is the output of layer `tap` (HF hidden_states[tap + 1]). positions default to 0..T-1.
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        rope = rope_table(positions, self.config)
        x = self.model.embed_tokens(tokens)
        tapped = {}
        for index, layer in enumerate(self.model.layers):
            x = layer(x, rope, None if caches is None else caches[index], mask)
            if index in taps:
                tapped[index] = x
        features = torch.cat([tapped[t] for t in taps], dim=-1) if taps else None
        return self.model.norm(x), features

    def head(self, hidden: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]"""
        return F.linear(hidden, self.model.embed_tokens.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.hidden(tokens)[0])

    def new_caches(self, batch: int, capacity: int) -> list[Cache]:
        """One cache per layer, for `batch` sequences of at most `capacity` tokens."""
        return [Cache(batch, capacity, self.config) for _ in self.model.layers]
