#!/usr/bin/env python3
"""Compares bastion with llama.cpp's plain greedy decoding.

    build/compare_venv/bin/python deploy/measure/compare_llama_cpp.py [--target DIR --drafter DIR]

compare_requirements.txt says how to create build/compare_venv.

- Both engines use the same weights, prompts and number of threads. They start from the same token
  ids and generate --max_new_tokens.
- checkpoint_gguf.py converts the target to GGUF with 16 bits per weight. llama.cpp runs in this
  process through the C interface of llama-cpp-python, one token per call. The next token is the
  argmax of its logits.
- The prompts are divided into shares, one per round. In each round, every arm (an engine with a
  policy) answers the share. bastion goes first in every other round.
- Rates exclude prefill. For llama.cpp they count only the time in llama_decode.
- llama.cpp keeps its KV cache in f16 and rounds activations in its own way, so the texts diverge
  where two logits are close. The last column shows the share of tokens before the first difference.
- Ratios are relative to the fastest of --types.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path

from arms import Answer, Arm, arms_table
from compare_common import INSTALL, Bastion, Prompt, bastion_side, load_prompts, make_parser, save_report, take_turns
from runner import Failed, MeasureError

try:
    import llama_cpp.llama_cpp as llama
    import numpy as np

    import checkpoint_gguf
    from checkpoint_io import CheckpointError
except ImportError as error:
    sys.exit(f"compare_llama_cpp: {error}: {INSTALL}")

SILENT = llama.llama_log_callback(lambda level, text, data: None)


class LlamaCpp:
    """A model file, opened for decoding `tokens` tokens with `threads` threads."""

    def __init__(self, path: Path, threads: int, tokens: int):
        llama.llama_log_set(SILENT, None)
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self._model:
            raise Failed(f"llama.cpp cannot load {path}; remove the file, so that the next run converts it again")
        params = llama.llama_context_default_params()
        params.n_ctx = params.n_batch = tokens
        params.n_threads = params.n_threads_batch = threads
        self._context = llama.llama_init_from_model(self._model, params)
        if not self._context:
            raise Failed(f"llama.cpp cannot create a context of {tokens} tokens for {path}")
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))

    def _next(self, tokens: list[int]) -> int:
        """The most likely token after `tokens`, which follow the cached ones."""
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(self._context, llama.llama_batch_get_one(array, len(tokens))) != 0:
            raise Failed("llama_decode failed")
        logits = ctypes.cast(llama.llama_get_logits_ith(self._context, -1), ctypes.POINTER(ctypes.c_float))
        self.decoded = time.perf_counter()
        return int(np.argmax(np.ctypeslib.as_array(logits, (self._vocabulary,))))

    def generate(self, prompt: list[int], count: int) -> Answer:
        """`count` tokens, and the seconds of `count` decode calls.

        Prefill yields the first token, and the token of the last call is dropped.
        """
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        tokens, seconds = [self._next(prompt)], 0.0
        while len(tokens) <= count:
            began = time.perf_counter()
            tokens.append(self._next(tokens[-1:]))
            seconds += self.decoded - began
        return Answer(tokens[:count], seconds, count)


def open_engines(args: argparse.Namespace, prompts: list[Prompt]) -> dict[str, LlamaCpp]:
    """Engines by the name of their arm. Converts the weights unless an up-to-date file exists."""
    args.work.mkdir(parents=True, exist_ok=True)
    room = max(len(prompt.tokens) for prompt in prompts) + args.max_new_tokens + 1
    engines = {}
    for kind in args.types.split(","):
        if kind not in checkpoint_gguf.TYPES:
            raise Failed(f"--types has {kind}; choose from {', '.join(checkpoint_gguf.TYPES)}")
        path = args.work / f"{'-'.join(args.target.resolve().parts[-2:])}-{kind}.gguf"
        weights = max(file.stat().st_mtime for file in args.target.glob("*.safetensors"))
        if not path.exists() or path.stat().st_mtime < weights:
            checkpoint_gguf.convert(args.target, path, kind)
        engines[f"llama.cpp {kind}"] = LlamaCpp(path, args.threads, room)
    return engines


def measure(args: argparse.Namespace, bastion: Bastion) -> list[Arm]:
    """Runs all arms. Returns those of llama.cpp. The other arms are in bastion.arms."""
    prompts = load_prompts(args)
    engines = open_engines(args, prompts)
    arms = [Arm(name) for name in engines]

    def run_theirs(share: list[Prompt]) -> None:
        for arm in arms:
            engines[arm.name].generate(share[0].tokens, 4)  # Loads the weights and wakes the threads.
        for prompt in share:
            for arm in arms:
                arm.answers.append(engines[arm.name].generate(prompt.tokens, args.max_new_tokens))

    take_turns(args, prompts, [bastion.answer, run_theirs])
    return arms


def main() -> None:
    parser, theirs = make_parser(__doc__)
    theirs.add_argument("--types", default="bf16,f16",
                        help="comma-separated types of llama.cpp's weights: bf16, f16, f32. Default: bf16,f16")
    args = parser.parse_args()
    try:
        with bastion_side(args) as bastion:
            reference = measure(args, bastion)
    except (MeasureError, CheckpointError, OSError) as error:
        sys.exit(f"compare_llama_cpp: {error}")
    arms = [*reference, *bastion.arms.values()]
    save_report(args, arms)
    print(arms_table(arms, max(reference, key=Arm.rate)))


if __name__ == "__main__":
    main()
