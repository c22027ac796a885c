"""Parity goldens of SpecBlock drafters: tiny random checkpoints in the format of the authors' drafters.

The drafter is implemented below. It caches nothing: every result is one full forward. A block has K rows, which share
a token and a condition. Row k of a block, counted from 1, predicts the k-th token after the block's token.

Block t of the committed tokens has token t, and a condition from the target's features of token t − 1. Token 0 has no
block. Its row k is at position t + k − 1, and sees all rows of the blocks before t. The last of these blocks has the
root of the tree as its token.

A later block starts from a token that a row of an earlier block predicted. Its condition is the state of that row. It
sees the rows of the earlier blocks that are on its path, and no other rows of this draft. Its row k is at the position
of row k of the root's block. With block_positions "path", the position is greater by the number of tokens on the path
from the root to the block's token, without the root.

make_goldens.py describes the tensors of the targets. D: draft vocabulary, S: starts of later blocks. Block 0 is that of
the root, and block s + 1 starts from start s.
    layer_ids [3]                                  the layers whose outputs are the features
    draft_context [3]                              number of feature rows that are added before draft 0, 1, 2
    draft_ids [D]                                  the target's token of each column of the drafter's logits
    bonus_i [1]                                    the token that follows the committed ones: the root of draft i
    block_logits_i [K, D], rank_logits_i [K, 4]    the outputs of the root's block
    start_parent_i [S]                             the block whose row predicted the token of the start
    start_row_i [S]                                that row, counted from 0
    start_token_i [S]                              the token, as the target numbers it
    start_logits_i [S, K, D], start_ranks_i [S, K, 4]
The tokens of the rows before start_row_i are the likeliest ones of these rows. Without a rank head, the tensors
rank_logits_i and start_ranks_i are absent.
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
from eagle_goldens import (
    DEFAULT_LAYER_IDS,
    DRAFT_CONTEXT,
    HIDDEN,
    LLAMA_TARGET,
    QWEN3_TARGET,
    VOCABULARY,
    head_dim,
    llama_block,
    rope_theta,
)

RANK_FEATURES, RANK_CLASSES = 15, 4
TOP = 20  # The rank features are normalized over this many logits.


@dataclass(frozen=True)
class SpecBlock:
    """One pair of checkpoints."""

    name: str
    seed: int
    target: dict
    config: dict
    layer_ids: tuple[int, ...] = DEFAULT_LAYER_IDS
    draft_vocabulary: int = 64
    dtype: torch.dtype = torch.bfloat16

    @property
    def positions(self) -> int:
        """K."""
        return self.config["diffspec_draft_token_num"]

    @property
    def layers(self) -> int:
        return self.config["num_hidden_layers"]

    @property
    def ranks(self) -> bool:
        return self.config.get("rank_classes", RANK_CLASSES) > 0


CASES = [
    # As the authors' drafter for Llama. The drafter has no rope_theta: it uses 10000, not the target's.
    SpecBlock(
        "specblock_shift",
        81,
        target={**LLAMA_TARGET, "tie_word_embeddings": False},
        config=llama_block(
            architectures=["LlamaForCausalLMSpecBlockShift"],
            num_hidden_layers=2,
            torch_dtype="float16",
            bos_token_id=1,
            eos_token_id=0,
            pad_token_id=0,
            draft_vocab_size=64,
            diffspec_draft_token_num=4,
            rank_classes=4,
            _comment_specblock_shift="SpecBlock Shift specific parameters",
        ),
        dtype=torch.float16,
    ),
    # The layer numbers count inputs. The config does not name the number of rank classes.
    SpecBlock(
        "specblock_path",
        82,
        target={**QWEN3_TARGET, "tie_word_embeddings": False},
        config=llama_block(
            architectures=["LlamaForCausalLMSpecBlock"],
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            rope_theta=1000000,
            rope_scaling=None,
            rms_norm_eps=1e-6,
            draft_vocab_size=64,
            diffspec_draft_token_num=3,
            block_positions="path",
            eagle_aux_hidden_state_layer_ids=[3, 5, 6],
        ),
        layer_ids=(2, 4, 5),
    ),
    SpecBlock(
        "specblock_one_layer",
        83,
        target=LLAMA_TARGET,
        config=llama_block(
            architectures=["LlamaForCausalLMSpecBlock"],
            rope_theta=500000.0,
            draft_vocab_size=None,
            diffspec_draft_token_num=4,
            rank_classes=0,
            block_positions="same",
        ),
        draft_vocabulary=VOCABULARY,
    ),
    # The layer numbers count outputs, because they begin with 1.
    SpecBlock(
        "specblock_three_layers",
        84,
        target=QWEN3_TARGET,
        config=llama_block(
            architectures=["LlamaForCausalLMSpecBlock"],
            num_hidden_layers=3,
            num_key_value_heads=2,
            rope_theta=1000000,
            draft_vocab_size=64,
            target_hidden_size=HIDDEN,
            diffspec_draft_token_num=4,
            rank_classes=4,
            num_ttt_blocks=3,
            eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 2, 5]},
        ),
        layer_ids=(1, 2, 5),
    ),
]


def matrices(case: SpecBlock) -> dict[str, tuple[int, int]]:
    """The names and the shapes of the matrices, without the head and the queries of the positions."""
    config = case.config
    inner, d = config["intermediate_size"], head_dim(config)
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    shapes = {
        "input_layer.condition_proj": (HIDDEN, len(case.layer_ids) * HIDDEN),
        "input_layer.fuse": (HIDDEN, 3 * HIDDEN),
    }
    for i in range(case.layers):
        shapes[f"layers.{i}.self_attn.q_proj"] = (q, HIDDEN)
        shapes[f"layers.{i}.self_attn.k_proj"] = (kv, HIDDEN)
        shapes[f"layers.{i}.self_attn.v_proj"] = (kv, HIDDEN)
        shapes[f"layers.{i}.self_attn.o_proj"] = (HIDDEN, q)
        shapes[f"layers.{i}.mlp.gate_proj"] = (inner, HIDDEN)
        shapes[f"layers.{i}.mlp.up_proj"] = (inner, HIDDEN)
        shapes[f"layers.{i}.mlp.down_proj"] = (HIDDEN, inner)
        if i > 0:
            shapes[f"shift_proj.{i - 1}"] = (HIDDEN, 2 * HIDDEN)
    if case.ranks:
        width = min(256, HIDDEN)
        shapes["rank_head.0"] = (width, HIDDEN + RANK_FEATURES)
        shapes["rank_head.2"] = (RANK_CLASSES, width)
    return shapes


def norms(case: SpecBlock) -> list[str]:
    """The names of the norms."""
    names = ["input_layer.condition_norm", "input_layer.token_norm", "input_layer.query_norm", "norm"]
    for i in range(case.layers):
        names += [f"layers.{i}.input_layernorm", f"layers.{i}.post_attention_layernorm"]
    return names


def write_drafter(case: SpecBlock, folder: Path) -> dict[str, torch.Tensor]:
    """Writes the drafter, and returns its weights in fp32 after they were rounded to the type of the case."""
    weights = {f"{name}.weight": torch.randn(shape) / math.sqrt(shape[1]) for name, shape in matrices(case).items()}
    weights.update({f"{name}.weight": 1 + 0.2 * torch.randn(HIDDEN) for name in norms(case)})
    weights["input_layer.position_queries.weight"] = 0.02 * torch.randn(case.positions, HIDDEN)
    if case.ranks:  # The rank features have large means, which would choose one class for all rows.
        weights["rank_head.0.weight"][:, HIDDEN:] *= 0.2
    weights["lm_head.weight"] = 0.4 * torch.randn(case.draft_vocabulary, HIDDEN)
    stored, weights = drafter_parts.round_weights(weights, case.dtype)
    drafter_parts.add_draft_tokens([stored, weights], case.draft_vocabulary, VOCABULARY)
    drafter_parts.write_checkpoint(folder, case.config, stored)
    return weights


@dataclass(frozen=True)
class Block:
    """K rows that share a token and a condition."""

    token: int
    condition: torch.Tensor  # [C], before its norm.
    position: int  # The position of the first row.
    seen: list[int]  # How many rows of each block before this one its rows see.


@dataclass(frozen=True)
class Start:
    """Where a later block starts."""

    parent: int  # The block whose row predicted the token. 0: the root's block, s + 1: that of start s.
    row: int  # Counted from 0.
    rank: int  # The rank of the token among the row's tokens, counted from 0.


def starts(draft: int, positions: int) -> list[Start]:
    """Starts at the first row (two siblings), the second and the last, then one start of a third level."""
    first = [Start(0, 0, 0), Start(0, 0, 3), Start(0, 1, 1), Start(0, positions - 1, 0)]
    return [*first, Start(1 + (draft + 2) % len(first), draft, 2)]


class Drafter:
    """The reference. Its sequences are whole: all blocks from token 1 on."""

    def __init__(self, case: SpecBlock, weights: dict[str, torch.Tensor], embedding: torch.Tensor) -> None:
        self.case, self.config, self.weights, self.embedding = case, case.config, weights, embedding

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return x * scale * self.weights[f"{name}.weight"]

    def matmul(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self.weights[f"{name}.weight"].T

    def inputs(self, block: Block) -> torch.Tensor:
        """What the first layer reads [K, C]."""
        queries = self.norm(self.weights["input_layer.position_queries.weight"], "input_layer.query_norm")
        condition = self.norm(block.condition, "input_layer.condition_norm").expand_as(queries)
        token = self.norm(self.embedding[block.token], "input_layer.token_norm").expand_as(queries)
        return self.matmul(torch.cat([condition, token, queries], -1), "input_layer.fuse")

    def shift(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        """Mixes each row of the blocks x [B, K, C] with the row before it. A first row is mixed with itself."""
        previous = torch.cat([x[:, :1], x[:, :-1]], 1)
        return self.matmul(torch.cat([x, previous], -1), f"shift_proj.{layer - 1}")

    def attention(self, x: torch.Tensor, layer: int, positions: torch.Tensor, sees: torch.Tensor) -> torch.Tensor:
        p = f"layers.{layer}.self_attn."
        q, k, v = (self.matmul(x, f"{p}{name}_proj").unflatten(-1, (-1, head_dim(self.config))) for name in "qkv")
        theta = rope_theta(self.config)
        q, k = rope(q, positions, theta), rope(k, positions, theta)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        attended = torch.einsum("hqk,khd->qhd", scores.masked_fill(~sees, -math.inf).softmax(-1), v)
        return self.matmul(attended.flatten(1), f"{p}o_proj")

    def forward(self, blocks: list[Block]) -> torch.Tensor:
        """The states [B, K, C] of all rows, before the final norm."""
        count = self.case.positions
        positions = torch.cat([block.position + torch.arange(count) for block in blocks])
        sees = visible(blocks, count)
        x = torch.stack([self.inputs(block) for block in blocks])
        for layer in range(self.case.layers):
            rows = (x if layer == 0 else self.shift(x, layer)).flatten(0, 1)
            p = f"layers.{layer}."
            rows = rows + self.attention(self.norm(rows, f"{p}input_layernorm"), layer, positions, sees)
            normed = self.norm(rows, f"{p}post_attention_layernorm")
            inner = F.silu(self.matmul(normed, f"{p}mlp.gate_proj")) * self.matmul(normed, f"{p}mlp.up_proj")
            x = (rows + self.matmul(inner, f"{p}mlp.down_proj")).view_as(x)
        return x

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return self.matmul(self.norm(states, "norm"), "lm_head")

    def ranks(self, states: torch.Tensor) -> torch.Tensor:
        """The logits [K, 4] of the classes of the target's token's rank."""
        top = self.logits(states).topk(TOP).values
        p = top.softmax(-1)
        gaps = [top[:, 0] - top[:, other] for other in (1, 2, 4)]
        entropy = -(p * p.log()).sum(-1)
        features = torch.cat([p[:, :10].log(), torch.stack([*gaps, p[:, 0], entropy], -1)], -1)
        hidden = self.matmul(torch.cat([self.norm(states, "norm"), features], -1), "rank_head.0")
        return self.matmul(F.silu(hidden), "rank_head.2")

    def committed_blocks(self, tokens: torch.Tensor, features: torch.Tensor) -> list[Block]:
        """The blocks of tokens 1, 2, … from the features of the tokens before them. The last token is the root."""
        conditions = self.matmul(features, "input_layer.condition_proj")
        count = self.case.positions
        return [Block(int(tokens[t]), conditions[t - 1], t, [count] * (t - 1)) for t in range(1, len(tokens))]

    def after_path(self, committed: list[Block], path: list[tuple[int, int]]) -> torch.Tensor:
        """The states [K, C] of the last block of a path: pairs of the row that predicted a start, and its token."""
        blocks, on_path = list(committed), list[int]()
        root = committed[-1]
        for row, token in path:
            condition = self.forward(blocks)[-1, row]
            on_path.append(row + 1)
            depth = sum(on_path) if self.config.get("block_positions") == "path" else 0
            blocks.append(Block(token, condition, root.position + depth, root.seen + on_path))
        return self.forward(blocks)[-1]

    def draft(self, committed: list[Block], draft: int, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors of one draft."""
        paths: list[list[tuple[int, int]]] = [[]]
        states = [self.after_path(committed, [])]
        chosen = starts(draft, self.case.positions)
        for start in chosen:
            token = ids[self.logits(states[start.parent][start.row]).argsort(descending=True)[start.rank]]
            paths.append([*paths[start.parent], (start.row, int(token))])
            states.append(self.after_path(committed, paths[-1]))
        tensors = {
            "bonus": torch.tensor([committed[-1].token]),
            "block_logits": self.logits(states[0]),
            "start_parent": torch.tensor([start.parent for start in chosen]),
            "start_row": torch.tensor([start.row for start in chosen]),
            "start_token": torch.tensor([path[-1][1] for path in paths[1:]]),
            "start_logits": torch.stack([self.logits(state) for state in states[1:]]),
        }
        if self.case.ranks:
            tensors["rank_logits"] = self.ranks(states[0])
            tensors["start_ranks"] = torch.stack([self.ranks(state) for state in states[1:]])
        return tensors

    @torch.no_grad()
    def golden(self, tokens: torch.Tensor, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors that depend on the drafter."""
        offsets = self.weights.get("d2t", torch.zeros(self.case.draft_vocabulary, dtype=torch.int64))
        ids = offsets + torch.arange(self.case.draft_vocabulary)
        golden = {
            "layer_ids": torch.tensor(self.case.layer_ids),
            "draft_context": torch.tensor(DRAFT_CONTEXT),
            "draft_ids": ids,
        }
        committed = 0
        for i, more in enumerate(DRAFT_CONTEXT):
            committed += more
            blocks = self.committed_blocks(tokens[: committed + 1], features[:committed])
            for name, tensor in self.draft(blocks, i, ids).items():
                golden[f"{name}_{i}"] = tensor
        return golden


def visible(blocks: list[Block], count: int) -> torch.Tensor:
    """Mask [B K, B K] of the rows that each row sees: of its own block, itself and the rows before it."""
    sees = torch.zeros(len(blocks), count, len(blocks), count, dtype=torch.bool)
    for b, block in enumerate(blocks):
        assert len(block.seen) == b
        for earlier, rows in enumerate(block.seen):
            sees[b, :, earlier, :rows] = True
        sees[b, :, b] = torch.ones(count, count, dtype=torch.bool).tril()
    return sees.reshape(len(blocks) * count, -1)


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, torch.nn.Module, Drafter]]:
    """Writes the named cases, or all. Yields the name, the target and the drafter of each."""
    for case in CASES:
        if only and case.name not in only:
            continue
        family = family_goldens.Family(case.name, case.seed, case.target, saved=False)
        target = family_goldens.write(family, folder / case.name / "target")
        weights = write_drafter(case, folder / case.name / "drafter")
        yield case.name, target, Drafter(case, weights, target.get_input_embeddings().weight.detach())
