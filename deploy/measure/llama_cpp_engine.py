"""llama.cpp with one model file, through the C interface of llama-cpp-python: plain greedy decoding of many sequences."""

import ctypes
import time
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np

from arms import Answer
from loads import Stream
from runner import Failed

SILENT = llama.llama_log_callback(lambda level, text, data: None)


class LlamaCpp:
    """Decodes up to `sequences` sequences of at most `tokens` tokens together, with `threads` threads.

    `seconds` is the time spent in llama_decode. Filling its batch and choosing the tokens do not count.
    """

    def __init__(self, path: Path, threads: int, tokens: int, sequences: int = 1):
        llama.llama_log_set(SILENT, None)
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self._model:
            raise Failed(f"llama.cpp cannot load {path}; remove the file, so that the next run converts it again")
        room = tokens * sequences
        params = llama.llama_context_default_params()
        params.n_ctx = params.n_batch = room
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        self._context = llama.llama_init_from_model(self._model, params)
        if not self._context:
            raise Failed(f"llama.cpp cannot create a context of {room} tokens for {path}")
        self._memory = llama.llama_get_memory(self._context)
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self._batch = llama.llama_batch_init(room, 0, 1)
        self._sequences = sequences
        self.seconds = 0.0

    def close(self) -> None:
        """Frees the memory. No other call may follow."""
        llama.llama_batch_free(self._batch)
        llama.llama_free(self._context)
        llama.llama_model_free(self._model)

    def _next(self, inputs: dict[int, tuple[int, list[int]]]) -> dict[int, int]:
        """Runs one llama_decode. Returns the most likely next token by sequence.

        `inputs`: by sequence, the number of its cached tokens and the tokens that follow them.
        """
        batch, rows, last = self._batch, 0, {}
        for sequence, (cached, tokens) in inputs.items():
            for offset, token in enumerate(tokens):
                batch.token[rows], batch.pos[rows] = token, cached + offset
                batch.n_seq_id[rows], batch.seq_id[rows][0] = 1, sequence
                batch.logits[rows] = offset + 1 == len(tokens)
                rows += 1
            last[sequence] = rows - 1
        batch.n_tokens = rows
        began = time.perf_counter()
        if llama.llama_decode(self._context, batch) != 0:
            raise Failed("llama_decode failed")
        logits = {sequence: llama.llama_get_logits_ith(self._context, row) for sequence, row in last.items()}
        self.seconds += time.perf_counter() - began
        return {
            sequence: int(
                np.argmax(np.ctypeslib.as_array(ctypes.cast(values, ctypes.POINTER(ctypes.c_float)), (self._vocabulary,)))
            )
            for sequence, values in logits.items()
        }

    def generate(self, prompt: list[int], count: int) -> Answer:
        """`count` tokens, and the seconds of `count` calls.

        Prefill yields the first token, and the token of the last call is dropped.
        """
        llama.llama_memory_clear(self._memory, True)
        tokens, cached = [self._next({0: (0, prompt)})[0]], len(prompt)
        prefilled = self.seconds
        while len(tokens) <= count:
            tokens.append(self._next({0: (cached, tokens[-1:])})[0])
            cached += 1
        return Answer(tokens[:count], self.seconds - prefilled, count)

    def serve(self, prompts: list[list[int]], count: int) -> list[Stream]:
        """A closed loop: a prompt whose `count` tokens are complete is replaced by the next one.

        Whole prompts and the next tokens of the other sequences share a call.
        """
        llama.llama_memory_clear(self._memory, True)
        streams = [Stream() for _ in prompts]
        waiting = list(range(len(prompts)))[::-1]
        live: dict[int, int] = {}  # By sequence, the index of its prompt.
        began = self.seconds
        while waiting or live:
            inputs = {
                sequence: (len(prompts[index]) + len(streams[index].tokens) - 1, streams[index].tokens[-1:])
                for sequence, index in live.items()
            }
            for sequence in range(self._sequences):
                if sequence not in live and waiting:
                    live[sequence] = waiting.pop()
                    inputs[sequence] = (0, prompts[live[sequence]])
            for sequence, token in self._next(inputs).items():
                stream = streams[live[sequence]]
                stream.tokens.append(token)
                stream.times.append(self.seconds - began)
                if len(stream.tokens) == count:
                    llama.llama_memory_seq_rm(self._memory, sequence, -1, -1)
                    del live[sequence]
        return streams
