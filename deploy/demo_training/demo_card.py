"""Writes the model card, the README.md next to target/ and drafter/, from the results of the stages."""

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open

TEMPLATE = """# The demo pair

A small target with the Qwen3 architecture, and a DFlash drafter for it. Both were trained from
scratch on two CPU cores, so that bastion has a real pair of models to run. The target continues
Python source code and Python documentation. It demonstrates decoding. It is not an assistant: it has
no chat template, and its text is often wrong.

| | target | drafter |
|---|---|---|
| architecture | Qwen3 dense, tied embeddings | DFlash (z-lab's checkpoint layout), block {block} |
| layers / hidden / feed-forward | {layers} / {hidden} / {ffn} | {draft_layers} / {hidden} / {draft_ffn} |
| heads: query, key/value, size | {heads}, {groups}, {head_dim} | the same |
| parameters | {target_millions:.2f} M | {drafter_millions:.2f} M; embedding and LM head are the target's |
| stored as | bf16 safetensors, {target_mb:.1f} MB | bf16 safetensors, {drafter_mb:.1f} MB |
| training | {target_tokens:.2f} M tokens, {target_minutes:.0f} min | {drafter_steps} steps of 256 blocks, {drafter_minutes:.0f} min |

The target grew during training. For {grown_at:.0%} of the time it had {initial_layers} layers and
{initial_ffn} feed-forward units. Then it was extended to its final size, with weights that compute the
same function ([grow.py](../demo_training/grow.py)).

The drafter reads the target's hidden states after layers {taps}. The tokenizer is a byte-level BPE
with {vocabulary} entries and Qwen2's pre-tokenizer. It has 8 special tokens, among them
`<|endoftext|>` (id 0) and `<|mask|>` (id 1).

## Numbers

Validation files: **{nats:.3f} nats per token, perplexity {perplexity:.1f}, {bits:.3f} bits per byte**.

Mean committed tokens per cycle (τ) at temperature 0, on the {prompts} prompts of `prompts.jsonl`,
{new_tokens} new tokens each. Computed by [dflash_evaluation.py](../demo_training/dflash_evaluation.py) in fp32. `tree:N` is
DDTree's best-first tree of N nodes:

| {arm_names} |
|{arm_rules}|
| {arm_values} |

{exactness}

## Data and license

The training text is the standard library, the test suite and the documentation sources of CPython
3.11, as packaged by Debian 12 ({packages}). It is under the PSF License Agreement; see `LICENSE` in
each folder. Duplicates and files that contain mostly data are excluded. Each file belongs to one
split, chosen by a hash of its path. `split.json` records the rule, the digests, and the files kept
out of training.

| split | files | MB | use |
|---|---|---|---|
| train | {train_files} | {train_mb:.1f} | tokenizer, target, prefixes of the teacher text |
| validation | {validation_files} | {validation_mb:.1f} | perplexity |
| held out | {heldout_files} | {heldout_mb:.1f} | `prompts.jsonl` |

The drafter was trained on teacher text: {teacher_tokens:.2f} M tokens that the target generated
after prefixes of training files. Half of the texts were generated greedily, half were sampled at
temperature 0.8. Texts are cut off where a loop begins.
{prior}
A prompt was eligible only if the target's greedy continuation of {continuation} tokens has no end of
text, and at least {min_distinct:.0%} of its 4-grams are distinct. {prompt_counts}

After a few hundred tokens, the target's greedy text loops, so measure with {continuation} new tokens.
Even before that it repeats phrases, which makes it easier to draft than the text of a strong model.

## Reproduce

`deploy/demo_training/run.sh` trains the pair from scratch. With the times above, training takes
{reproduce_minutes:.0f} minutes on two idle cores. Training runs for a fixed time
(`--target-minutes`, `--drafter-minutes`), so a faster machine processes more tokens, and results
differ between machines. The learning rates always reach zero.
{notes}"""


def megabytes(folder: Path) -> float:
    return (folder / "model.safetensors").stat().st_size / 1e6


def prior(drafter: Path) -> str:
    """The paragraph on the transition prior. Empty if its stage was skipped."""
    path = drafter / "transition_prior.safetensors"
    if not path.exists():
        return ""
    with safe_open(path, "np") as table:
        pairs = table.get_slice("pairs").get_shape()[0]
    return (
        f"\n`{drafter.name}/{path.name}` ({path.stat().st_size / 1e6:.2f} MB, same license) holds counts from the\n"
        f"teacher text: the tokens that followed each token and each of {pairs} pairs of tokens.\n"
        "`bastion-train prior` counted them.\n"
    )


def exactness(evaluation: dict) -> str:
    """The result of comparing the texts."""
    against = "plain greedy decoding" if evaluation.get("compared_with_greedy") else "the other arms"
    differ = evaluation["texts_that_differ"]
    if differ == 0:
        return f"On every prompt, the text with each tree equals the text of {against}, token for token."
    return f"On {differ} prompts, the text with a tree differs from that of {against} (near ties)."


def parts(split: dict) -> dict:
    """The files and megabytes of each part of the corpus."""
    return {
        f"{name}_{key}": value
        for name, part in split["splits"].items()
        for key, value in (("files", part["files"]), ("mb", part["bytes"] / 1e6))
    }


def fields(work: Path, out: Path) -> dict:
    """The values of TEMPLATE."""
    from demo_training.grow import INITIAL
    from demo_training.prompts import CONTINUATION, MIN_DISTINCT
    from demo_training.target import GROW_AT

    target, drafter = (json.loads((out / n / "config.json").read_text()) for n in ("target", "drafter"))
    state = {n: torch.load(work / f"{n}.pt", weights_only=True) for n in ("target", "drafter")}
    millions = {n: sum(t.numel() for t in s["model"].values()) / 1e6 for n, s in state.items()}
    counters = {n: s["counters"] for n, s in state.items()}
    evaluation = json.loads((work / "evaluation.json").read_text())
    split = json.loads((out / "split.json").read_text())
    counts = json.loads((work / "prompts.json").read_text())
    teacher = sum(
        int((s["useful"] - s["prefix"]).sum())
        for s in (torch.load(p, weights_only=True, mmap=True) for p in (work / "teacher").glob("*.pt"))
    )
    minutes = {n: c["seconds"] / 60 for n, c in counters.items()}
    return {
        "block": drafter["block_size"],
        "layers": target["num_hidden_layers"],
        "hidden": target["hidden_size"],
        "ffn": target["intermediate_size"],
        "draft_ffn": drafter["intermediate_size"],
        "draft_layers": drafter["num_hidden_layers"],
        "heads": target["num_attention_heads"],
        "groups": target["num_key_value_heads"],
        "head_dim": target["head_dim"],
        "vocabulary": target["vocab_size"],
        "grown_at": GROW_AT,
        "initial_layers": INITIAL.num_hidden_layers,
        "initial_ffn": INITIAL.intermediate_size,
        "taps": drafter["dflash_config"]["target_layer_ids"],
        "target_millions": millions["target"],
        "drafter_millions": millions["drafter"],
        "target_mb": megabytes(out / "target"),
        "drafter_mb": megabytes(out / "drafter"),
        "target_tokens": counters["target"]["tokens"] / 1e6,
        "drafter_steps": counters["drafter"]["step"],
        "target_minutes": minutes["target"],
        "drafter_minutes": minutes["drafter"],
        "nats": evaluation["nats_per_token"],
        "perplexity": evaluation["perplexity"],
        "bits": evaluation["bits_per_byte"],
        "prompts": evaluation["prompts"],
        "new_tokens": evaluation["new_tokens"],
        "arm_names": " | ".join(evaluation["tau"]),
        "arm_rules": "---|" * (len(evaluation["tau"]) - 1) + "---",
        "arm_values": " | ".join(f"{v:.2f}" for v in evaluation["tau"].values()),
        "exactness": exactness(evaluation),
        "packages": ", ".join(split["packages"]),
        **parts(split),
        "teacher_tokens": teacher / 1e6,
        "prior": prior(out / "drafter"),
        "min_distinct": MIN_DISTINCT,
        "continuation": CONTINUATION,
        "prompt_counts": f"{counts['good']} of {counts['candidates']} candidates were eligible. From these, "
        f"{counts['chosen']} were drawn, at most three from one file.",
        "reproduce_minutes": sum(minutes.values()) + 10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of target/, drafter/, split.json")
    parser.add_argument("--notes", default="", help="a paragraph to add at the end")
    args = parser.parse_args()
    notes = f"\n{args.notes}\n" if args.notes else ""
    (args.out / "README.md").write_text(TEMPLATE.format(**fields(args.work, args.out), notes=notes))


if __name__ == "__main__":
    main()
