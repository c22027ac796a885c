"""The dense Qwen3 decoder in plain PyTorch, with the parameter names of `transformers`' Qwen3ForCausalLM.

Shapes: B sequences, T tokens, C hidden, H query heads, G key/value heads, D head size. Training on a few CPU cores
needs only this small subset of `transformers`. export.py compares the logits with those of `transformers` on the
exported folder.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_training import language_model
from demo_training.language_model import Cache, LanguageModel, Rope, rotate


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


def rope_table(positions: Tensor, config: Config) -> Rope:
    """cos and sin, each [..., T, 1, D], for absolute positions [..., T]."""
    cos, sin = language_model.rope_table(positions, config.head_dim, config.rope_theta)
    return cos.unsqueeze(-2), sin.unsqueeze(-2)


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

    def queries(self, x: Tensor, rope: Rope) -> Tensor:
        """[B, T, C] -> [B, H, T, D]"""
        q = self.q_proj(x).unflatten(-1, (self.heads, self.d))
        return rotate(self.q_norm(q), rope).transpose(1, 2)

    def keys_values(self, x: Tensor, rope: Rope) -> tuple[Tensor, Tensor]:
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

    def forward(self, x: Tensor, rope: Rope, cache: Cache | None = None, mask: Tensor | None = None) -> Tensor:
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


class Qwen3(LanguageModel):
    """The target of the first pair. Any layer can be tapped."""

    config: Config

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.reset(outputs=("o_proj.weight", "down_proj.weight"))

    @property
    def embedding(self) -> Tensor:
        return self.model.embed_tokens.weight

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        caches: list[Cache] | None = None,
        taps: tuple[int, ...] = (),
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """See LanguageModel. mask [T, cached rows + T]: True where a key is visible. Default: causal."""
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
