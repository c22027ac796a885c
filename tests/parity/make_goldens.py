#!/usr/bin/env python3
"""Writes the parity goldens: tiny random checkpoints, and their outputs in fp32.

Qwen3 targets run in `transformers`' Qwen3ForCausalLM, targets of other families in its class for them
(family_goldens.py). The other *_goldens.py have one kind of drafter each. The DFlash drafter is implemented below, from
the paper (arXiv 2602.06036) and the checkpoint format. It caches nothing: every result is one full forward.

    pip install torch==2.11.0 transformers==5.23.0 safetensors==0.8.0
    python tests/parity/make_goldens.py            # rewrites tests/parity/goldens/
    python tests/parity/make_goldens.py NAME…      # rewrites the named cases

Each case folder has `target/`, for some `drafter/` (Hugging Face folders) and `golden.safetensors`. Shapes: T
tokens, V vocabulary, F feature width, N tree nodes without the root, γ = block_size − 1.
    tokens [T], logits [T, V], features [T, F]      a plain forward
    tree_tokens, tree_parents [N + 1], tree_logits [N + 1, V]
        a tree after the T tokens, root first with parent −1. A separate chain forward computes each row of logits
    draft_context [3]                               number of feature rows that are added before draft 0, 1, 2
    bonus_i [1], marginal_logits_i [γ, V]           the bonus token of draft i and the drafter's logits
"""

import itertools
import json
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import Qwen3ForCausalLM

import dflash2_goldens
import eagle_goldens
import family_goldens
import medusa_goldens
import parallel_goldens
import specblock_goldens
from drafter_parts import rope

GOLDENS = Path(__file__).resolve().parent / "goldens"
TOKENS, NODES, MAX_DEPTH = 40, 20, 7
DRAFT_CONTEXT = (20, 1, 7)


@dataclass(frozen=True)
class Case:
    """One pair of checkpoints. If `layer_ids` is None, the drafter's config has no target_layer_ids."""

    name: str
    seed: int
    heads: int
    kv_heads: int
    layers: int
    draft_layers: int
    layer_ids: tuple[int, ...] | None
    tied: bool = True
    head_dim: int = 32
    hidden: int = 32
    vocabulary: int = 200
    block: int = 8
    rope_theta: float = 10000.0
    sharded: bool = False
    draft_extra: dict = field(default_factory=dict)


SLIDING = {
    "use_sliding_window": True,
    "sliding_window": 12,
    "max_window_layers": 0,
    "layer_types": ["sliding_attention", "full_attention"],
}
CASES = [
    Case("gqa1_tied_draft1", 1, heads=2, kv_heads=2, layers=3, draft_layers=1, layer_ids=(1,), hidden=40),
    Case(
        "gqa2_untied_draft2",
        2,
        heads=4,
        kv_heads=2,
        layers=4,
        draft_layers=2,
        layer_ids=(0, 1, 2),
        tied=False,
        vocabulary=256,
        rope_theta=1000000.0,
    ),
    Case("gqa4_tied_draft5", 3, heads=4, kv_heads=1, layers=4, draft_layers=5, layer_ids=(0, 1, 2), block=16, vocabulary=211),
    # Inside the block, window layers are bidirectional, or causal (the authors' default for such layers).
    Case(
        "sliding_window",
        4,
        heads=2,
        kv_heads=1,
        layers=2,
        draft_layers=2,
        layer_ids=(0,),
        draft_extra={**SLIDING, "is_causal": False},
    ),
    Case("sliding_window_causal", 5, heads=2, kv_heads=1, layers=2, draft_layers=2, layer_ids=(0,), draft_extra=SLIDING),
    Case("default_layer_ids", 6, heads=2, kv_heads=1, layers=5, draft_layers=2, layer_ids=None),
    Case(
        "sharded_head_dim64",
        7,
        heads=2,
        kv_heads=1,
        layers=2,
        draft_layers=1,
        layer_ids=(0,),
        head_dim=64,
        tied=False,
        sharded=True,
    ),
]


def decoder_config(case: Case, layers: int) -> dict:
    """The part of config.json that the target and the drafter share."""
    return {
        "model_type": "qwen3",
        "hidden_size": case.hidden,
        "intermediate_size": case.hidden * 5 // 4,
        "num_hidden_layers": layers,
        "num_attention_heads": case.heads,
        "num_key_value_heads": case.kv_heads,
        "head_dim": case.head_dim,
        "vocab_size": case.vocabulary,
        "rope_theta": case.rope_theta,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 256,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": case.tied,
        "use_sliding_window": False,
        "sliding_window": None,
        "rope_scaling": None,
        "bos_token_id": None,
        "eos_token_id": 0,
        "torch_dtype": "float32",
    }


def target_config(case: Case) -> dict:
    return {"architectures": ["Qwen3ForCausalLM"], **decoder_config(case, case.layers)}


def draft_config(case: Case) -> dict:
    dflash: dict[str, int | list[int]] = {"mask_token_id": 1}
    if case.layer_ids is not None:
        dflash["target_layer_ids"] = list(case.layer_ids)
    return {
        "architectures": ["DFlashDraftModel"],
        **decoder_config(case, case.draft_layers),
        **case.draft_extra,
        "block_size": case.block,
        "num_target_layers": case.layers,
        "dflash_config": dflash,
    }


def layer_ids(config: dict) -> list[int]:
    """target_layer_ids of dflash_config. Default: evenly spaced from layer 1 to num_target_layers − 3."""
    ids = config["dflash_config"].get("target_layer_ids")
    if ids is not None:
        return ids
    layers, drafts = config["num_target_layers"], config["num_hidden_layers"]
    if drafts == 1:
        return [layers // 2]
    span = layers - 3 - 1
    return [round(1 + i * span / (drafts - 1)) for i in range(drafts)]


def random_decoder(config: dict, prefix: str) -> dict[str, torch.Tensor]:
    """Random layers of a Qwen3 decoder: matrices with standard deviation 1/sqrt(fan-in), norm weights around 1."""
    hidden, inner, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    shapes = {
        "self_attn.q_proj": (q, hidden),
        "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, q),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    norms = {"input_layernorm": hidden, "post_attention_layernorm": hidden, "self_attn.q_norm": d, "self_attn.k_norm": d}
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for name, (rows, columns) in shapes.items():
            tensors[f"{prefix}layers.{layer}.{name}.weight"] = torch.randn(rows, columns) / math.sqrt(columns)
        for name, width in norms.items():
            tensors[f"{prefix}layers.{layer}.{name}.weight"] = 1 + 0.2 * torch.randn(width)
    tensors[f"{prefix}norm.weight"] = 1 + 0.2 * torch.randn(hidden)
    return tensors


def write_target(case: Case, folder: Path) -> None:
    config = target_config(case)
    tensors = random_decoder(config, "model.")
    tensors["model.embed_tokens.weight"] = 0.4 * torch.randn(case.vocabulary, case.hidden)
    if not case.tied:
        tensors["lm_head.weight"] = 0.4 * torch.randn(case.vocabulary, case.hidden)
    write_json(folder / "config.json", config)
    if not case.sharded:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, members in parts.items():
        save_file({n: tensors[n] for n in members}, folder / file, metadata={"format": "pt"})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": size}, "weight_map": {n: f for f, ns in parts.items() for n in ns}},
    )


def write_drafter(case: Case, folder: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    config = draft_config(case)
    width = len(layer_ids(config)) * case.hidden
    tensors = random_decoder(config, "")
    tensors["fc.weight"] = torch.randn(case.hidden, width) / math.sqrt(width)
    tensors["hidden_norm.weight"] = 1 + 0.2 * torch.randn(case.hidden)
    write_json(folder / "config.json", config)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return config, tensors


def write_json(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def visible(config: dict, layer: int, positions: torch.Tensor, context: int) -> torch.Tensor:
    """Mask [block, context + block] of the keys that a block row sees, as in the authors' code.

    Rows of full layers see all keys. Rows of window layers see keys at distances below `sliding_window`.
    Inside the block, window layers are causal unless the config has `is_causal: false`.
    """
    queries, keys = positions[context:, None], positions[None, :]
    sees = torch.ones(len(queries), len(positions), dtype=torch.bool)
    kinds = config.get("layer_types")
    if kinds and kinds[layer] == "sliding_attention":
        sees &= (queries - keys).abs() < config["sliding_window"]
        if config.get("is_causal", True):
            sees &= keys <= queries
    return sees


def draft(config: dict, w: dict, target: torch.nn.Module, features: torch.Tensor, bonus: int) -> torch.Tensor:
    """Marginal logits [γ, V] after `bonus`, given the features [n, F] of all n committed tokens.

    The embedding and the LM head are the target's.
    """
    embedding, head = target.model.embed_tokens.weight, target.lm_head.weight
    n, block, d = len(features), config["block_size"], config["head_dim"]
    heads, kv_heads, theta = config["num_attention_heads"], config["num_key_value_heads"], config["rope_theta"]
    positions = torch.arange(n + block)
    ctx = rms_norm(features @ w["fc.weight"].T, w["hidden_norm.weight"])
    x = embedding[torch.tensor([bonus] + [config["dflash_config"]["mask_token_id"]] * (block - 1))]
    for i in range(config["num_hidden_layers"]):
        p = {name.removeprefix(f"layers.{i}."): t for name, t in w.items() if name.startswith(f"layers.{i}.")}
        normed = rms_norm(x, p["input_layernorm.weight"])
        rows = torch.cat([ctx, normed])  # No input_layernorm for ctx rows.
        q = (normed @ p["self_attn.q_proj.weight"].T).view(block, heads, d)
        k = (rows @ p["self_attn.k_proj.weight"].T).view(n + block, kv_heads, d)
        v = (rows @ p["self_attn.v_proj.weight"].T).view(n + block, kv_heads, d)
        q = rope(rms_norm(q, p["self_attn.q_norm.weight"]), positions[n:], theta)
        k = rope(rms_norm(k, p["self_attn.k_norm.weight"]), positions, theta)
        k, v = k.repeat_interleave(heads // kv_heads, 1), v.repeat_interleave(heads // kv_heads, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)
        weights = scores.masked_fill(~visible(config, i, positions, n), -math.inf).softmax(-1)
        attended = torch.einsum("hqk,khd->qhd", weights, v).reshape(block, heads * d)
        x = x + attended @ p["self_attn.o_proj.weight"].T
        normed = rms_norm(x, p["post_attention_layernorm.weight"])
        inner = F.silu(normed @ p["mlp.gate_proj.weight"].T) * (normed @ p["mlp.up_proj.weight"].T)
        x = x + inner @ p["mlp.down_proj.weight"].T
    return rms_norm(x, w["norm.weight"])[1:] @ head.T


def random_tree(vocabulary: int, nodes: int) -> tuple[list[int], list[int]]:
    """Tokens and parents of a random tree: parents first, distinct siblings, depth at most MAX_DEPTH."""
    tokens, parents, depths = [int(torch.randint(8, vocabulary, (1,)))], [-1], [0]
    while len(tokens) < nodes + 1:
        parent = int(torch.randint(len(tokens), (1,)))
        token = int(torch.randint(8, vocabulary, (1,)))
        taken = any(p == parent and t == token for t, p in zip(tokens, parents))
        if depths[parent] < MAX_DEPTH and not taken:
            tokens.append(token)
            parents.append(parent)
            depths.append(depths[parent] + 1)
    return tokens, parents


def tree_logits(model: torch.nn.Module, tokens: torch.Tensor, tree: list[int], parents: list[int]) -> torch.Tensor:
    """Logits [N + 1, V]. A separate forward computes each row: the tokens, the ancestors of the row, the row."""
    rows = []
    for index in range(len(tree)):
        path: list[int] = []
        node = index
        while node >= 0:
            path.insert(0, tree[node])
            node = parents[node]
        rows.append(model(torch.cat([tokens, torch.tensor(path)])[None]).logits[0, -1])
    return torch.stack(rows)


@torch.no_grad()
def target_golden(model: torch.nn.Module, ids: list[int], length: int = TOKENS, nodes: int = NODES) -> dict[str, torch.Tensor]:
    """The tensors of a golden that do not depend on a drafter. `ids`: the layers of the features."""
    vocabulary = model.config.vocab_size
    tokens = torch.randint(8, vocabulary, (length,))
    out = model(tokens[None], output_hidden_states=True)
    assert max(ids) + 1 < model.config.num_hidden_layers  # hidden_states[layers] is the output of the final norm
    features = torch.cat([out.hidden_states[i + 1][0] for i in ids], -1)
    tree, parents = random_tree(vocabulary, nodes)
    return {
        "tokens": tokens,
        "logits": out.logits[0],
        "features": features,
        "tree_tokens": torch.tensor(tree),
        "tree_parents": torch.tensor(parents),
        "tree_logits": tree_logits(model, tokens, tree, parents),
    }


def save_golden(golden: dict[str, torch.Tensor], folder: Path) -> None:
    save_file({k: v.contiguous().clone() for k, v in golden.items()}, folder / "golden.safetensors")


@torch.no_grad()
def make(case: Case) -> None:
    torch.manual_seed(case.seed)
    folder = GOLDENS / case.name
    write_target(case, folder / "target")
    config, weights = write_drafter(case, folder / "drafter")
    model = Qwen3ForCausalLM.from_pretrained(folder / "target", dtype=torch.float32, attn_implementation="eager").eval()
    ids = layer_ids(config)
    golden = target_golden(model, ids)
    tokens, features = golden["tokens"], golden["features"]
    golden["draft_context"] = torch.tensor(DRAFT_CONTEXT)
    committed = 0
    for i, more in enumerate(DRAFT_CONTEXT):
        committed += more
        bonus = int(tokens[committed])
        golden[f"bonus_{i}"] = torch.tensor([bonus])
        golden[f"marginal_logits_{i}"] = draft(config, weights, model, features[:committed], bonus)
    save_golden(golden, folder)
    spread = golden["logits"].std().item(), golden["marginal_logits_2"].std().item()
    print(f"{case.name}: layer ids {ids}, std of logits {spread[0]:.2f}, of marginals {spread[1]:.2f}")


def main() -> None:
    only = set(sys.argv[1:])
    for name in only or ["."]:
        shutil.rmtree(GOLDENS / name, ignore_errors=True)
    for case in CASES:
        if not only or case.name in only:
            make(case)
    for name, model, ids in family_goldens.make_all(GOLDENS, only):
        golden = {**target_golden(model, list(ids)), "layer_ids": torch.tensor(ids)}
        golden.update(family_goldens.touched_experts(model, golden["tokens"]))
        save_golden(golden, GOLDENS / name)
        print(f"{name}: layer ids {list(ids)}, std of logits {golden['logits'].std().item():.2f}")
    with_features = eagle_goldens, specblock_goldens, parallel_goldens, dflash2_goldens
    drafters: Iterator[tuple[str, torch.nn.Module, Any]] = itertools.chain(
        *(module.make_all(GOLDENS, only) for module in with_features)
    )
    for name, model, drafter in drafters:
        golden = target_golden(model, list(drafter.case.layer_ids), eagle_goldens.TOKENS, eagle_goldens.NODES)
        golden.update(drafter.golden(golden["tokens"], golden["features"]))
        save_golden(golden, GOLDENS / name)
        print(f"{name}: layer ids {list(drafter.case.layer_ids)}, std of logits {golden['logits'].std().item():.2f}")
    for name, heads in medusa_goldens.make_all(GOLDENS, only):
        golden = heads.golden()
        tree, parents = random_tree(eagle_goldens.VOCABULARY, eagle_goldens.NODES)
        golden["tree_logits"] = tree_logits(heads.target, golden["tokens"], tree, parents)
        golden |= {"tree_tokens": torch.tensor(tree), "tree_parents": torch.tensor(parents)}
        save_golden(golden, GOLDENS / name)
    size = sum(f.stat().st_size for f in GOLDENS.rglob("*") if f.is_file())
    print(f"{size / 1e6:.2f} MB in {GOLDENS.name}/")
    assert size < 7e6


if __name__ == "__main__":
    main()
