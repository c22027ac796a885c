#!/usr/bin/env python3
"""Grows a Qwen3 target and its DFlash drafter to a larger shape that computes the same function.

    build/venv/bin/python deploy/measure/inflate.py --target DIR --drafter DIR \\
        --profile cpu-1b --out DIR

Writes OUT/target and OUT/drafter: a pair with the acceptance of the small models and the cost of
large ones, for machines without the weights of a large pair. Logits change by less than 1e-3 in
fp32. Needs only numpy.

How it works, for hidden width d -> D and head size h -> H (inflate_maps.py places the indices):
  hidden      Zeros follow the real dims. A norm divides by the root of a mean over D, so its
              weights become weight·√(d/D) and its eps becomes eps·d/D.
  heads       Rotary pair j goes to pair j·H/h, which turns at the same rate. The dims between are
              zero. Both norms become √(H/h) larger, and the scale 1/√H compensates for one of
              them: the q-norm is unchanged, the k-norm becomes k-norm·√(h/H). (A config has only
              one eps. For these norms it is wrong by less than the source's eps, 1e-6, which is
              negligible relative to a mean square near 1.)
  more heads, units, layers
              Random weights, which cost as much time as real weights, followed by output
              projections of zeros. A key/value head that serves more query heads than the new
              shape allows is copied. Extra layers lie between the real layers, and the drafter's
              target_layer_ids are adjusted. Extra tapped layers are multiplied by zero columns of
              `fc`.
  vocabulary  One spare hidden dim holds a small constant (2^-17) in every real token's embedding.
              No layer reads it or adds to it. The final norms make it large, and a new token's row
              multiplies it by -2^15, so that the probability of a new token is 0. The logits of
              all real tokens are shifted by the same tiny amount.
Weights that are only multiplied by zeros are random, so that power and clock rates are realistic.
Matrices keep the dtype and the bits of the source. Norms are written in fp32, because the factors
are not exact in bf16.

Profiles: the shapes of Qwen3-0.6B (cpu-1b), 1.7B (cpu-2b), 4B and 8B, with drafters as z-lab
publishes them: layers like the target's (5 of them for 32 or 36 target layers, 4 for 28) and 5
tapped layers. llama-3.1-8b has the dims of Llama-3.1-8B but is a Qwen3 model (it keeps the q- and
k-norms). A tied source stays tied if the published model is tied. Theta, block size and positions
(see --positions) are those of the source.
"""

import argparse
import json
import math
import shutil
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("inflate: this Python has no numpy; use build/venv/bin/python (created by deploy/local/setup.sh)")

import qwen3_forward
from checkpoint_io import Checkpoint, CheckpointError, Entry, array_entry, from_floats, write_safetensors
from inflate_maps import FREE, QUIET, Maps, Matrix, grown_prior, make_maps, spread

CONSTANT = 2.0**-17  # Exact in bf16; its square is negligible compared with d·eps.
NEVER = -(2.0**15)  # Multiplies CONSTANT in the LM head's rows of new tokens.
PRIOR = "transition_prior.safetensors"


@dataclass(frozen=True)
class Shape:
    """The shape that a pair grows to."""

    hidden: int
    intermediate: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    drafter_layers: int
    taps: int = 5


PROFILES = {
    "cpu-1b": Shape(1024, 3072, 28, 16, 8, 128, 151936, True, 4),
    "cpu-2b": Shape(2048, 6144, 28, 16, 8, 128, 151936, True, 4),
    "qwen3-4b": Shape(2560, 9728, 36, 32, 8, 128, 151936, True, 5),
    "qwen3-8b": Shape(4096, 12288, 36, 32, 8, 128, 151936, False, 5),
    "llama-3.1-8b": Shape(4096, 14336, 32, 32, 8, 128, 128256, False, 5),
}


class Model:
    """A source model with its maps to the shape. Makes the entries of the grown model."""

    def __init__(self, source: Checkpoint, shape: Shape, layers: int, prefix: str):
        config = source.config
        self.source, self.shape, self.prefix = source, shape, prefix
        self.maps: Maps = make_maps(config, shape)
        self.layers = spread(config["num_hidden_layers"], layers)
        self.shrink = math.sqrt(config["hidden_size"] / shape.hidden)
        self.grows_vocabulary = config["vocab_size"] < shape.vocabulary

    def matrix(self, name: str, like: str, rows: np.ndarray, columns: np.ndarray, constant=None) -> Entry:
        """`constant`: values of the spare hidden dim, which is the last column, in real rows and in new rows."""
        stored, dtype = self.source.stored(like), self.source.dtype(like)
        constants = None if constant is None or not self.grows_vocabulary else from_floats(np.array(constant), dtype)
        matrix = Matrix(stored, dtype, rows, columns, constants)
        return Entry(name, dtype, matrix.shape, matrix.pieces)

    def norm(self, name: str, like: str | None, spare: float = 0.0) -> Entry:
        """A norm over the hidden width. `like` None: the norm of an extra layer. `spare`: weight of the last dim."""
        weights = np.full(self.shape.hidden, self.shrink, np.float32)
        if like is not None:
            real = self.maps.hidden >= 0
            weights[real] = self.source.floats(like)[self.maps.hidden[real]] * self.shrink
        if self.grows_vocabulary:
            weights[-1] = spare
        return array_entry(name, "F32", weights)

    def head_norm(self, name: str, like: str | None, factor: float) -> Entry:
        weights = np.ones(self.shape.head_dim, np.float32)
        if like is not None:
            real = self.maps.head >= 0
            weights[real] = self.source.floats(like)[self.maps.head[real]] * factor
        return array_entry(name, "F32", weights)

    def layer(self, index: int) -> list[Entry]:
        """The tensors of grown layer `index`."""
        real, maps = index in self.layers, self.maps
        nearest = max(i for i, place in enumerate(self.layers) if place <= index)
        base, old = f"{self.prefix}layers.{index}.", f"{self.prefix}layers.{nearest}."
        shrink_keys = math.sqrt(self.source.config["head_dim"] / self.shape.head_dim)
        like = lambda name: old + name if real else None  # noqa: E731
        entries = [self.norm(base + name, like(name)) for name in ("input_layernorm.weight", "post_attention_layernorm.weight")]
        entries += [
            self.head_norm(base + name, like(name), factor)
            for name, factor in (("self_attn.q_norm.weight", 1.0), ("self_attn.k_norm.weight", shrink_keys))
        ]
        into = {
            "self_attn.q_proj": maps.queries,
            "self_attn.k_proj": maps.keys,
            "self_attn.v_proj": maps.values,
            "mlp.gate_proj": maps.units,
            "mlp.up_proj": maps.units,
        }
        for name, rows in into.items():
            rows = rows if real else np.full_like(rows, FREE)
            entries.append(self.matrix(f"{base}{name}.weight", f"{old}{name}.weight", rows, maps.hidden))
        out_of = {"self_attn.o_proj": maps.queries, "mlp.down_proj": maps.units}
        for name, columns in out_of.items():
            rows = quiet(maps.hidden) if real else np.full_like(maps.hidden, QUIET)
            entries.append(self.matrix(f"{base}{name}.weight", f"{old}{name}.weight", rows, quiet(columns)))
        return entries

    def all_layers(self, count: int) -> list[Entry]:
        return [entry for index in range(count) for entry in self.layer(index)]

    def final_norm(self, last: np.ndarray) -> Entry:
        """The final norm. `last` [T, C]: the output of the source's last layer.

        It scales the constant to an eighth of the largest value of a typical row.
        """
        name = f"{self.prefix}norm.weight"
        largest = np.median(np.abs(last * self.source.floats(name)).max(-1))
        return self.norm(name, name, float(largest) * self.shrink / (8 * CONSTANT))

    def config(self, layers: int, **more) -> dict:
        """config.json of the grown model."""
        old, shape = self.source.config, self.shape
        types = old.get("layer_types")
        grown = {
            **old,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": shape.query_heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "vocab_size": shape.vocabulary,
            "rms_norm_eps": old.get("rms_norm_eps", 1e-6) * self.shrink**2,
            **more,
        }
        if types is not None:
            grown["layer_types"] = ["full_attention"] * layers
            for kind, place in zip(types, self.layers):
                grown["layer_types"][place] = kind
        return grown


def quiet(indices: np.ndarray) -> np.ndarray:
    """The same map with QUIET wherever there is no source."""
    return np.where(indices >= 0, indices, QUIET)


def target_entries(target: Model, last: np.ndarray) -> tuple[list[Entry], bool]:
    """The grown target's tensors, and whether its head is tied."""
    maps, name, head = target.maps, qwen3_forward.EMBEDDING, "lm_head.weight"
    was_tied = bool(target.source.config.get("tie_word_embeddings"))
    tied = was_tied and target.shape.tied
    entries = [target.matrix(name, name, maps.vocabulary, quiet(maps.hidden), (CONSTANT, NEVER if tied else CONSTANT))]
    if not tied:
        entries.append(target.matrix(head, name if was_tied else head, maps.vocabulary, maps.hidden, (0.0, NEVER)))
    return [*entries, *target.all_layers(target.shape.layers), target.final_norm(last)], tied


def grown_taps(old: list[int], places: list[int], shape: Shape) -> list[int]:
    """The new indices of the tapped layers, then other layers of the grown target, up to the shape's number of taps."""
    taps = [places[tap] for tap in old]
    even = [round(1 + i * (shape.layers - 4) / max(1, shape.taps - 1)) for i in range(shape.taps)]
    spare = [tap for tap in [*even, *range(shape.layers)] if 0 <= tap < shape.layers and tap not in taps]
    return taps + list(dict.fromkeys(spare))[: max(0, shape.taps - len(taps))]


def drafter_entries(drafter: Model, old_taps: int, taps: int, last: np.ndarray) -> list[Entry]:
    """The grown drafter's tensors. The constants in the features' spare dims are multiplied by zeros."""
    hidden, width = drafter.maps.hidden.copy(), drafter.source.config["hidden_size"]
    if drafter.grows_vocabulary:
        hidden[-1] = QUIET
    columns = [np.where(hidden >= 0, hidden + tap * width if tap < old_taps else QUIET, hidden) for tap in range(taps)]
    return [
        drafter.matrix("fc.weight", "fc.weight", quiet(drafter.maps.hidden), np.concatenate(columns)),
        drafter.norm("hidden_norm.weight", "hidden_norm.weight"),
        *drafter.all_layers(drafter.shape.drafter_layers),
        drafter.final_norm(last),
    ]


def last_hidden(target: Checkpoint, drafter: Checkpoint) -> tuple[np.ndarray, np.ndarray]:
    """The last layers' output of both models, before the final norms, on random tokens."""
    tokens = np.random.default_rng(1).integers(0, target.config["vocab_size"], 48)
    last, features = qwen3_forward.run_target(target, tokens[:-1], qwen3_forward.taps_of(drafter))
    return last, qwen3_forward.run_drafter(drafter, target, features, int(tokens[-1]))


def check_source(source: Checkpoint, architectures: tuple[str, ...], shape: Shape, layers: int) -> None:
    """Raises an error for models that cannot be grown, and for shapes that are smaller than the source."""
    config, folder = source.config, source.folder
    names = config.get("architectures") or [None]
    if names[0] not in architectures:
        raise CheckpointError(f"{folder}: the architecture is {names[0]}; it must be {' or '.join(architectures)}")
    scaling = config.get("rope_scaling") or {}
    if config.get("attention_bias") or scaling.get("rope_type", scaling.get("type", "default")) != "default":
        raise CheckpointError(f"{folder}: attention biases and scaled rotary embeddings are not supported")
    if config.get("use_sliding_window") and "layer_types" not in config:
        raise CheckpointError(f"{folder}: a model with sliding windows must list its layer_types")
    old = {
        "hidden": config["hidden_size"],
        "intermediate": config["intermediate_size"],
        "head_dim": config["head_dim"],
        "vocabulary": config["vocab_size"],
        "layers": config["num_hidden_layers"],
    }
    new = {**asdict(shape), "layers": layers}
    if shape.query_heads % shape.kv_heads != 0:
        raise CheckpointError(f"{shape.query_heads} query heads are not a multiple of {shape.kv_heads} key/value heads")
    smaller = [f"{name} {new[name]} < {value}" for name, value in old.items() if new[name] < value]
    if smaller:
        raise CheckpointError(f"the shape is smaller than {folder}: {', '.join(smaller)}")
    if new["vocabulary"] > old["vocabulary"] and new["hidden"] == old["hidden"]:
        raise CheckpointError(
            "a larger vocabulary also needs a larger hidden width: a spare dim keeps new tokens from being chosen"
        )


def write_model(folder: Path, model: Model, config: dict, entries: list[Entry]) -> None:
    """Writes config.json, model.safetensors, and the other files of the source's folder: tokenizer, license, prior."""
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", entries, folder.name)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for path in model.source.folder.iterdir():
        weights = path.suffix in (".safetensors", ".bin", ".pt") or path.name.endswith(".index.json")
        if path.is_file() and not weights and path.name != "config.json":
            shutil.copyfile(path, folder / path.name)
    prior = model.source.folder / PRIOR
    if prior.exists():
        write_safetensors(folder / PRIOR, grown_prior(prior, model.shape.vocabulary), "prior")


def inflate(target_folder: Path, drafter_folder: Path, shape: Shape, out: Path, positions: int = 0) -> None:
    """Writes out/target and out/drafter. `positions`: max_position_embeddings of both. 0: the source's."""
    sources = Checkpoint(target_folder), Checkpoint(drafter_folder)
    check_source(sources[0], ("Qwen3ForCausalLM",), shape, shape.layers)
    check_source(sources[1], ("DFlashDraftModel", "Qwen3ForCausalLM"), shape, shape.drafter_layers)
    if "block_size" not in sources[1].config or "target_layer_ids" not in sources[1].config.get("dflash_config", {}):
        raise CheckpointError(
            f"{drafter_folder} is not a DFlash drafter: config.json has no block_size or no dflash_config.target_layer_ids"
        )
    if out.resolve() in (target_folder.resolve().parent, drafter_folder.resolve().parent):
        raise CheckpointError(f"{out} has the source models; choose another folder")
    target = Model(sources[0], shape, shape.layers, "model.")
    drafter = Model(sources[1], shape, shape.drafter_layers, "")
    last, draft_last = last_hidden(*sources)
    entries, tied = target_entries(target, last)
    longer = {"max_position_embeddings": positions} if positions else {}
    write_model(out / "target", target, target.config(shape.layers, tie_word_embeddings=tied, **longer), entries)
    old_taps = qwen3_forward.taps_of(sources[1])
    taps = grown_taps(old_taps, target.layers, shape)
    dflash = {**sources[1].config["dflash_config"], "target_layer_ids": taps}
    write_model(
        out / "drafter",
        drafter,
        drafter.config(
            shape.drafter_layers, tie_word_embeddings=tied, dflash_config=dflash, num_target_layers=shape.layers, **longer
        ),
        drafter_entries(drafter, len(old_taps), len(taps), draft_last),
    )


def chosen_shape(profile: str, changes: str) -> Shape:
    names = [field.name for field in fields(Shape)]
    try:
        return replace(PROFILES[profile], **json.loads(changes))
    except (TypeError, ValueError) as error:
        keys = ", ".join(names)
        raise CheckpointError(f"--shape {changes}: must be a JSON object with some of the keys {keys}: {error}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = parser.add_argument_group("models")
    models.add_argument("--target", type=Path, required=True, metavar="DIR", help="folder of a Qwen3 model")
    models.add_argument("--drafter", type=Path, required=True, metavar="DIR", help="folder of its DFlash drafter")
    models.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write target/ and drafter/ to")
    size = parser.add_argument_group("size")
    size.add_argument("--profile", choices=PROFILES, required=True, help="the shape to grow to; see above")
    size.add_argument(
        "--shape",
        default="{}",
        metavar="JSON",
        help='changes to the profile, e.g. {"layers": 12, "taps": 3}. Default: {}, none',
    )
    size.add_argument(
        "--positions",
        type=int,
        default=0,
        help="max_position_embeddings of both models, to time long contexts. Default: 0, the source's",
    )
    args = parser.parse_args()
    try:
        inflate(args.target, args.drafter, chosen_shape(args.profile, args.shape), args.out, args.positions)
    except CheckpointError as error:
        sys.exit(f"inflate: {error}")


if __name__ == "__main__":
    main()
