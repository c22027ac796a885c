#!/usr/bin/env python3
"""Measures other engines with the weights and prompts of the GPU run. The GPU run starts this script.

    deploy/measure/gpu_peers.py --target DIR --drafter DIR --prompts FILE --out FILE [--ddtree DIR]

  plain steps   One token after a context, in Hugging Face transformers with a static cache: called from Python, and
                replayed as a CUDA graph, which is the fastest that transformers can be.
  --ddtree DIR  A checkout of https://github.com/liranringel/ddtree at commit c96427a. Plain decoding, DFlash and
                DDTree, as their benchmark calls them (compare_ddtree.py). Two things differ: the drafter's attention
                is PyTorch's sdpa instead of flash-attn, and their extension in C++ is not compiled, because that would
                take half a minute. Their rates exclude prefill and the first draft.

The GPU report compares them with bastion's answers to the same prompts in the step `decode`. FILE of --out is
rewritten after every part, so that a run that is stopped has the parts before.

Exit status: 0 if all parts ran, 3 if this Python lacks what they need.
"""

import argparse
import functools
import json
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from statistics import median

from arms import Answer, Arm
from compare_common import Prompt, load_prompts
from compare_ddtree import Pair, import_theirs, load_model
from runner import MeasureError

NOTHING_TO_RUN = 3  # Exit status.
CONTEXTS = (16, 2048)
PROMPTS = 3
NEW_TOKENS = 64
BUDGETS = (64, 128)  # The best of 16 to 512 on an H200 was 128.
WARMUP_TOKENS = 8
ROOM = 8  # Tokens of the static cache after the context.


def import_packages(device: str) -> types.SimpleNamespace:
    """torch and transformers. Exits with NOTHING_TO_RUN if one is missing, or torch finds no GPU."""
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"other engines need torch and transformers: {error}", file=sys.stderr)
        sys.exit(NOTHING_TO_RUN)
    if device == "cuda" and not torch.cuda.is_available():
        print("other engines need a torch with CUDA, and this one finds no GPU", file=sys.stderr)
        sys.exit(NOTHING_TO_RUN)
    transformers.logging.set_verbosity_error()
    return types.SimpleNamespace(torch=torch, transformers=transformers)


class PlainSteps:
    """Plain steps of a Hugging Face model with a static cache: one token after `context` cached tokens.

    All steps write the same place of the cache, so they do the same work.
    """

    def __init__(self, packages: types.SimpleNamespace, model, context: int):
        self._torch, self._model = packages.torch, model
        self._cache = packages.transformers.StaticCache(config=model.config, max_cache_len=context + ROOM)
        tokens = self._torch.arange(context, device=model.device)[None] % model.config.vocab_size
        self._forward(tokens, self._torch.arange(context, device=model.device))
        self._token = tokens[:, -1:].clone()
        self._position = self._torch.tensor([context], device=model.device)

    def _forward(self, tokens, positions):
        with self._torch.inference_mode():
            return self._model(
                tokens, past_key_values=self._cache, cache_position=positions, use_cache=True, logits_to_keep=1
            ).logits

    def step(self):
        """Runs a step. Returns its logits."""
        return self._forward(self._token, self._position)

    def graph(self) -> tuple[Callable, object]:
        """Captures a step as a CUDA graph. Returns the function that replays it, and the logits that it writes."""
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self.step()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            logits = self.step()
        return graph.replay, logits


def milliseconds(packages: types.SimpleNamespace, call: Callable, repeats: int) -> float:
    """The median time of a call that ends when the GPU has finished."""
    wait = packages.torch.cuda.synchronize if packages.torch.cuda.is_available() else lambda: None
    times = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        call()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return median(times)


def time_steps(packages: types.SimpleNamespace, model, report: "Report", context: int) -> None:
    """Adds the times of a plain step after `context` tokens. `graph_ms` is None without a GPU."""
    steps = PlainSteps(packages, model, context)
    expected = steps.step()
    entry = {"context": context, "eager_ms": milliseconds(packages, steps.step, 10), "graph_ms": None}
    report.add_step(entry)
    if model.device.type == "cuda":
        replay, logits = steps.graph()
        entry["graph_ms"] = milliseconds(packages, replay, 30)
        entry["same_logits"] = bool(packages.torch.equal(expected, logits))
        report.save()


def answer_with_tree(budget: int, pair: Pair, prompt: Prompt) -> Answer:
    return pair.tree(budget, prompt)


def ddtree_arms(theirs: types.SimpleNamespace, target, args: argparse.Namespace) -> dict[str, Callable[[int, Prompt], Answer]]:
    """The functions that answer a prompt with a number of tokens, by the name of their arm."""
    drafter = load_model(theirs.model.DFlashDraftModel, args.drafter, theirs.torch.bfloat16, args.device)

    def answer(method: Callable[[Pair, Prompt], Answer], tokens: int, prompt: Prompt) -> Answer:
        return method(Pair(theirs, target, drafter, tokens), prompt)

    methods: dict[str, Callable[[Pair, Prompt], Answer]] = {"plain": Pair.plain, "DFlash": Pair.chain}
    for budget in BUDGETS:
        methods[f"budget {budget}"] = functools.partial(answer_with_tree, budget)
    return {f"DDTree's code, {name}": functools.partial(answer, method) for name, method in methods.items()}


class Report:
    """What was measured so far. Written to a file after every part."""

    def __init__(self, path: Path, packages: types.SimpleNamespace, prompts: list[Prompt]):
        self._path = path
        self.content: dict = {
            "torch": packages.torch.__version__,
            "transformers": packages.transformers.__version__,
            "prompts": [prompt.id for prompt in prompts],
            "steps": [],
            "arms": [],
            "left_out": {},
        }

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.content, indent=1))

    def add_step(self, entry: dict) -> None:
        self.content["steps"].append(entry)
        self.save()

    def add_arm(self, arm: Arm) -> None:
        self.content["arms"].append({"name": arm.name, "answers": [vars(answer) for answer in arm.answers]})
        self.save()

    def leave_out(self, part: str, why: str) -> None:
        self.content["left_out"][part] = why
        self.save()


def measure_ddtree(args: argparse.Namespace, target, prompts: list[Prompt], report: Report) -> None:
    theirs = import_theirs(args.ddtree, on_gpu=args.device == "cuda")
    for name, answer in ddtree_arms(theirs, target, args).items():
        answer(WARMUP_TOKENS, prompts[0])
        report.add_arm(Arm(name, [answer(args.max_new_tokens, prompt) for prompt in prompts]))


def measure(args: argparse.Namespace) -> bool:
    """Runs all parts. Returns False if one failed."""
    packages = import_packages(args.device)
    prompts = load_prompts(args)
    report = Report(args.out, packages, prompts)
    target = load_model(packages.transformers.AutoModelForCausalLM, args.target, packages.torch.bfloat16, args.device)

    contexts = CONTEXTS[:1] if args.quick else CONTEXTS
    parts: dict[str, Callable[[], None]] = {
        f"plain steps after {context} tokens": functools.partial(time_steps, packages, target, report, context)
        for context in contexts
    }
    if args.ddtree:
        parts["DDTree's code"] = lambda: measure_ddtree(args, target, prompts, report)
    else:
        report.leave_out("DDTree's code", "no checkout was named (--ddtree)")
    failed = []
    for name, part in parts.items():
        try:
            part()
        except Exception as error:  # Any error of another project's code: the other parts must run.
            traceback.print_exc()
            failed.append(name)
            report.leave_out(name, repr(error))
    if failed:
        print(f"{', '.join(failed)} failed", file=sys.stderr)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in (("target", "folder of the target"), ("drafter", "folder of the drafter")):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="DIR", help=what)
    parser.add_argument("--prompts", type=Path, required=True, metavar="FILE", help='JSON lines of {"id", "text"}')
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON file to write")
    parser.add_argument("--ddtree", type=Path, metavar="DIR", help="checkout of DDTree's code. Default: leave it out")
    parser.add_argument("--device", default="cuda", help="cuda or cpu. Default: cuda")
    parser.add_argument("--quick", action="store_true", help="one context and one prompt, 8 tokens")
    args = parser.parse_args()
    args.count, args.max_new_tokens = (1, 8) if args.quick else (PROMPTS, NEW_TOKENS)
    try:
        return 0 if measure(args) else 1
    except (MeasureError, OSError) as error:
        print(f"gpu_peers: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
