"""Grows a trained target into a larger one that computes the same function (progressive stacking).

Inserted layers are copies of the layer before them with zero output projections. Added feed-forward units
have zero columns in `down_proj`. Both start as no-ops, so training continues at the loss it had reached.
The small model is faster, so training for a fixed time processes more tokens.
"""

from dataclasses import replace

import torch

from demo_training.qwen3 import Config, Layer, Qwen3

GROW_AT = 0.45  # Share of the training time after which the model grows.
INITIAL = replace(Config(), num_hidden_layers=6, intermediate_size=896)
COPIES = (0, 0, 1, 2, 2, 3, 4, 4, 5)  # For each layer of the grown model, the layer of the small model.


def widen(layer: Layer, units: int) -> None:
    """Makes all feed-forward units after the first `units` no-ops."""
    with torch.no_grad():
        layer.mlp.down_proj.weight[:, units:].zero_()


def copy_layer(ours: Layer, theirs: Layer) -> None:
    """Copies the weights of `theirs`. Copies only as many feed-forward units as both layers have."""
    units = min(ours.mlp.gate_proj.weight.shape[0], theirs.mlp.gate_proj.weight.shape[0])
    source = theirs.state_dict()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            part = source[name]
            if name.startswith("mlp.down_proj"):
                parameter[:, :units].copy_(part[:, :units])
            elif name.startswith("mlp."):
                parameter[:units].copy_(part[:units])
            else:
                parameter.copy_(part)


def grown(small: Qwen3, config: Config) -> Qwen3:
    """A model of `config` whose logits equal those of `small`."""
    model = Qwen3(config)
    body, source_body = model.model, small.model
    body.embed_tokens.load_state_dict(source_body.embed_tokens.state_dict())
    body.norm.load_state_dict(source_body.norm.state_dict())
    previous = -1
    for layer, source in zip(body.layers, COPIES, strict=True):
        copy_layer(layer, source_body.layers[source])
        widen(layer, small.config.intermediate_size)
        if source == previous:
            with torch.no_grad():
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
        previous = source
    return model


def first(layers: int | None) -> Qwen3:
    """The model to begin with or, given the number of layers in a checkpoint, to continue with."""
    return Qwen3(INITIAL if layers in (None, INITIAL.num_hidden_layers) else Config())


def grow_when_due(model: Qwen3, share: float) -> Qwen3:
    """The model to train after this share of the training time."""
    return grown(model, Config()) if share >= GROW_AT and model.config == INITIAL else model
