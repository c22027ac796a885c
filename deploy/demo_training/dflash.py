"""The DFlash drafter (Chen et al., arXiv 2602.06036) in z-lab's checkpoint layout, plain PyTorch.

One forward computes the marginals of the γ = block_size − 1 tokens after an anchor. Keys and values come from
the target's features of the committed tokens (projected once, `ctx`) and from the block [anchor token, MASK ×
γ]. Queries come from the block only. A block row attends to every ctx row before its anchor and to all rows
of its own block. Shapes: B sequences, T committed tokens, A anchors per sequence, K block size, C hidden, F
feature width.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from demo_training.grow import copy_layer
from demo_training.qwen3 import Config, Layer, Qwen3, RMSNorm, rope_table

BLOCK = 8
TARGET_LAYERS = (2, 4, 7)
MASK_TOKEN = 1


@dataclass(frozen=True)
class DraftConfig:
    """The drafter's dims. `decoder`: the target's config with fewer layers and feed-forward units."""

    decoder: Config = replace(Config(), num_hidden_layers=2, intermediate_size=896)
    target_layers: int = Config().num_hidden_layers

    def to_json(self) -> dict:
        """config.json of the drafter."""
        return {
            **self.decoder.to_json(),
            "architectures": ["DFlashDraftModel"],
            "block_size": BLOCK,
            "num_target_layers": self.target_layers,
            "layer_types": ["full_attention"] * self.decoder.num_hidden_layers,
            "dflash_config": {"target_layer_ids": list(TARGET_LAYERS), "mask_token_id": MASK_TOKEN},
        }


class DFlash(nn.Module):
    """The drafter. It has no embedding and no LM head: callers pass those of the target."""

    def __init__(self, config: DraftConfig):
        super().__init__()
        c = config.decoder
        self.config = config
        self.fc = nn.Linear(len(TARGET_LAYERS) * c.hidden_size, c.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                zero = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.0 if zero else parameter.shape[1] ** -0.5)

    def forward(self, embedding: Tensor, features: Tensor, tokens: Tensor, anchors: Tensor) -> Tensor:
        """Hidden states of the γ mask rows of every block.

        embedding [V, C], features [B, T, F], tokens [B, A] (the anchors' own tokens), anchors [B, A] (positions; block
        a sees ctx rows 0..anchor−1) -> [B, A, γ, C], to be multiplied by the LM head.
        """
        batch, count = anchors.shape
        ctx = self.hidden_norm(self.fc(features))
        ids = torch.full((batch, count, BLOCK), MASK_TOKEN)
        ids[:, :, 0] = tokens
        x = nn.functional.embedding(ids, embedding).flatten(1, 2)
        block_positions = (anchors.unsqueeze(-1) + torch.arange(BLOCK)).flatten(1)
        ctx_rope = rope_table(torch.arange(ctx.shape[1]), self.config.decoder)
        block_rope = rope_table(block_positions, self.config.decoder)
        mask = block_mask(anchors, ctx.shape[1])
        for layer in self.layers:
            x = draft_layer(layer, x, ctx, (ctx_rope, block_rope), mask)
        return self.norm(x).unflatten(1, (count, BLOCK))[:, :, 1:]


def start_from_target(drafter: DFlash, target: Qwen3) -> None:
    """Sets initial weights.

    Copies the target's last layers (their first feed-forward units) and its final norm. `fc`
    starts as a selection of the last tapped layer plus small noise, so that the context's keys and values
    start close to those of the target.
    """
    layers = list(target.model.layers)[-len(drafter.layers) :]
    hidden = drafter.fc.weight.shape[0]
    with torch.no_grad():
        for ours, theirs in zip(drafter.layers, layers):
            copy_layer(ours, theirs)
        drafter.fc.weight.mul_(0.1)[:, -hidden:] += torch.eye(hidden)
        drafter.hidden_norm.weight.copy_(layers[-1].input_layernorm.weight)
        drafter.norm.weight.copy_(target.model.norm.weight)


def block_mask(anchors: Tensor, context: int) -> Tensor:
    """The mask [B, 1, A·K, T + A·K]: a row attends to the ctx rows before its anchor and to its own block."""
    batch, count = anchors.shape
    row_anchor = anchors.repeat_interleave(BLOCK, dim=1)
    sees_ctx = torch.arange(context) < row_anchor.unsqueeze(-1)
    owner = torch.arange(count).repeat_interleave(BLOCK)
    own_block = (owner[:, None] == owner[None, :]).expand(batch, -1, -1)
    return torch.cat([sees_ctx, own_block], dim=-1).unsqueeze(1)


def draft_layer(layer: Layer, x: Tensor, ctx: Tensor, ropes: tuple[tuple, tuple], mask: Tensor) -> Tensor:
    """One decoder layer on block rows x [B, A·K, C]. ctx [B, T, C] is projected without input_layernorm."""
    attention = layer.self_attn
    ctx_rope, block_rope = ropes
    normed = layer.input_layernorm(x)
    ctx_k, ctx_v = attention.keys_values(ctx, ctx_rope)
    block_k, block_v = attention.keys_values(normed, block_rope)
    k, v = torch.cat([ctx_k, block_k], dim=2), torch.cat([ctx_v, block_v], dim=2)
    x = x + attention.attend(attention.queries(normed, block_rope), k, v, mask, causal=False)
    return x + layer.mlp(layer.post_attention_layernorm(x))
