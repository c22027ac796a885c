"""Parity goldens of EAGLE-3 drafters: tiny random checkpoints in the formats of the four programs that write them.

The drafter is implemented below, from the paper (arXiv 2503.01840) and the checkpoint formats. It caches nothing:
every result is one full forward. Row t has the embedding of token t and a hidden state of token t − 1, at position
t − 1; token 0 has no row. The hidden state of a committed token is made from the target's features. That of a tree
node is the drafter's own output at the node.

make_goldens.py describes the tensors of the targets. D: draft vocabulary, N: tree nodes without the root.
    layer_ids [3]                                  the layers whose outputs are the features
    draft_context [3]                              number of feature rows that are added before draft 0, 1, 2
    draft_ids [D]                                  the target's token of each column of the drafter's logits
    bonus_i [1]                                    the token that follows the committed ones: the root of tree i
    draft_tokens_i, draft_parents_i [N + 1]        tree i, root first with parent −1
    draft_logits_i [N + 1, D]                      the drafter's logits after each token of the tree
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F

import drafter_parts
import family_goldens
from drafter_parts import rope

HIDDEN, VOCABULARY, LAYERS = 32, 160, 8
DEFAULT_LAYER_IDS = (1, LAYERS // 2 - 1, LAYERS - 4)
DRAFT_CONTEXT = (20, 1, 7)
TOKENS = 32
NODES, MAX_DEPTH = 12, 4


@dataclass(frozen=True)
class Eagle:
    """One pair of checkpoints. `block` has the fields of the drafter's block, `fields` the drafter's other fields."""

    name: str
    seed: int
    target: dict
    block: dict
    fields: dict
    layer_ids: tuple[int, ...] = DEFAULT_LAYER_IDS
    nested: bool = False  # The format of the library speculators.
    draft_vocabulary: int = 64
    dtype: torch.dtype = torch.bfloat16
    norms: dict[str, int] = field(default_factory=dict)  # More norms: their names and widths.
    own_embedding: bool = False

    @property
    def prefix(self) -> str:
        return "layers.0." if self.nested else "midlayer."

    @property
    def config(self) -> dict:
        """The contents of the drafter's config.json."""
        if not self.nested:
            return {**self.block, **self.fields}
        return {
            "transformer_layer_config": self.block,
            "speculators_model_type": "eagle3",
            "speculators_version": "0.3.0",
            "speculators_config": {
                "algorithm": "eagle3",
                "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
                "verifier": {"name_or_path": "target", "architectures": self.target["architectures"]},
            },
            "has_no_defaults_at_init": False,
            "tie_word_embeddings": False,
            **self.fields,
        }


def _target(architecture: str, model_type: str, **fields: object) -> dict:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 16,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 0,
        "torch_dtype": "bfloat16",
        **fields,
    }


LLAMA_TARGET = _target("LlamaForCausalLM", "llama", rms_norm_eps=1e-5, rope_theta=500000.0, mlp_bias=False)
QWEN3_TARGET = _target("Qwen3ForCausalLM", "qwen3", rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False)


def llama_block(**fields: object) -> dict:
    return {
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **fields,
    }


CASES = [
    # The drafter has no rope_theta: it uses 10000, not the target's. The architecture is that of the block.
    Eagle(
        "eagle3_safeailab",
        71,
        target=LLAMA_TARGET,
        block=llama_block(torch_dtype="float16", bos_token_id=1, eos_token_id=0, pad_token_id=0),
        fields={"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 64},
        dtype=torch.float16,
    ),
    # The layer numbers count inputs.
    Eagle(
        "eagle3_specforge",
        72,
        target=QWEN3_TARGET,
        block=llama_block(num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=1000000, rms_norm_eps=1e-6),
        fields={
            "architectures": ["LlamaForCausalLMEagle3"],
            "draft_vocab_size": 64,
            "attention_bias": False,
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": 8,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 5, 6], "use_aux_hidden_state": True},
        },
        layer_ids=(2, 4, 5),
    ),
    Eagle(
        "eagle3_speculators",
        73,
        target=LLAMA_TARGET,
        block=llama_block(head_dim=16, rope_theta=500000.0, mlp_bias=False, attention_bias=False, pretraining_tp=1),
        fields={
            "architectures": ["Eagle3Speculator"],
            "draft_vocab_size": 64,
            "norm_before_residual": True,
            "target_hidden_size": None,
            "eagle_aux_hidden_state_layer_ids": None,
        },
        nested=True,
        own_embedding=True,
    ),
    Eagle(
        "eagle3_norms",
        74,
        target=QWEN3_TARGET,
        block=llama_block(
            model_type="qwen3",
            head_dim=32,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"},
            layer_types=["full_attention"],
            use_sliding_window=False,
        ),
        fields={
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": 64,
            "fc_norm": True,
            "norm_before_fc": False,
            "norm_output": True,
            "norm_before_residual": False,
            "embed_requires_grad": False,
            "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
        },
        nested=True,
        norms={
            "fc_norm.0": HIDDEN,
            "fc_norm.1": HIDDEN,
            "fc_norm.2": HIDDEN,
            "layers.0.self_attn.q_norm": 32,
            "layers.0.self_attn.k_norm": 32,
        },
    ),
    Eagle(
        "eagle3_norm_before_fc",
        75,
        target=LLAMA_TARGET,
        block=llama_block(head_dim=16, rope_theta=10000.0),
        fields={
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": 64,
            "norm_before_fc": True,
            "norm_output": False,
            "norm_before_residual": True,
            "eagle_aux_hidden_state_layer_ids": [2, 3, 6],
        },
        layer_ids=(1, 2, 5),
        nested=True,
        norms={"input_norm": 3 * HIDDEN},
    ),
    # The layer numbers count outputs, because they begin with 1.
    Eagle(
        "eagle3_full_vocabulary",
        76,
        target=QWEN3_TARGET,
        block=llama_block(num_key_value_heads=2, head_dim=16, rope_theta=1000000.0, rms_norm_eps=1e-6),
        fields={
            "architectures": ["Eagle3LlamaForCausalLM"],
            "target_model_type": "qwen3",
            "draft_vocab_size": None,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 5]},
        },
        layer_ids=(1, 2, 5),
        draft_vocabulary=VOCABULARY,
    ),
]


def head_dim(block: dict) -> int:
    return block.get("head_dim") or block["hidden_size"] // block["num_attention_heads"]


def rope_theta(block: dict) -> float:
    return block.get("rope_parameters", block).get("rope_theta", 10000.0)


def write_drafter(case: Eagle, folder: Path) -> dict[str, torch.Tensor]:
    """Writes the drafter, and returns its weights in fp32 after they were rounded to the type of the case."""
    block, p = case.block, case.prefix
    inner, d = block["intermediate_size"], head_dim(block)
    q, kv = block["num_attention_heads"] * d, block["num_key_value_heads"] * d
    matrices = {
        "fc": (HIDDEN, len(case.layer_ids) * HIDDEN),
        f"{p}self_attn.q_proj": (q, 2 * HIDDEN),
        f"{p}self_attn.k_proj": (kv, 2 * HIDDEN),
        f"{p}self_attn.v_proj": (kv, 2 * HIDDEN),
        f"{p}self_attn.o_proj": (HIDDEN, q),
        f"{p}mlp.gate_proj": (inner, HIDDEN),
        f"{p}mlp.up_proj": (inner, HIDDEN),
        f"{p}mlp.down_proj": (HIDDEN, inner),
    }
    norms = {f"{p}{name}": HIDDEN for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")}
    norms.update({"norm": HIDDEN, **case.norms})
    weights = {f"{name}.weight": torch.randn(shape) / math.sqrt(shape[1]) for name, shape in matrices.items()}
    weights.update({f"{name}.weight": 1 + 0.2 * torch.randn(width) for name, width in norms.items()})
    weights["lm_head.weight"] = 0.4 * torch.randn(case.draft_vocabulary, HIDDEN)
    if case.own_embedding:
        weights["embed_tokens.weight"] = 0.4 * torch.randn(VOCABULARY, HIDDEN)
    stored, weights = drafter_parts.round_weights(weights, case.dtype)
    drafter_parts.add_draft_tokens([stored, weights], case.draft_vocabulary, VOCABULARY)
    drafter_parts.write_checkpoint(folder, case.config, stored)
    return weights


class Drafter:
    """The reference. Its sequences are whole: all rows from token 1 on."""

    def __init__(self, case: Eagle, weights: dict[str, torch.Tensor], embedding: torch.Tensor) -> None:
        self.case, self.block, self.weights = case, case.block, weights
        self.embedding = weights.get("embed_tokens.weight", embedding)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.block["rms_norm_eps"])
        return x * scale * self.weights[f"{name}.weight"]

    def matmul(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self.weights[f"{name}.weight"].T

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The hidden states [n, C] of committed tokens from their features [n, 3 C]."""
        if "fc_norm.0.weight" in self.weights:
            parts = features.chunk(3, -1)
            features = torch.cat([self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)], -1)
        if "input_norm.weight" in self.weights:
            features = self.norm(features, "input_norm")
        return self.matmul(features, "fc")

    def heads(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self.matmul(x, f"{self.case.prefix}self_attn.{name}_proj").unflatten(-1, (-1, head_dim(self.block)))

    def rotate(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Norms, if the drafter has them, and half-split RoPE of x [rows, heads, d]. Row r is at position r."""
        norm = f"{self.case.prefix}self_attn.{name}_norm"
        if f"{norm}.weight" in self.weights:
            x = self.norm(x, norm)
        return rope(x, torch.arange(len(x)), rope_theta(self.block))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.rotate(self.heads(x, "q"), "q"), self.rotate(self.heads(x, "k"), "k"), self.heads(x, "v")
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        future = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        attended = torch.einsum("hqk,khd->qhd", scores.masked_fill(future, -math.inf).softmax(-1), v)
        return self.matmul(attended.flatten(1), f"{self.case.prefix}self_attn.o_proj")

    def forward(self, tokens: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The hidden states for children [rows, C] and the logits [rows, D] after tokens 1, 2, … [rows]."""
        p = self.case.prefix
        normed = self.norm(hidden, f"{p}hidden_norm")
        both = torch.cat([self.norm(self.embedding[tokens], f"{p}input_layernorm"), normed], -1)
        x = (normed if self.case.fields.get("norm_before_residual") else hidden) + self.attention(both)
        normed = self.norm(x, f"{p}post_attention_layernorm")
        inner = F.silu(self.matmul(normed, f"{p}mlp.gate_proj")) * self.matmul(normed, f"{p}mlp.up_proj")
        x = x + self.matmul(inner, f"{p}mlp.down_proj")
        normed = self.norm(x, "norm")
        return normed if self.case.fields.get("norm_output") else x, self.matmul(normed, "lm_head")

    def after_path(self, tokens: torch.Tensor, features: torch.Tensor, path: list[int]) -> torch.Tensor:
        """The logits [D] after the committed tokens [n] and a path that begins with the root."""
        hidden = self.fuse(features)
        rows = torch.cat([tokens[1:], torch.tensor(path[:1])])
        for token in path[1:]:
            own = self.forward(rows, hidden)[0][-1:]
            rows, hidden = torch.cat([rows, torch.tensor([token])]), torch.cat([hidden, own])
        return self.forward(rows, hidden)[1][-1]

    @torch.no_grad()
    def golden(self, tokens: torch.Tensor, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors that depend on the drafter."""
        offsets = self.weights.get("d2t", torch.zeros(self.case.draft_vocabulary, dtype=torch.int64))
        golden = {
            "layer_ids": torch.tensor(self.case.layer_ids),
            "draft_context": torch.tensor(DRAFT_CONTEXT),
            "draft_ids": offsets + torch.arange(self.case.draft_vocabulary),
        }
        committed = 0
        for i, more in enumerate(DRAFT_CONTEXT):
            committed += more
            tree, parents = random_tree(int(tokens[committed]))
            paths = [path_to(row, tree, parents) for row in range(len(tree))]
            logits = [self.after_path(tokens[:committed], features[:committed], path) for path in paths]
            golden[f"bonus_{i}"] = torch.tensor(tree[:1])
            golden[f"draft_tokens_{i}"] = torch.tensor(tree)
            golden[f"draft_parents_{i}"] = torch.tensor(parents)
            golden[f"draft_logits_{i}"] = torch.stack(logits)
        return golden


def random_tree(root: int) -> tuple[list[int], list[int]]:
    """Tokens and parents of a random tree: parents first, distinct siblings, a path of MAX_DEPTH nodes."""
    tokens, parents, depths = [root], [-1], [0]
    while len(tokens) < NODES + 1:
        parent = len(tokens) - 1 if len(tokens) <= MAX_DEPTH else int(torch.randint(len(tokens), (1,)))
        token = int(torch.randint(8, VOCABULARY, (1,)))
        taken = any(p == parent and t == token for t, p in zip(tokens, parents))
        if depths[parent] < MAX_DEPTH and not taken:
            tokens.append(token)
            parents.append(parent)
            depths.append(depths[parent] + 1)
    return tokens, parents


def path_to(row: int, tree: list[int], parents: list[int]) -> list[int]:
    """The tokens from the root to a row of the tree."""
    path: list[int] = []
    while row >= 0:
        path.insert(0, tree[row])
        row = parents[row]
    return path


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, torch.nn.Module, Drafter]]:
    """Writes the named cases, or all. Yields the name, the target and the drafter of each."""
    for case in CASES:
        if only and case.name not in only:
            continue
        family = family_goldens.Family(case.name, case.seed, case.target, saved=False)
        target = family_goldens.write(family, folder / case.name / "target")
        weights = write_drafter(case, folder / case.name / "drafter")
        yield case.name, target, Drafter(case, weights, target.get_input_embeddings().weight.detach())
