#!/usr/bin/env python3
"""DDTree's published Python code beside bastion, in process and through services, on the same pair, prompts and threads.

    build/compare_venv/bin/python client/bench/compare_ddtree.py [--budgets 4,8,16,32,64]

Their code (https://github.com/liranringel/ddtree, Ringel and Romano, arXiv 2604.12989) is cloned to build/compare/ddtree and
called as their benchmark.py does: plain decoding (dflash_generate with blocks of 1), DFlash, and DDTree at every budget,
on Hugging Face transformers. It is written for CUDA; on a CPU these things differ from there, and nothing else:
  - torch.cuda.synchronize() does nothing (their clock calls it);
  - the drafter's attention is PyTorch's sdpa instead of flash-attn, which has no CPU version (the target's is sdpa there too);
  - `datasets`, which only their loader of public benchmarks uses, is an empty stand-in;
  - fp32 is tried beside their bf16, since CPUs without bf16 instructions are faster with it.
Prompts are divided into rounds; in each round every arm answers that share, theirs first in odd ones. All run to the limit;
rates leave prefill out, and theirs the first draft too, as they measure it. Ratios are to the fastest of theirs.
build/compare_venv is made by the commands in compare_requirements.txt.
"""

import argparse
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

from compare_common import (INSTALL, Answer, Arm, CompareError, Prompt, add_arguments, bench_arms, load_prompts, progress,
                            rounds, run_bench, services, table, write_report)

REPOSITORY, COMMIT = "https://github.com/liranringel/ddtree", "c96427a"
KV_TOKENS = 8192  # Of the services: their default would not leave a large model's Python side enough memory.


def fetch(folder: Path) -> None:
    """Their code at the commit that this script was written for, unless it is there."""
    if (folder / "ddtree.py").exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (["git", "clone", "--quiet", REPOSITORY, folder], ["git", "-C", folder, "checkout", "--quiet", COMMIT]):
        if subprocess.run([str(part) for part in command]).returncode != 0:
            raise CompareError(f"cannot fetch {REPOSITORY}: put its files of commit {COMMIT} into {folder}")


def import_theirs(folder: Path) -> types.SimpleNamespace:
    """Their modules, made to run without a GPU."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise CompareError(f"{error}: {INSTALL}") from error
    torch.cuda.synchronize = lambda *_: None
    stand_in = types.ModuleType("datasets")
    for name in ("load_dataset", "Features", "Sequence", "Value"):
        setattr(stand_in, name, None)
    sys.modules.setdefault("datasets", stand_in)
    sys.path.insert(0, str(folder))
    import ddtree
    import dflash
    import model
    return types.SimpleNamespace(torch=torch, transformers=transformers, ddtree=ddtree, dflash=dflash, model=model)


class Pair:
    """Target and drafter as their benchmark loads them, in `dtype`."""

    def __init__(self, theirs: types.SimpleNamespace, args: argparse.Namespace, dtype: str):
        self.theirs, self.limit = theirs, args.max_new_tokens
        options = {"attn_implementation": "sdpa", "dtype": getattr(theirs.torch, dtype)}
        self.target = theirs.transformers.AutoModelForCausalLM.from_pretrained(args.target, **options).eval()
        self.drafter = theirs.model.DFlashDraftModel.from_pretrained(args.drafter, **options).eval()

    def run(self, method: Callable, prompt: Prompt, **more) -> Answer:
        ids = self.theirs.torch.tensor([prompt.tokens])
        result = method(self.drafter, self.target, ids, self.drafter.mask_token_id, self.limit, stop_token_ids=None, **more)
        tokens = result.output_ids[0, result.num_input_tokens:].tolist()
        return Answer(tokens, result.time_per_output_token * result.num_output_tokens, result.decode_rounds)

    def plain(self, prompt: Prompt) -> Answer:
        return self.run(self.theirs.dflash.dflash_generate, prompt, block_size=1)

    def chain(self, prompt: Prompt) -> Answer:
        return self.run(self.theirs.dflash.dflash_generate, prompt, block_size=self.drafter.block_size)

    def tree(self, budget: int, prompt: Prompt) -> Answer:
        return self.run(self.theirs.ddtree.ddtree_generate, prompt, block_size=self.drafter.block_size, tree_budget=budget)


def their_arms(args: argparse.Namespace) -> dict[str, Callable[[Prompt], Answer]]:
    """What answers a prompt, by the arm's name."""
    theirs = import_theirs(args.work / "ddtree")
    theirs.torch.set_num_threads(args.threads)
    theirs.ddtree.maybe_enable_cpp_compact(True)  # As their benchmark does; it warns and goes on without a compiler.
    arms = {}
    for dtype in args.hf_dtypes.split(","):
        pair, short = Pair(theirs, args, dtype), {"float32": "fp32", "bfloat16": "bf16"}[dtype]
        arms[f"plain HF {short}"] = pair.plain
        arms[f"DFlash HF {short}"] = pair.chain
        for budget in (int(text) for text in args.budgets.split(",")):
            arms[f"DDTree {budget} HF {short}"] = lambda prompt, pair=pair, budget=budget: pair.tree(budget, prompt)
    return arms


def measure(args: argparse.Namespace, endpoint: str) -> tuple[list[Arm], list[Arm]]:
    """Their arms and ours."""
    prompts, run = load_prompts(args), their_arms(args)
    theirs, local, remote = [Arm(name) for name in run], bench_arms(args, "bastion"), bench_arms(args, "bastion services")
    for answer in run.values():
        answer(prompts[0])  # Warm, as their benchmark warms up.

    def run_theirs(share: list[Prompt]) -> None:
        for prompt in share:
            for arm in theirs:
                arm.answers.append(run[arm.name](prompt))

    def run_ours(share: list[Prompt]) -> None:
        run_bench(args, share, local, [])
        run_bench(args, share, remote, ["--endpoint", endpoint])

    shares = rounds(prompts, args.rounds)
    for index, share in enumerate(shares):
        for turn in (run_ours, run_theirs) if index % 2 == 0 else (run_theirs, run_ours):
            turn(share)
        progress(index + 1, len(shares), f"{len(share)} prompts")
    return theirs, local + remote


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--budgets", default="4,8,16,32,64", help="of DDTree, comma-separated")
    parser.add_argument("--hf_dtypes", default="float32,bfloat16", help="of their side")
    args = parser.parse_args()
    try:
        if not args.bench.exists():
            raise CompareError(f"{args.bench}: no such program: run deploy/local/build.sh")
        fetch(args.work / "ddtree")
        with services(args, "--kv_tokens", KV_TOKENS) as endpoint:
            theirs, ours = measure(args, endpoint)
    except (CompareError, OSError) as error:
        sys.exit(f"compare_ddtree: {error}")
    write_report(args.report, theirs + ours)
    print(table(theirs + ours, max(theirs, key=Arm.rate)))


if __name__ == "__main__":
    main()
