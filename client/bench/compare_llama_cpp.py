#!/usr/bin/env python3
"""llama.cpp's plain greedy decoding beside bastion on the same weights, prompts, threads and number of tokens.

    build/compare_venv/bin/python client/bench/compare_llama_cpp.py [--target DIR --drafter DIR]

The target is converted to GGUF (gguf_convert.py), 16 bits a weight; llama.cpp runs in this process through the C interface of
llama-cpp-python, one token a call, the choice is an argmax over its logits. Both engines begin at the same token ids and
never stop early. Prompts are divided into rounds; in each round every arm answers that share, bastion first in even ones.
Rates leave prefill out, and for llama.cpp also everything but llama_decode itself. It keeps its KV cache in f16 and rounds
activations as it does, so texts part where two logits are close: the last column says how many tokens came before that.
Ratios are to the fastest of its --types.
build/compare_venv is made by the commands in compare_requirements.txt.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path

from compare_common import (INSTALL, Answer, Arm, CompareError, Prompt, add_arguments, bench_arms, load_prompts, progress,
                            rounds, run_bench, table, write_report)

try:
    import llama_cpp.llama_cpp as llama
    import numpy as np

    import gguf_convert
    from checkpoint_io import CheckpointError
except ImportError as error:
    sys.exit(f"compare_llama_cpp: {error}: {INSTALL}")

QUIET = llama.llama_log_callback(lambda level, text, data: None)


class LlamaCpp:
    """A model file in a context of `threads` threads."""

    def __init__(self, path: Path, threads: int, tokens: int):
        llama.llama_log_set(QUIET, None)
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self._model:
            raise CompareError(f"{path}: llama.cpp does not load it; remove it to have it converted anew")
        params = llama.llama_context_default_params()
        params.n_ctx = params.n_batch = tokens
        params.n_threads = params.n_threads_batch = threads
        self._context = llama.llama_init_from_model(self._model, params)
        if not self._context:
            raise CompareError(f"{path}: llama.cpp makes no context of {tokens} tokens")
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))

    def _next(self, tokens: list[int]) -> int:
        """The greedy choice after `tokens`, which follow what is cached."""
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(self._context, llama.llama_batch_get_one(array, len(tokens))) != 0:
            raise CompareError("llama_decode failed")
        logits = ctypes.cast(llama.llama_get_logits_ith(self._context, -1), ctypes.POINTER(ctypes.c_float))
        self.decoded = time.perf_counter()
        return int(np.argmax(np.ctypeslib.as_array(logits, (self._vocabulary,))))

    def generate(self, prompt: list[int], count: int) -> Answer:
        """`count` tokens; seconds of as many decode calls (the first token comes from prefill, the last call's is dropped)."""
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        tokens, seconds = [self._next(prompt)], 0.0
        while len(tokens) <= count:
            began = time.perf_counter()
            tokens.append(self._next(tokens[-1:]))
            seconds += self.decoded - began
        return Answer(tokens[:count], seconds, count)


def open_engines(args: argparse.Namespace, prompts: list[Prompt]) -> dict[str, LlamaCpp]:
    """By the name of the arm, converted where that has not been done."""
    args.work.mkdir(parents=True, exist_ok=True)
    room = max(len(prompt.tokens) for prompt in prompts) + args.max_new_tokens + 1
    engines = {}
    for kind in args.types.split(","):
        if kind not in gguf_convert.TYPES:
            raise CompareError(f"--types {kind}: wants some of {', '.join(gguf_convert.TYPES)}")
        path = args.work / f"{'-'.join(args.target.resolve().parts[-2:])}-{kind}.gguf"
        weights = max(file.stat().st_mtime for file in args.target.glob("*.safetensors"))
        if not path.exists() or path.stat().st_mtime < weights:
            gguf_convert.convert(args.target, path, kind)
        engines[f"llama.cpp {kind}"] = LlamaCpp(path, args.threads, room)
    return engines


def measure(args: argparse.Namespace) -> tuple[list[Arm], list[Arm]]:
    """llama.cpp's arms and bastion's."""
    prompts = load_prompts(args)
    engines = open_engines(args, prompts)
    theirs, ours = [Arm(name) for name in engines], bench_arms(args, "bastion")

    def run_theirs(share: list[Prompt]) -> None:
        for arm in theirs:
            engines[arm.name].generate(share[0].tokens, 4)  # Weights and threads awake.
        for prompt in share:
            for arm in theirs:
                arm.answers.append(engines[arm.name].generate(prompt.tokens, args.max_new_tokens))

    shares = rounds(prompts, args.rounds)
    for index, share in enumerate(shares):
        turns = [lambda: run_bench(args, share, ours, []), lambda: run_theirs(share)]
        for turn in turns if index % 2 == 0 else turns[::-1]:
            turn()
        progress(index + 1, len(shares), f"{len(share)} prompts")
    return theirs, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--types", default="bf16,f16", help="of llama.cpp's weights: bf16, f16, f32")
    args = parser.parse_args()
    try:
        theirs, ours = measure(args)
    except (CompareError, CheckpointError, OSError) as error:
        sys.exit(f"compare_llama_cpp: {error}")
    write_report(args.report, theirs + ours)
    print(table(theirs + ours, max(theirs, key=Arm.rate)))


if __name__ == "__main__":
    main()
