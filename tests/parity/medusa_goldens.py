"""Parity goldens of Medusa heads: tiny random checkpoints in the formats of the authors and of TGI.

All heads read the target's last hidden state after its final norm, as `transformers` returns it, at the last committed
token. The features of the golden are the output of the last layer, before that norm.

make_goldens.py describes the tensors of the targets. P: heads, V: vocabulary.
    layer_ids [1]               the last layer
    draft_context [3]           number of feature rows that are added before draft 0, 1, 2
    draft_ids [V]               the tokens of the columns of the logits: all
    bonus_i [1]                 the token that follows the committed ones: the root of draft i
    marginal_logits_i [P, V]    the logits of the heads
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import drafter_parts
import family_goldens
from eagle_goldens import DRAFT_CONTEXT, HIDDEN, LLAMA_TARGET, QWEN3_TARGET, TOKENS, VOCABULARY


@dataclass(frozen=True)
class Medusa:
    """One pair of checkpoints."""

    name: str
    seed: int
    target: dict
    heads: int
    blocks: int
    prefix: str
    file: str
    config: dict
    shared_blocks: bool  # The blocks of a head are one block, which the file has once.
    own_matrices: bool  # False: the heads use the target's LM head.


CASES = [
    # The config names fewer heads than there are.
    Medusa(
        "medusa_shared_blocks",
        95,
        target={**QWEN3_TARGET, "num_hidden_layers": 2},
        heads=3,
        blocks=2,
        prefix="medusa_head.",
        file="model.safetensors",
        config={"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "target", "version": "2"},
        shared_blocks=True,
        own_matrices=True,
    ),
    Medusa(
        "medusa_target_head",
        96,
        target={**LLAMA_TARGET, "num_hidden_layers": 3, "tie_word_embeddings": False},
        heads=4,
        blocks=1,
        prefix="",
        file="medusa_lm_head.safetensors",
        config={"medusa_num_heads": 4, "medusa_num_layers": 1, "base_model_name_or_path": "target"},
        shared_blocks=False,
        own_matrices=False,
    ),
]


def write_heads(case: Medusa, folder: Path) -> dict[str, torch.Tensor]:
    """Writes the heads, and returns their weights in fp32 after they were rounded."""
    weights = {}
    for head in range(case.heads):
        for block in range(1 if case.shared_blocks else case.blocks):
            name = f"{case.prefix}{head}.{block}.linear"
            weights[f"{name}.weight"] = torch.randn(HIDDEN, HIDDEN) / math.sqrt(HIDDEN)
            weights[f"{name}.bias"] = 0.3 * torch.randn(HIDDEN)
        if case.own_matrices:
            weights[f"{case.prefix}{head}.{case.blocks}.weight"] = 0.4 * torch.randn(VOCABULARY, HIDDEN)
    stored, weights = drafter_parts.round_weights(weights, torch.bfloat16)
    drafter_parts.write_checkpoint(folder, case.config, stored, case.file)
    return weights


class Heads:
    """The reference."""

    def __init__(self, case: Medusa, weights: dict[str, torch.Tensor], target: torch.nn.Module) -> None:
        self.case, self.weights, self.target = case, weights, target

    def logits(self, state: torch.Tensor, head: int) -> torch.Tensor:
        """The logits [V] of a head for a normed state [C]."""
        prefix = f"{self.case.prefix}{head}."
        for block in range(self.case.blocks):
            name = f"{prefix}{0 if self.case.shared_blocks else block}.linear"
            state = state + F.silu(self.weights[f"{name}.weight"] @ state + self.weights[f"{name}.bias"])
        if not self.case.own_matrices:
            return self.target.lm_head(state)
        return self.weights[f"{prefix}{self.case.blocks}.weight"] @ state

    @torch.no_grad()
    def golden(self) -> dict[str, torch.Tensor]:
        """All tensors of the golden, without a tree."""
        tokens = torch.randint(8, VOCABULARY, (TOKENS,))
        outputs: list[torch.Tensor] = []
        last = self.target.model.layers[-1]
        hook = last.register_forward_hook(lambda _module, _inputs, out: outputs.append(out))
        result = self.target(tokens[None], output_hidden_states=True)
        hook.remove()
        states, output = result.hidden_states[-1][0], outputs[0]
        features = (output[0] if isinstance(output, tuple) else output).reshape(TOKENS, HIDDEN)
        assert not torch.allclose(states, features), "the norm changes the features"
        golden = {
            "tokens": tokens,
            "logits": result.logits[0],
            "features": features,
            "layer_ids": torch.tensor([self.target.config.num_hidden_layers - 1]),
            "draft_context": torch.tensor(DRAFT_CONTEXT),
            "draft_ids": torch.arange(VOCABULARY),
        }
        committed = 0
        for i, more in enumerate(DRAFT_CONTEXT):
            committed += more
            golden[f"bonus_{i}"] = tokens[committed : committed + 1]
            marginals = [self.logits(states[committed - 1], head) for head in range(self.case.heads)]
            golden[f"marginal_logits_{i}"] = torch.stack(marginals)
        return golden


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, Heads]]:
    """Writes the named cases, or all. Yields the name and the heads of each."""
    for case in CASES:
        if only and case.name not in only:
            continue
        family = family_goldens.Family(case.name, case.seed, case.target, saved=False)
        target = family_goldens.write(family, folder / case.name / "target")
        yield case.name, Heads(case, write_heads(case, folder / case.name / "drafter"), target)
