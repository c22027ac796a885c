"""Parity goldens of P-EAGLE drafters: tiny random checkpoints in the format of speculators, and in that which vLLM reads.

The drafter is implemented below, with parts of eagle_goldens.py. It caches nothing: every result is one full forward.
A row has an anchor a, which is the token before the row's own, and a depth d. It is at position a + d. Rows of depth 0
are those of EAGLE-3: the token a + 1 and the features of token a. Rows of other depths have the mask token, and the
vector mask_hidden in place of features. A row sees the rows of depth 0 whose anchors are not after its own, and the
rows of its own anchor whose depths are not greater than its own. Its logits predict token a + d + 2.

make_goldens.py describes the tensors of the targets. D: draft vocabulary, P: predicted tokens.
    layer_ids [3]               the layers whose outputs are the features
    draft_context [3]           number of feature rows that are added before draft 0, 1, 2
    draft_ids [D]               the target's token of each column of the drafter's logits
    bonus_i [1]                 the token that follows the committed ones: the root of draft i
    marginal_logits_i [P, D]    the drafter's logits for the P tokens after the root
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import drafter_parts
import eagle_goldens
import family_goldens
from drafter_parts import rope
from eagle_goldens import DRAFT_CONTEXT, HIDDEN, LLAMA_TARGET, QWEN3_TARGET, VOCABULARY, head_dim, llama_block

MASK_TOKEN = 7
DEFAULT_POSITIONS = 8


@dataclass(frozen=True)
class Parallel(eagle_goldens.Eagle):
    """One pair of checkpoints. `positions`: P, or None for a config that does not say it."""

    positions: int | None = None

    @property
    def config(self) -> dict:
        config = super().config
        if self.nested:
            config["speculators_model_type"] = config["speculators_config"]["algorithm"] = "peagle"
            config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] = self.positions
        return config

    def block_prefix(self, layer: int) -> str:
        return f"layers.{layer}." if self.nested else self.prefix


CASES = [
    # The mask row goes through the norm before fc, as features do.
    Parallel(
        "peagle_speculators",
        91,
        target=LLAMA_TARGET,
        block=llama_block(num_hidden_layers=2, head_dim=16, rope_theta=500000.0),
        fields={
            "architectures": ["PEagleSpeculator"],
            "draft_vocab_size": 64,
            "norm_before_fc": True,
            "norm_before_residual": True,
            "norm_output": True,
            "embed_requires_grad": True,
            "mask_token_id": MASK_TOKEN,
            "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
        },
        nested=True,
        own_embedding=True,
        norms={"input_norm": 3 * HIDDEN},
        positions=4,
    ),
    Parallel(
        "peagle_one_layer",
        92,
        target=QWEN3_TARGET,
        block=llama_block(num_key_value_heads=2, head_dim=16, rope_theta=1000000.0, rms_norm_eps=1e-6),
        fields={
            "architectures": ["LlamaForCausalLMEagle3"],
            "draft_vocab_size": None,
            "ptd_token_id": MASK_TOKEN,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 5]},
        },
        layer_ids=(1, 2, 5),
        draft_vocabulary=VOCABULARY,
    ),
]


def write_drafter(case: Parallel, folder: Path) -> dict[str, torch.Tensor]:
    """Writes the drafter, and returns its weights in fp32 after they were rounded to the type of the case."""
    block, inner, d = case.block, case.block["intermediate_size"], head_dim(case.block)
    q, kv = block["num_attention_heads"] * d, block["num_key_value_heads"] * d
    width = len(case.layer_ids) * HIDDEN
    matrices, norms = {"fc": (HIDDEN, width)}, {"norm": HIDDEN, **case.norms}
    for layer in range(block["num_hidden_layers"]):
        p = case.block_prefix(layer)
        inputs = HIDDEN if layer > 0 else 2 * HIDDEN
        rows = {"self_attn.q_proj": q, "self_attn.k_proj": kv, "self_attn.v_proj": kv}
        matrices.update({f"{p}{name}": (count, inputs) for name, count in rows.items()})
        matrices[f"{p}self_attn.o_proj"] = (HIDDEN, q)
        matrices.update({f"{p}mlp.{name}_proj": (inner, HIDDEN) for name in ("gate", "up")})
        matrices[f"{p}mlp.down_proj"] = (HIDDEN, inner)
        names = ("input_layernorm", "post_attention_layernorm") + (("hidden_norm",) if layer == 0 else ())
        norms.update({f"{p}{name}": HIDDEN for name in names})
    weights = {f"{name}.weight": torch.randn(shape) / math.sqrt(shape[1]) for name, shape in matrices.items()}
    weights.update({f"{name}.weight": 1 + 0.2 * torch.randn(size) for name, size in norms.items()})
    weights["lm_head.weight"] = 0.4 * torch.randn(case.draft_vocabulary, HIDDEN)
    weights["mask_hidden"] = torch.randn(1, 1, width)
    if case.own_embedding:
        weights["embed_tokens.weight"] = 0.4 * torch.randn(VOCABULARY, HIDDEN)
    stored, weights = drafter_parts.round_weights(weights, case.dtype)
    drafter_parts.add_draft_tokens([stored, weights], case.draft_vocabulary, VOCABULARY)
    drafter_parts.write_checkpoint(folder, case.config, stored)
    return weights


class ParallelDrafter(eagle_goldens.Drafter):
    """The reference. Norms, products and the fusion of features are those of EAGLE-3."""

    case: Parallel

    def attend(self, x: torch.Tensor, layer: int, anchors: torch.Tensor, depths: torch.Tensor) -> torch.Tensor:
        p = f"{self.case.block_prefix(layer)}self_attn."
        q, k, v = (self.matmul(x, f"{p}{name}_proj").unflatten(-1, (-1, head_dim(self.block))) for name in "qkv")
        theta = eagle_goldens.rope_theta(self.block)
        q, k = rope(q, anchors + depths, theta), rope(k, anchors + depths, theta)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        context = (depths[None] == 0) & (anchors[None] <= anchors[:, None])
        own = (anchors[None] == anchors[:, None]) & (depths[None] <= depths[:, None])
        weights = scores.masked_fill(~(context | own), -math.inf).softmax(-1)
        return self.matmul(torch.einsum("hqk,khd->qhd", weights, v).flatten(1), f"{p}o_proj")

    def marginals(self, tokens: torch.Tensor, features: torch.Tensor, root: int) -> torch.Tensor:
        """The logits [P, D] after the committed tokens [n] and the root."""
        positions, n = self.case.positions or DEFAULT_POSITIONS, len(tokens)
        masks = positions - 1
        rows = torch.cat([tokens[1:], torch.tensor([root]), torch.full((masks,), MASK_TOKEN)])
        anchors = torch.cat([torch.arange(n), torch.full((masks,), n - 1)])
        depths = torch.cat([torch.zeros(n, dtype=torch.int64), 1 + torch.arange(masks)])
        hidden = self.fuse(torch.cat([features, self.weights["mask_hidden"].view(1, -1).expand(masks, -1)]))
        x = hidden
        for layer in range(self.block["num_hidden_layers"]):
            p = self.case.block_prefix(layer)
            if layer == 0:
                normed = self.norm(hidden, f"{p}hidden_norm")
                inputs = torch.cat([self.norm(self.embedding[rows], f"{p}input_layernorm"), normed], -1)
                x = normed if self.case.fields.get("norm_before_residual") else hidden
            else:
                inputs = self.norm(x, f"{p}input_layernorm")
            x = x + self.attend(inputs, layer, anchors, depths)
            normed = self.norm(x, f"{p}post_attention_layernorm")
            inner = F.silu(self.matmul(normed, f"{p}mlp.gate_proj")) * self.matmul(normed, f"{p}mlp.up_proj")
            x = x + self.matmul(inner, f"{p}mlp.down_proj")
        return self.matmul(self.norm(x[n - 1 :], "norm"), "lm_head")

    @torch.no_grad()
    def golden(self, tokens: torch.Tensor, features: torch.Tensor) -> dict[str, torch.Tensor]:
        offsets = self.weights.get("d2t", torch.zeros(self.case.draft_vocabulary, dtype=torch.int64))
        golden = {
            "layer_ids": torch.tensor(self.case.layer_ids),
            "draft_context": torch.tensor(DRAFT_CONTEXT),
            "draft_ids": offsets + torch.arange(self.case.draft_vocabulary),
        }
        committed = 0
        for i, more in enumerate(DRAFT_CONTEXT):
            committed += more
            root = int(tokens[committed])
            golden[f"bonus_{i}"] = torch.tensor([root])
            golden[f"marginal_logits_{i}"] = self.marginals(tokens[:committed], features[:committed], root)
        return golden


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, torch.nn.Module, ParallelDrafter]]:
    """Writes the named cases, or all. Yields the name, the target and the drafter of each."""
    for case in CASES:
        if only and case.name not in only:
            continue
        family = family_goldens.Family(case.name, case.seed, case.target, saved=False)
        target = family_goldens.write(family, folder / case.name / "target")
        weights = write_drafter(case, folder / case.name / "drafter")
        yield case.name, target, ParallelDrafter(case, weights, target.get_input_embeddings().weight.detach())
