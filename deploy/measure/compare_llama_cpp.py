#!/usr/bin/env python3
"""Compares bastion with llama.cpp's plain greedy decoding.

    build/compare_venv/bin/python deploy/measure/compare_llama_cpp.py [--target DIR --drafter DIR] [--concurrency 1,8,32]

compare_requirements.txt says how to create build/compare_venv.

- Both engines use the same weights, prompts and number of threads. They start from the same token
  ids and generate --max_new_tokens.
- checkpoint_gguf.py converts the target to GGUF with 16 bits per weight. llama.cpp runs in this
  process through the C interface of llama-cpp-python. The next token is the argmax of its logits.
- For llama.cpp, only the time in llama_decode counts.
- llama.cpp keeps its KV cache in f16 and rounds activations in its own way, so the texts diverge
  where two logits are close.

Without --concurrency, there is one request at a time:

- The prompts are divided into shares, one per round. In each round, every arm (an engine with a
  policy) answers the share. bastion goes first in every other round.
- Rates exclude prefill. Ratios are relative to the fastest of --types. The last column shows the
  share of tokens before the first difference.

With --concurrency, both engines run closed loops, with llama.cpp's batched decoding:

- In each round, every arm answers all prompts at every concurrency. bastion goes first in every
  other round.
- The system throughput counts the time while the loop is full. That includes the prefill of prompts
  that replace others. Ratios are relative to the first of --types.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from arms import Arm, arms_table
from compare_common import INSTALL, Bastion, Prompt, alternate, bastion_side, load_prompts, make_parser, save_report, take_turns
from loads import LoadArm, add_levels, loads_table, system_rate
from runner import Failed, MeasureError

try:
    import checkpoint_gguf
    from checkpoint_io import CheckpointError
    from llama_cpp_engine import LlamaCpp
except ImportError as error:
    sys.exit(f"compare_llama_cpp: {error}: {INSTALL}")


def converted(args: argparse.Namespace) -> dict[str, Path]:
    """The GGUF files by the name of their arm. Converts the weights unless an up-to-date file exists."""
    args.work.mkdir(parents=True, exist_ok=True)
    files = {}
    for kind in args.types.split(","):
        if kind not in checkpoint_gguf.TYPES:
            raise Failed(f"--types has {kind}; choose from {', '.join(checkpoint_gguf.TYPES)}")
        path = args.work / f"{'-'.join(args.target.resolve().parts[-2:])}-{kind}.gguf"
        weights = max(file.stat().st_mtime for file in args.target.glob("*.safetensors"))
        if not path.exists() or path.stat().st_mtime < weights:
            checkpoint_gguf.convert(args.target, path, kind)
        files[f"llama.cpp {kind}"] = path
    return files


def opened(args: argparse.Namespace, prompts: list[Prompt], file: Path, sequences: int = 1):
    """A context manager of an engine with room for `sequences` of the prompts and their answers."""
    room = max(len(prompt.tokens) for prompt in prompts) + args.max_new_tokens + 1
    engine = LlamaCpp(file, args.threads, room, sequences)
    engine.generate(prompts[0].tokens, 4)  # Loads the weights and wakes the threads.
    return contextlib.closing(engine)


def compare_streams(args: argparse.Namespace, bastion: Bastion) -> None:
    """Runs all arms with one request at a time and prints their table."""
    prompts, files = load_prompts(args), converted(args)
    theirs = [Arm(name) for name in files]

    with contextlib.ExitStack() as stack:
        engines = {name: stack.enter_context(opened(args, prompts, file)) for name, file in files.items()}

        def run_theirs(share: list[Prompt]) -> None:
            for arm in theirs:
                engines[arm.name].generate(share[0].tokens, 4)  # Wakes the threads.
            for prompt in share:
                for arm in theirs:
                    arm.answers.append(engines[arm.name].generate(prompt.tokens, args.max_new_tokens))

        take_turns(args, prompts, [bastion.answer, run_theirs])
    arms = [*theirs, *bastion.arms.values()]
    save_report(args, arms)
    print(arms_table(arms, max(theirs, key=Arm.rate)))


def compare_loads(args: argparse.Namespace, bastion: Bastion) -> None:
    """Runs all arms at every concurrency and prints their table."""
    prompts, files = load_prompts(args), converted(args)
    if len(prompts) < max(args.concurrency):
        raise Failed(f"--concurrency {max(args.concurrency)} needs as many prompts; there are {len(prompts)}: raise --count")
    ours: dict[str, LoadArm] = {}
    theirs = [LoadArm(name) for name in files]

    def run_ours() -> None:
        levels = ",".join(map(str, args.concurrency))
        add_levels(ours, "bastion", bastion.bench(prompts, "--concurrency", levels))

    def run_theirs() -> None:
        for concurrency in args.concurrency:
            for arm in theirs:
                with opened(args, prompts, files[arm.name], concurrency) as engine:
                    streams = engine.serve([prompt.tokens for prompt in prompts], args.max_new_tokens)
                arm.add(concurrency, system_rate(streams, concurrency))

    for index in range(args.rounds):
        for turn in alternate([run_ours, run_theirs], index):
            turn()
    arms = [*theirs, *ours.values()]
    if args.report is not None:
        args.report.write_text(json.dumps([vars(arm) for arm in arms]))
    print(loads_table(arms, theirs[0]))


def concurrencies(text: str) -> list[int]:
    """Parses --concurrency."""
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' must be positive integers, separated by commas")
    return sorted({int(part) for part in parts})


def main() -> None:
    parser, theirs = make_parser(__doc__)
    theirs.add_argument(
        "--types", default="bf16,f16", help="comma-separated types of llama.cpp's weights: bf16, f16, f32. Default: bf16,f16"
    )
    parser.add_argument(
        "--concurrency",
        type=concurrencies,
        metavar="LIST",
        help="compare closed loops with these numbers of live requests, e.g. 1,8,32. Default: one request at a time",
    )
    args = parser.parse_args()
    try:
        with bastion_side(args) as bastion:
            (compare_loads if args.concurrency else compare_streams)(args, bastion)
    except (MeasureError, CheckpointError, OSError) as error:
        sys.exit(f"compare_llama_cpp: {error}")


if __name__ == "__main__":
    main()
