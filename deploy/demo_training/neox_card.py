"""Writes the model card, the README.md next to target/ and drafter/, from the results of the stages."""

import argparse
import json
from pathlib import Path

import torch

from demo_training.autoregressive_drafter import GREEDY_SHARE
from demo_training.demo_card import megabytes
from demo_training.gpt_neox import DRAFTER, TARGET, Config
from demo_training.neox_target import GROW_AT, SHALLOW
from demo_training.neox_teacher import TEMPERATURE
from demo_training.prompts import CONTINUATION, MIN_DISTINCT

TEMPLATE = """# The GPT-NeoX pair

A small target and an autoregressive drafter, both with the GPT-NeoX architecture
(`GPTNeoXForCausalLM`, as Pythia). They were trained from scratch on one CPU core, so that bastion has a
real pair for linear speculation and DynaTree. Text, split and tokenizer are those of the
[first pair](../demo_model/README.md). The target continues Python source code and Python
documentation. It demonstrates decoding. It is not an assistant: it has no chat template, and its text
is often wrong.

| | target | drafter |
|---|---|---|
| architecture | GPT-NeoX, tied embeddings | the same |
| layers / hidden / feed-forward | {target_layers} / {target_hidden} / {target_ffn} | {drafter_layers} / {drafter_hidden} / {drafter_ffn} |
| heads, size of a head | {target_heads}, {target_head} | {drafter_heads}, {drafter_head} |
| parameters | {target_millions:.2f} M | {drafter_millions:.2f} M |
| stored as | bf16 safetensors, {target_mb:.1f} MB | bf16 safetensors, {drafter_mb:.1f} MB |
| training | {target_tokens:.2f} M tokens, {target_minutes:.0f} min | {drafter_tokens:.2f} M tokens in {drafter_steps} steps, {drafter_minutes:.0f} min |

Attention and feed-forward part of a layer read the same input (parallel residual). RoPE turns the
first quarter of each head. LayerNorm and all matrices except the embedding have biases. The
activation is the exact GELU. In the first {grow_at:.0f} % of the target's training, only {shallow} of its layers ran;
output projections begin at zero, so the others changed nothing at first.

The tokenizer is that of the first pair: a byte-level BPE with 4096 entries.

## Numbers

| | target | drafter |
|---|--:|--:|
| validation files, nats per token | **{target_nats:.3f}** | {drafter_nats:.3f} |
| perplexity | {target_perplexity:.1f} | {drafter_perplexity:.1f} |
| bits per byte | {target_bits:.3f} | {drafter_bits:.3f} |

The most probable token of the drafter is that of the target at **{agreement_text:.1f} %** of the positions in the
target's greedy text, and at {agreement_validation:.1f} % of the positions in the validation files.

Linear speculation with K = {linear} at temperature 0 commits **τ = {tau:.2f}** tokens per cycle, on the
{prompts} prompts of `prompts.jsonl`, {new_tokens} new tokens each. Computed by
[autoregressive_evaluation.py](../demo_training/autoregressive_evaluation.py) in fp32. {exactness}

The largest difference of a logit from `transformers` in fp32 is {target_difference:.0e} (target) and
{drafter_difference:.0e} (drafter).

The prompts are pieces of held-out Python files. A prompt was eligible only if the target's greedy
continuation of {continuation} tokens has no end of text, and at least {min_distinct:.0f} % of its 4-grams are distinct.
{good} of {candidates} candidates were eligible. From these, {chosen} were drawn, at most three from one file.
Most other texts of this small target soon repeat themselves, so measure with {new_tokens} new tokens.
Use prompts of at most 500 tokens: the drafter was trained on texts of at most 512, and agrees with the
target less often after more.

Both models are so small that a draft of one token takes a large part of the time of a plain step. So
the policies of DynaTree's paper are slower than plain decoding with this pair on a CPU: it shows
their acceptance, not their speed.

## Data and license

The training text is the standard library, the test suite and the documentation sources of CPython
3.11, as packaged by Debian 12. It is under the PSF License Agreement; see `LICENSE` in each folder.
The first pair's [split.json](../demo_model/split.json) records the files that were kept out of training.

The drafter was distilled from the target on {teacher_corpus:.2f} M tokens of the training files and {teacher_generated:.2f} M
tokens that the target generated after them, half greedily, half at temperature {temperature}. A label is
the target's distribution with weight {soft:g}, and its most probable token with weight {greedy:g}.

## Reproduce

[demo_training/run.sh](../demo_training/run.sh) trains the pair from scratch. [demo_training/README.md](../demo_training/README.md) describes the
steps. Training took {minutes:.0f} minutes of processor time on one core. It runs for a fixed time, so a faster
machine processes more tokens, and results differ between machines. The learning rates always reach zero.
"""


def shape(name: str, config: Config) -> dict:
    return {
        f"{name}_layers": config.num_hidden_layers,
        f"{name}_hidden": config.hidden_size,
        f"{name}_ffn": 4 * config.hidden_size,
        f"{name}_heads": config.num_attention_heads,
        f"{name}_head": config.head_dim,
    }


def teacher_tokens(work: Path) -> tuple[int, int]:
    """The tokens of the teacher text that come from the corpus, and those that the target generated."""
    corpus, generated = 0, 0
    for path in sorted((work / "neox_teacher").glob("*.pt")):
        shard = torch.load(path, weights_only=True, mmap=True)
        corpus += shard["prefix"] * len(shard["useful"])
        generated += int((shard["useful"] - shard["prefix"]).sum())
    return corpus, generated


def exactness(evaluation: dict) -> str:
    differ = evaluation["texts_that_differ"]
    if differ == 0:
        return "Every text equals that of plain greedy decoding, token for token."
    return f"On {differ} prompts, the text differs from that of plain greedy decoding (near ties)."


def fields(work: Path, out: Path, teacher_minutes: float) -> dict:
    """The values of TEMPLATE."""
    state = {name: torch.load(work / f"neox_{name}.pt", weights_only=True) for name in ("target", "drafter")}
    evaluation = json.loads((work / "neox_evaluation.json").read_text())
    differences = json.loads((work / "neox_export.json").read_text())
    counts = json.loads((work / "neox_prompts.json").read_text())
    corpus, generated = teacher_tokens(work)
    values = {**shape("target", TARGET), **shape("drafter", DRAFTER)}
    for name in ("target", "drafter"):
        counters, losses = state[name]["counters"], evaluation[name]
        values |= {
            f"{name}_millions": sum(t.numel() for t in state[name]["model"].values()) / 1e6,
            f"{name}_mb": megabytes(out / name),
            f"{name}_tokens": counters["tokens"] / 1e6,
            f"{name}_minutes": counters["seconds"] / 60,
            f"{name}_steps": counters["step"],
            f"{name}_nats": losses["nats_per_token"],
            f"{name}_perplexity": losses["perplexity"],
            f"{name}_bits": losses["bits_per_byte"],
            f"{name}_difference": differences[name],
        }
    return values | {
        "grow_at": 100 * GROW_AT,
        "shallow": SHALLOW,
        "tau": evaluation["tau"],
        "linear": evaluation["linear"],
        "prompts": evaluation["prompts"],
        "new_tokens": evaluation["new_tokens"],
        **counts,
        "continuation": CONTINUATION,
        "min_distinct": 100 * MIN_DISTINCT,
        "agreement_text": 100 * evaluation["agreement_on_greedy_text"],
        "agreement_validation": 100 * evaluation["agreement_on_validation"],
        "exactness": exactness(evaluation),
        "teacher_corpus": corpus / 1e6,
        "teacher_generated": generated / 1e6,
        "temperature": TEMPERATURE,
        "soft": 1 - GREEDY_SHARE,
        "greedy": GREEDY_SHARE,
        "minutes": values["target_minutes"] + values["drafter_minutes"] + teacher_minutes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder of target/ and drafter/")
    parser.add_argument("--teacher-minutes", type=float, default=9.0)
    args = parser.parse_args()
    (args.out / "README.md").write_text(TEMPLATE.format(**fields(args.work, args.out, args.teacher_minutes)))


if __name__ == "__main__":
    main()
