"""The model card of the demo pair (card.py)."""

import argparse
import json
from pathlib import Path

from safetensors import safe_open

from demo_training.grow import GROW_AT, INITIAL

TEMPLATE = """# The demo pair

A small target with the Qwen3 architecture, and a DFlash drafter for it. Both were trained from
scratch on two CPU cores, so that bastion has a real pair of models to run. The target continues
Python source code and Python documentation. It demonstrates decoding. It is not an assistant: it has
no chat template, and its text is often wrong.

| | target | drafter |
|---|---|---|
| architecture | Qwen3 dense, tied embeddings | DFlash (z-lab's checkpoint layout), block {block} |
| layers / hidden / feed-forward | {target_layers} / {target_hidden} / {target_ffn} | {drafter_layers} / {drafter_hidden} / {drafter_ffn} |
| heads: query, key/value, size | {target_heads}, {groups}, {target_head} | the same |
| parameters | {target_millions:.2f} M | {drafter_millions:.2f} M; embedding and LM head are the target's |
| stored as | bf16 safetensors, {target_mb:.1f} MB | bf16 safetensors, {drafter_mb:.1f} MB |
| training | {target_tokens:.2f} M tokens, {target_minutes:.0f} min | {drafter_steps} steps of 256 blocks, {drafter_minutes:.0f} min |

The target grew during training. For {grow_at:.0f} % of the time it had {initial_layers} layers and {initial_ffn} feed-forward units.
Then it was extended to its final size, with weights that compute the same function
([grow.py](../demo_training/grow.py)).

The drafter reads the target's hidden states after layers {taps}. The tokenizer is a byte-level
BPE with {vocabulary} entries and Qwen2's pre-tokenizer. It has 8 special tokens, among them `<|endoftext|>`
(id 0) and `<|mask|>` (id 1).

## Numbers

Validation files: **{target_nats:.3f} nats per token, perplexity {target_perplexity:.1f}, {target_bits:.3f} bits per byte**.

Mean committed tokens per cycle (τ) at temperature 0, on the {prompts} prompts of `prompts.jsonl`, {new_tokens} new
tokens each. Computed by [dflash_evaluation.py](../demo_training/dflash_evaluation.py) in fp32.
`tree:N` is DDTree's best-first tree of N nodes:

| {arm_names} |
|{arm_rules}|
| {arm_values} |

{exactness}

## Data and license

The training text is the standard library, the test suite and the documentation sources of CPython
3.11, as packaged by Debian 12 ({packages}). It
is under the PSF License Agreement; see `LICENSE` in each folder. Duplicates and files that contain
mostly data are excluded. Each file belongs to one split, chosen by a hash of its path. `split.json`
records the rule, the digests, and the files kept out of training.

| split | files | MB | use |
|---|---|---|---|
| train | {train_files} | {train_mb:.1f} | tokenizer, target, prefixes of the teacher text |
| validation | {validation_files} | {validation_mb:.1f} | perplexity |
| held out | {heldout_files} | {heldout_mb:.1f} | `prompts.jsonl` |

The drafter was trained on teacher text: {teacher_generated:.2f} M tokens that the target generated after prefixes of
training files. Half of the texts were generated greedily, half were sampled at temperature {temperature}.
Texts are cut off where a loop begins.
{prior}
A prompt was eligible only if the target's greedy continuation of {continuation} tokens has no end of text, and
at least {min_distinct:.0f} % of its 4-grams are distinct. {good} of {candidates} candidates were eligible. From these, {chosen} were
drawn, at most three from one file.

After a few hundred tokens, the target's greedy text loops, so measure with {continuation} new tokens. Even
before that it repeats phrases, which makes it easier to draft than the text of a strong model.

## Reproduce

[demo_training/run.sh](../demo_training/run.sh) `--pair demo` trains the pair from scratch. With the
times above, training takes {minutes:.0f} minutes on two idle cores.
[demo_training/README.md](../demo_training/README.md) describes the steps. Training runs for a fixed
time (`--target-minutes`, `--drafter-minutes`), so a faster machine processes more tokens, and results
differ between machines. The learning rates always reach zero.
"""

EXACTNESS = ("On every prompt, the text with each tree equals the text", "the text with a tree differs from that")


def prior(drafter: Path) -> str:
    """The paragraph on the transition prior. Empty if its stage was skipped."""
    path = drafter / "transition_prior.safetensors"
    if not path.exists():
        return ""
    with safe_open(path, "np") as table:
        pairs = table.get_slice("pairs").get_shape()[0]
    return (
        f"\n`{drafter.name}/{path.name}` ({path.stat().st_size / 1e6:.2f} MB, same license) holds counts from the teacher text:\n"
        f"the tokens that followed each token and each of {pairs} pairs of tokens. `bastion-train prior` counted\n"
        "them.\n"
    )


def values(args: argparse.Namespace, evaluation: dict, shared: dict) -> dict:
    """The values of TEMPLATE that only this card has."""
    target, drafter = shared["target_config"], shared["drafter_config"]
    split = json.loads((args.out / "split.json").read_text())
    *taps, last = drafter["dflash_config"]["target_layer_ids"]
    parts: dict[str, float] = {}
    for name, part in split["splits"].items():
        parts |= {f"{name}_files": part["files"], f"{name}_mb": part["bytes"] / 1e6}
    return {
        **parts,
        "packages": ", ".join(split["packages"]),
        "block": drafter["block_size"],
        "groups": target["num_key_value_heads"],
        "vocabulary": target["vocab_size"],
        "grow_at": 100 * GROW_AT,
        "initial_layers": INITIAL.num_hidden_layers,
        "initial_ffn": INITIAL.intermediate_size,
        "taps": f"{', '.join(map(str, taps))} and {last}",
        "arm_names": " | ".join(evaluation["tau"]),
        "arm_rules": "---|" * (len(evaluation["tau"]) - 1) + "---",
        "arm_values": " | ".join(f"{v:.2f}" for v in evaluation["tau"].values()),
        "prior": prior(args.out / "drafter"),
        # Ten minutes for the stages that keep no time.
        "minutes": shared["target_minutes"] + shared["drafter_minutes"] + 10,
    }
