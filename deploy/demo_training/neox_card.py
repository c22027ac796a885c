"""The model card of the GPT-NeoX pair (card.py)."""

import argparse
import json

from demo_training.autoregressive_drafter import GREEDY_SHARE
from demo_training.gpt_neox import GROW_AT, SHALLOW

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
[autoregressive_evaluation.py](../demo_training/autoregressive_evaluation.py) in fp32.
{exactness}

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

[demo_training/run.sh](../demo_training/run.sh) `--pair neox` trains the pair from scratch.
[demo_training/README.md](../demo_training/README.md) describes the steps. Training took {minutes:.0f} minutes
of processor time on one core. It runs for a fixed time, so a faster machine processes more tokens, and
results differ between machines. The learning rates always reach zero.
"""

EXACTNESS = ("Every text equals that", "the text differs from that")


def values(args: argparse.Namespace, evaluation: dict, shared: dict) -> dict:
    """The values of TEMPLATE that only this card has."""
    differences = json.loads((args.work / "export.json").read_text())
    teacher_minutes = args.teacher_minutes or args.pair.teacher.minutes
    return {
        "target_difference": differences["target"],
        "drafter_difference": differences["drafter"],
        "grow_at": 100 * GROW_AT,
        "shallow": SHALLOW,
        "tau": evaluation["tau"],
        "linear": evaluation["linear"],
        "agreement_text": 100 * evaluation["agreement_on_greedy_text"],
        "agreement_validation": 100 * evaluation["agreement_on_validation"],
        "soft": 1 - GREEDY_SHARE,
        "greedy": GREEDY_SHARE,
        "minutes": shared["target_minutes"] + shared["drafter_minutes"] + teacher_minutes,
    }
