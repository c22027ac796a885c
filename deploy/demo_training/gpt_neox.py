"""GPT-NeoX as plain PyTorch modules, with the parameter names of Hugging Face's `GPTNeoXForCausalLM`.

LayerNorm with bias, attention and MLP in parallel on the same residual, RoPE on the first quarter of each head, and
a tied LM head. The drafter has the same architecture as the target.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_training.language_model import Cache, LanguageModel, Rope, rope_table, rotate

ROTARY_SHARE = 0.25
SHALLOW, GROW_AT = 4, 0.4  # Layers of the target that run until this share of its training time has passed.


@dataclass(frozen=True)
class Config:
    """Sizes of one model. The feed-forward part has 4 * hidden_size units."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int = 4096
    rotary_emb_base: float = 10000.0
    layer_norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def num_key_value_heads(self) -> int:
        return self.num_attention_heads

    @property
    def rotary_dims(self) -> int:
        return int(self.head_dim * ROTARY_SHARE)

    def to_json(self) -> dict:
        """The fields of `config.json`, in the form of EleutherAI's Pythia."""
        return {
            "architectures": ["GPTNeoXForCausalLM"],
            "model_type": "gpt_neox",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": 4 * self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "rotary_pct": ROTARY_SHARE,
            "rotary_emb_base": self.rotary_emb_base,
            "layer_norm_eps": self.layer_norm_eps,
            "max_position_embeddings": 2048,
            "hidden_act": "gelu",
            "attention_bias": True,
            "attention_dropout": 0.0,
            "hidden_dropout": 0.0,
            "classifier_dropout": 0.0,
            "use_parallel_residual": True,
            "tie_word_embeddings": True,
            "initializer_range": 0.02,
            "use_cache": True,
            "bos_token_id": None,
            "eos_token_id": 0,
            "pad_token_id": 0,
            "torch_dtype": "bfloat16",
        }


TARGET = Config(hidden_size=256, num_hidden_layers=7, num_attention_heads=4)
DRAFTER = Config(hidden_size=96, num_hidden_layers=2, num_attention_heads=3)


def rotate_first(x: Tensor, rope: Rope) -> Tensor:
    """Applies RoPE to the first dims of x [B, H, T, D]."""
    turned, kept = x.split([rope[0].shape[-1], x.shape[-1] - rope[0].shape[-1]], dim=-1)
    return torch.cat([rotate(turned, rope), kept], dim=-1)


class Attention(nn.Module):
    """`query_key_value` stores, for each head, the rows of its query, key and value."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads, self.d = config.num_attention_heads, config.head_dim
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, rope: Rope, cache: Cache | None) -> Tensor:
        """[B, T, C] -> [B, T, C]. Causal. With a cache, T new rows see all of its rows."""
        q, k, v = self.query_key_value(x).unflatten(-1, (self.heads, 3 * self.d)).transpose(1, 2).chunk(3, dim=-1)
        q, k = rotate_first(q, rope), rotate_first(k, rope)
        if cache is not None:
            k, v = cache.extend(k, v)
        rows, keys = q.shape[2], k.shape[2]
        mask = None
        if 1 < rows < keys:
            mask = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=rows > 1 and rows == keys)
        return self.dense(out.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(config.hidden_size, 4 * config.hidden_size)
        self.dense_4h_to_h = nn.Linear(4 * config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense_4h_to_h(F.gelu(self.dense_h_to_4h(x)))


class Layer(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = Attention(config)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, rope: Rope, cache: Cache | None) -> Tensor:
        """[B, T, C] -> [B, T, C]. Attention and MLP both read the input of the layer."""
        return x + self.attention(self.input_layernorm(x), rope, cache) + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class GptNeox(LanguageModel):
    """The target and the drafter of the GPT-NeoX pair.

    `depth`: number of layers that run. Because output projections start at zero, a layer that begins to run does not
    change the function at first. The target's training uses this to grow.
    """

    config: Config

    def __init__(self, config: Config):
        super().__init__()
        self.config, self.depth = config, config.num_hidden_layers
        self.gpt_neox = Body(config)
        self.reset(outputs=("attention.dense.weight", "dense_4h_to_h.weight"))

    @property
    def embedding(self) -> Tensor:
        return self.gpt_neox.embed_in.weight

    def hidden(
        self, tokens: Tensor, positions: Tensor | None = None, caches: list[Cache] | None = None, taps: tuple[int, ...] = ()
    ) -> tuple[Tensor, None]:
        """See LanguageModel. This model has no taps."""
        assert not taps, "GptNeox exports no features"
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        rope = rope_table(positions, self.config.rotary_dims, self.config.rotary_emb_base)
        x = self.gpt_neox.embed_in(tokens)
        for index, layer in enumerate(self.gpt_neox.layers[: self.depth]):
            x = layer(x, rope, None if caches is None else caches[index])
        return self.gpt_neox.final_layer_norm(x), None


def grow_when_due(model: GptNeox, share: float) -> GptNeox:
    """Lets SHALLOW layers run until GROW_AT of the training time has passed, then all of them."""
    model.depth = SHALLOW if share < GROW_AT else model.config.num_hidden_layers
    return model
