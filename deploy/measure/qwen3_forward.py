"""Qwen3 and its DFlash drafter in plain numpy, fp32, without a cache: slow, short, and independent of the engine.

Shapes: T tokens, C hidden, H query heads, G key/value heads, D head size, V vocabulary, F width of the features.
`weights` is any object with `config` and `floats(name)`, such as checkpoint_io.Checkpoint. A layer reads its weights when it
runs.
"""

from dataclasses import dataclass

import numpy as np

from checkpoint_io import to_floats

EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class Rows:
    """Hidden states [T, C] and the absolute positions [T] of their tokens."""

    x: np.ndarray
    positions: np.ndarray


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Normalizes over the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight


def rotate(x: np.ndarray, positions: np.ndarray, theta: float) -> np.ndarray:
    """Applies RoPE in its half-split form to x [T, heads, D]."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = (f(angle).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def theta_of(config: dict) -> float:
    """RoPE's base. `transformers` 5 moved it into `rope_parameters`."""
    return (config.get("rope_parameters") or config).get("rope_theta", 10000.0)


class Layer:
    """One decoder layer. With a context, its attention sees context and block. Without a context, it is causal."""

    def __init__(self, weights, prefix: str):
        self.config = weights.config
        self.get = lambda name: weights.floats(prefix + name + ".weight")

    def heads(self, kind: str, rows: Rows) -> np.ndarray:
        """Queries, keys or values ("q", "k", "v") [T, heads, D]. Queries and keys are normalized and rotated."""
        projected = rows.x @ self.get(f"self_attn.{kind}_proj").T
        projected = projected.reshape(len(rows.x), -1, self.config["head_dim"])
        if kind == "v":
            return projected
        normed = rms_norm(projected, self.get(f"self_attn.{kind}_norm"), self.config["rms_norm_eps"])
        return rotate(normed, rows.positions, theta_of(self.config))

    def attention(self, rows: Rows, context: Rows | None) -> np.ndarray:
        """The attention output [T, H·D] for normalized rows [T, C]."""
        sources = [rows] if context is None else [context, rows]
        q = self.heads("q", rows)
        k, v = (np.concatenate([self.heads(kind, source) for source in sources]) for kind in "kv")
        repeat = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
        scores = np.einsum("thd,shd->hts", q, k) / np.float32(np.sqrt(q.shape[-1]))
        if context is None:
            scores += np.triu(np.full(scores.shape[1:], -np.inf, np.float32), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("hts,shd->thd", scores, v).reshape(len(rows.x), -1)

    def __call__(self, rows: Rows, context: Rows | None = None) -> Rows:
        eps = self.config["rms_norm_eps"]
        normed = rms_norm(rows.x, self.get("input_layernorm"), eps)
        x = rows.x + self.attention(Rows(normed, rows.positions), context) @ self.get("self_attn.o_proj").T
        normed = rms_norm(x, self.get("post_attention_layernorm"), eps)
        gate, up = (normed @ self.get(f"mlp.{kind}_proj").T for kind in ("gate", "up"))
        gate = gate / (1 + np.exp(-np.clip(gate, -80, None)))
        return Rows(x + (gate * up) @ self.get("mlp.down_proj").T, rows.positions)


def embed(target, tokens: np.ndarray) -> np.ndarray:
    return to_floats(target.stored(EMBEDDING)[tokens], target.dtype(EMBEDDING))


def head(target, hidden: np.ndarray) -> np.ndarray:
    """[T, C] after the final norm -> logits [T, V]"""
    return hidden @ target.floats(EMBEDDING if target.config.get("tie_word_embeddings") else "lm_head.weight").T


def final_norm(weights, hidden: np.ndarray, prefix: str) -> np.ndarray:
    return rms_norm(hidden, weights.floats(f"{prefix}norm.weight"), weights.config["rms_norm_eps"])


def run_target(target, tokens: np.ndarray, taps: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """tokens [T] -> the last layer's output [T, C] before the final norm, and the features [T, F] of the tapped layers"""
    rows = Rows(embed(target, tokens), np.arange(len(tokens)))
    tapped = {}
    for index in range(target.config["num_hidden_layers"]):
        rows = Layer(target, f"model.layers.{index}.")(rows)
        tapped[index] = rows.x
    return rows.x, np.concatenate([tapped[tap] for tap in taps], -1)


def taps_of(drafter) -> list[int]:
    return drafter.config["dflash_config"]["target_layer_ids"]


def run_drafter(drafter, target, features: np.ndarray, root: int) -> np.ndarray:
    """features [T, F] of the committed tokens, and the next token `root` -> hidden [block − 1, C] before the final norm"""
    config = drafter.config
    count = len(features)
    tokens = np.full(config["block_size"], config["dflash_config"]["mask_token_id"])
    tokens[0] = root
    fused = features @ drafter.floats("fc.weight").T
    context = Rows(rms_norm(fused, drafter.floats("hidden_norm.weight"), config["rms_norm_eps"]), np.arange(count))
    rows = Rows(embed(target, tokens), count + np.arange(len(tokens)))
    for index in range(config["num_hidden_layers"]):
        rows = Layer(drafter, f"layers.{index}.")(rows, context)
    return rows.x[1:]
