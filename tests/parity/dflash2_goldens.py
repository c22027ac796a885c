"""Parity goldens of DFlash 2 drafters: tiny random checkpoints in the formats of z-lab and of speculators.

The drafter is implemented below. It caches nothing: every result is one full forward over the features of all committed
tokens and one block, [root, mask, mask, …]. Each layer convolves the rows of the block before and after attention and
before and after the MLP. Row i of side s becomes

    Σ_tap (base[s, tap] + D_i[s, tap]) · z_{i − tap}

with zeros before the first row. D_i is a projection of the normed row i, before any convolution, and each of its
elements counts for `conv_group_size` elements of the row. The rows of the context are not convolved.

The selector scores the token b at position t after the token a at position t − 1: Σ_k A[a, k] · η_t[k] · B[b, k], with
a projection η_t of the state of row t after the final norm.

make_goldens.py describes the tensors of the targets and those of DFlash drafters. K: selector_top_k, γ = block_size − 1.
    pair_tokens_i [γ, K]        the K likeliest tokens of each position of draft i, the likeliest first
    pair_scores_i [γ, K, K]     scores [t, a, b] of b at position t after a at position t − 1. Position 0 has the root
                                before it, in its first row; its other rows are 0
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import drafter_parts
import family_goldens
from drafter_parts import rope
from eagle_goldens import DRAFT_CONTEXT, QWEN3_TARGET

MASK = 2


@dataclass(frozen=True)
class DFlash2:
    """One pair of checkpoints. `fields` are those of dflash_config, under the names of z-lab."""

    name: str
    seed: int
    target: dict
    decoder: dict
    fields: dict
    flat: bool = False  # The format of speculators. The drafter has an embedding and a head.
    both_block_sizes: bool = False
    causal_windows: bool = False

    @property
    def config(self) -> dict:
        """The contents of the drafter's config.json."""
        if self.flat:
            fields = {**self.fields, "aux_hidden_state_layer_ids": self.fields["target_layer_ids"]}
            del fields["target_layer_ids"]
            return {
                "architectures": ["DFlash2DraftModel"],
                "speculators_model_type": "dflash2",
                "speculators_version": "0.6.0.dev0",
                "speculators_config": {
                    "algorithm": "dflash2",
                    "default_proposal_method": "greedy",
                    "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": self.block - 1}],
                    "verifier": {"name_or_path": "target", "architectures": self.target["architectures"]},
                },
                "transformer_layer_config": self.decoder,
                "draft_vocab_size": self.target["vocab_size"],
                "target_hidden_size": None,
                "sample_from_anchor": False,
                "sliding_window_non_causal": not self.causal_windows,
                "draft_ffn_type": "dense",
                "dtype": "bfloat16",
                **fields,
            }
        config = {
            "architectures": ["DFlash2DraftModel"],
            **self.decoder,
            "num_target_layers": self.target["num_hidden_layers"],
            "is_causal": self.causal_windows,
            "dtype": "bfloat16",
            "dflash_config": self.fields,
        }
        return {**config, "block_size": self.block} if self.both_block_sizes else config

    @property
    def layer_ids(self) -> tuple[int, ...]:
        return tuple(self.fields["target_layer_ids"])

    @property
    def block(self) -> int:
        return self.fields["block_size"]

    @property
    def hidden(self) -> int:
        return self.target["hidden_size"]

    @property
    def top(self) -> int:
        """K."""
        return self.fields["selector_top_k"]


def _decoder(target: dict, **fields: object) -> dict:
    return {
        "model_type": "qwen3",
        "vocab_size": target["vocab_size"],
        "hidden_size": target["hidden_size"],
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 256,
        "rope_parameters": {"rope_theta": 10000000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        **fields,
    }


_TARGET = {**QWEN3_TARGET, "num_hidden_layers": 3}
_WIDE = {**_TARGET, "hidden_size": 48, "vocab_size": 96}
_UNTIED = {**_TARGET, "vocab_size": 96, "tie_word_embeddings": False}
_WINDOW = {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 2}

CASES = [
    DFlash2(
        "dflash2_window",
        91,
        target=_TARGET,
        decoder=_decoder(
            _TARGET, num_attention_heads=4, num_key_value_heads=2, layer_types=["sliding_attention"] * 2, **_WINDOW
        ),
        fields={
            "block_size": 8,
            "mask_token_id": MASK,
            "target_layer_ids": [0, 1],
            "conv_kernel_size": 2,
            "conv_group_size": 16,
            "selector_rank": 8,
            "selector_top_k": 16,
        },
    ),
    # Groups that are narrower than vectors, three taps, and a block of six rows.
    DFlash2(
        "dflash2_scales",
        92,
        target=_WIDE,
        decoder=_decoder(_WIDE, num_hidden_layers=1, rms_norm_eps=1e-5),
        fields={
            "block_size": 6,
            "mask_token_id": MASK,
            "target_layer_ids": [1],
            "conv_kernel_size": 3,
            "conv_group_size": 6,
            "selector_rank": 20,
            "selector_top_k": 5,
            "input_embedding_scale": 2.5,
            "output_multiplier": 0.75,
            "final_logit_softcapping": 3.0,
        },
        both_block_sizes=True,
    ),
    DFlash2(
        "dflash2_speculators",
        93,
        target=_UNTIED,
        decoder=_decoder(_UNTIED, layer_types=["full_attention", "sliding_attention"], **_WINDOW),
        fields={
            "block_size": 8,
            "mask_token_id": MASK,
            "target_layer_ids": [1, 0],
            "conv_kernel_size": 2,
            "conv_group_size": 16,
            "selector_rank": 12,
            "selector_top_k": 16,
        },
        flat=True,
        causal_windows=True,
    ),
]


def matrices(case: DFlash2) -> dict[str, tuple[int, int]]:
    """The names and the shapes of the matrices."""
    decoder, h = case.decoder, case.hidden
    inner, d = decoder["intermediate_size"], decoder["head_dim"]
    q, kv = decoder["num_attention_heads"] * d, decoder["num_key_value_heads"] * d
    coefficients = 2 * case.fields["conv_kernel_size"] * h // case.fields["conv_group_size"]
    shapes = {
        "fc": (h, len(case.fields["target_layer_ids"]) * h),
        "candidate_selector.hidden_projection": (case.fields["selector_rank"], h),
    }
    for i in range(decoder["num_hidden_layers"]):
        p = f"layers.{i}."
        shapes[f"{p}self_attn.q_proj"] = (q, h)
        shapes[f"{p}self_attn.k_proj"] = shapes[f"{p}self_attn.v_proj"] = (kv, h)
        shapes[f"{p}self_attn.o_proj"] = (h, q)
        shapes[f"{p}mlp.gate_proj"] = shapes[f"{p}mlp.up_proj"] = (inner, h)
        shapes[f"{p}mlp.down_proj"] = (h, inner)
        shapes[f"{p}attention_conv.kernel_projection"] = (coefficients, h)
        shapes[f"{p}mlp_conv.kernel_projection"] = (coefficients, h)
    return shapes


def write_drafter(case: DFlash2, target: torch.nn.Module, folder: Path) -> dict[str, torch.Tensor]:
    """Writes the drafter in bf16, and returns its weights in fp32 after rounding."""
    h, d, taps = case.hidden, case.decoder["head_dim"], case.fields["conv_kernel_size"]
    weights = {f"{name}.weight": torch.randn(shape) / math.sqrt(shape[1]) for name, shape in matrices(case).items()}
    widths = {"hidden_norm": h, "norm": h}
    for i in range(case.decoder["num_hidden_layers"]):
        p = f"layers.{i}."
        widths.update({f"{p}input_layernorm": h, f"{p}post_attention_layernorm": h})
        widths.update({f"{p}self_attn.q_norm": d, f"{p}self_attn.k_norm": d})
        for conv in ("attention_conv", "mlp_conv"):
            weights[f"{p}{conv}.kernel_projection.weight"] *= 0.4
            weights[f"{p}{conv}.base_kernel"] = 0.3 * torch.randn(2, taps, h)
            weights[f"{p}{conv}.base_kernel"][:, 0] += 1
    weights.update({f"{name}.weight": 1 + 0.2 * torch.randn(width) for name, width in widths.items()})
    for codebook in ("predecessor", "successor"):
        shape = (case.target["vocab_size"], case.fields["selector_rank"])
        weights[f"candidate_selector.{codebook}_codebook"] = torch.randn(shape)
    if case.flat:
        weights["embed_tokens.weight"] = target.get_input_embeddings().weight.detach().clone()
        weights["lm_head.weight"] = target.get_output_embeddings().weight.detach().clone()
    stored, weights = drafter_parts.round_weights(weights, torch.bfloat16)
    drafter_parts.write_checkpoint(folder, case.config, stored)
    return weights


class Drafter:
    """The reference."""

    def __init__(self, case: DFlash2, weights: dict[str, torch.Tensor], target: torch.nn.Module) -> None:
        self.case, self.decoder, self.weights = case, case.decoder, weights
        self.embedding = target.get_input_embeddings().weight.detach()
        self.head = target.get_output_embeddings().weight.detach()

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.decoder["rms_norm_eps"])
        return x * scale * self.weights[f"{name}.weight"]

    def matmul(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self.weights[f"{name}.weight"].T

    def coefficients(self, normed: torch.Tensor, conv: str) -> torch.Tensor:
        """[block, 2, taps, C]: the factors of both sides, base included."""
        taps, group = self.case.fields["conv_kernel_size"], self.case.fields["conv_group_size"]
        dynamic = self.matmul(normed, f"{conv}.kernel_projection").view(len(normed), 2, taps, -1)
        return self.weights[f"{conv}.base_kernel"] + dynamic.repeat_interleave(group, -1)

    @staticmethod
    def convolve(z: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """Rows z [block, C] with factors [block, taps, C]."""
        rows = []
        for i in range(len(z)):
            taps = range(min(i + 1, factors.shape[1]))
            rows.append(torch.stack([factors[i, tap] * z[i - tap] for tap in taps]).sum(0))
        return torch.stack(rows)

    def visible(self, layer: int, positions: torch.Tensor, context: int) -> torch.Tensor:
        """Mask [block, context + block] of the rows that each row of the block sees."""
        queries, keys = positions[context:, None], positions[None, :]
        if self.decoder.get("layer_types", {layer: ""})[layer] != "sliding_attention":
            return torch.ones(len(queries), len(positions), dtype=torch.bool)
        sees = (queries - keys).abs() < self.decoder["sliding_window"]
        return sees & (keys <= queries) if self.case.causal_windows else sees

    def attention(self, x: torch.Tensor, context: torch.Tensor, layer: int) -> torch.Tensor:
        p, d, n = f"layers.{layer}.self_attn.", self.decoder["head_dim"], len(context)
        positions = torch.arange(n + len(x))
        rows = torch.cat([context, x])
        q = self.matmul(x, f"{p}q_proj").unflatten(-1, (-1, d))
        k, v = (self.matmul(rows, f"{p}{name}_proj").unflatten(-1, (-1, d)) for name in "kv")
        theta = self.decoder["rope_parameters"]["rope_theta"]
        q = rope(self.norm(q, f"{p}q_norm"), positions[n:], theta)
        k = rope(self.norm(k, f"{p}k_norm"), positions, theta)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)
        weights = scores.masked_fill(~self.visible(layer, positions, n), -math.inf).softmax(-1)
        return self.matmul(torch.einsum("hqk,khd->qhd", weights, v).flatten(1), f"{p}o_proj")

    def mlp(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        p = f"layers.{layer}.mlp."
        return self.matmul(F.silu(self.matmul(x, f"{p}gate_proj")) * self.matmul(x, f"{p}up_proj"), f"{p}down_proj")

    def states(self, features: torch.Tensor, root: int) -> torch.Tensor:
        """The states [γ, C] of the masks, after the final norm."""
        context = self.norm(self.matmul(features, "fc"), "hidden_norm")
        x = self.embedding[torch.tensor([root] + [MASK] * (self.case.block - 1))]
        x = x * self.case.fields.get("input_embedding_scale", 1.0)
        for layer in range(self.decoder["num_hidden_layers"]):
            p = f"layers.{layer}."
            normed = self.norm(x, f"{p}input_layernorm")
            factors = self.coefficients(normed, f"{p}attention_conv")
            attended = self.attention(self.convolve(normed, factors[:, 0]), context, layer)
            x = x + self.convolve(attended, factors[:, 1])
            normed = self.norm(x, f"{p}post_attention_layernorm")
            factors = self.coefficients(normed, f"{p}mlp_conv")
            x = x + self.convolve(self.mlp(self.convolve(normed, factors[:, 0]), layer), factors[:, 1])
        return self.norm(x, "norm")[1:]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        logits = states @ self.head.T * self.case.fields.get("output_multiplier", 1.0)
        cap = self.case.fields.get("final_logit_softcapping", 0.0)
        return cap * (logits / cap).tanh() if cap > 0 else logits

    def pair_scores(self, states: torch.Tensor, root: int, tokens: torch.Tensor) -> torch.Tensor:
        before = self.weights["candidate_selector.predecessor_codebook"]
        after = self.weights["candidate_selector.successor_codebook"]
        eta = self.matmul(states, "candidate_selector.hidden_projection")
        scores = torch.zeros(len(states), self.case.top, self.case.top)
        for t in range(len(states)):
            previous = torch.tensor([root]) if t == 0 else tokens[t - 1]
            scores[t, : len(previous)] = torch.einsum("ak,k,bk->ab", before[previous], eta[t], after[tokens[t]])
        return scores

    @torch.no_grad()
    def golden(self, tokens: torch.Tensor, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors that depend on the drafter."""
        golden = {"draft_context": torch.tensor(DRAFT_CONTEXT)}
        committed = 0
        for i, more in enumerate(DRAFT_CONTEXT):
            committed += more
            root = int(tokens[committed])
            states = self.states(features[:committed], root)
            logits = self.logits(states)
            best = logits.topk(self.case.top).indices
            golden[f"bonus_{i}"] = torch.tensor([root])
            golden[f"marginal_logits_{i}"] = logits
            golden[f"pair_tokens_{i}"] = best
            golden[f"pair_scores_{i}"] = self.pair_scores(states, root, best)
        return golden


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, torch.nn.Module, Drafter]]:
    """Writes the named cases, or all. Yields the name, the target and the drafter of each."""
    for case in CASES:
        if only and case.name not in only:
            continue
        family = family_goldens.Family(case.name, case.seed, case.target, saved=False)
        target = family_goldens.write(family, folder / case.name / "target")
        yield case.name, target, Drafter(case, write_drafter(case, target, folder / case.name / "drafter"), target)
