#!/usr/bin/env python3
"""Compares bastion, in process and through services, with the published Python code of DDTree's authors.

    build/compare_venv/bin/python deploy/measure/compare_ddtree.py [--budgets 4,8,16,32,64]

compare_requirements.txt says how to create build/compare_venv.

Both use the same models, prompts and number of threads. The authors' code ("their code" below;
https://github.com/liranringel/ddtree, Ringel and Romano, arXiv 2604.12989) is cloned to
build/compare/ddtree. This script calls it as their benchmark.py does: plain decoding
(dflash_generate with blocks of 1), DFlash, and DDTree at every budget, on Hugging Face
transformers. Their code is written for CUDA. On a CPU this script changes only four things:
  - torch.cuda.synchronize() does nothing (their clock calls it);
  - the drafter's attention is PyTorch's sdpa instead of flash-attn, which has no CPU version (the
    target uses sdpa anyway);
  - `datasets`, which only their loader of public benchmarks uses, is an empty stand-in;
  - fp32 runs in addition to their bf16, because CPUs without bf16 instructions are faster in fp32.

The prompts are divided into shares, one per round. In each round, every arm (an engine with a policy)
answers the share. bastion goes first in every other round. All arms generate --max_new_tokens. Rates
exclude prefill and, for their code, the first draft, as in their benchmark. Ratios are relative to the
fastest of their arms.
"""

import argparse
import functools
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

from arms import Answer, Arm, arms_table
from compare_common import INSTALL, Bastion, Prompt, bastion_side, load_prompts, make_parser, save_report, take_turns
from runner import MeasureError, NotRun

REPOSITORY, COMMIT = "https://github.com/liranringel/ddtree", "c96427a"
KV_TOKENS = 8192  # The services' default would leave too little memory for a large model in Python.


def fetch(folder: Path) -> None:
    """Clones their code at the commit that this script was written for, unless the folder has the code."""
    if (folder / "ddtree.py").exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in (["git", "clone", "--quiet", REPOSITORY, folder], ["git", "-C", folder, "checkout", "--quiet", COMMIT]):
        if subprocess.run([str(part) for part in command]).returncode != 0:
            raise NotRun(f"cannot clone {REPOSITORY}; put its files at commit {COMMIT} into {folder}")


def import_theirs(folder: Path, on_gpu: bool = False) -> types.SimpleNamespace:
    """Imports their modules. Without a GPU, makes them run on the CPU."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise NotRun(f"{error}: {INSTALL}") from error
    if not on_gpu:
        torch.cuda.synchronize = lambda *_: None
    stand_in = types.ModuleType("datasets")
    for name in ("load_dataset", "Features", "Sequence", "Value"):
        setattr(stand_in, name, None)
    sys.modules.setdefault("datasets", stand_in)
    sys.path.insert(0, str(folder))  # Their modules import each other by bare names.
    import ddtree
    import dflash
    import model

    return types.SimpleNamespace(torch=torch, transformers=transformers, ddtree=ddtree, dflash=dflash, model=model)


def load_model(kind, folder: Path, dtype, device: str = "cpu"):
    """Loads a model as their benchmark does. `kind`: a class with from_pretrained()."""
    return kind.from_pretrained(folder, attn_implementation="sdpa", dtype=dtype).to(device).eval()


class Pair:
    """Target and drafter, from load_model(). `limit`: tokens to generate."""

    def __init__(self, theirs: types.SimpleNamespace, target, drafter, limit: int):
        self.theirs, self.limit = theirs, limit
        self.target, self.drafter = target, drafter

    def run(self, method: Callable, prompt: Prompt, **more) -> Answer:
        ids = self.theirs.torch.tensor([prompt.tokens], device=self.target.device)
        result = method(self.drafter, self.target, ids, self.drafter.mask_token_id, self.limit, stop_token_ids=None, **more)
        tokens = result.output_ids[0, result.num_input_tokens :].tolist()
        return Answer(tokens, result.time_per_output_token * result.num_output_tokens, result.decode_rounds)

    def plain(self, prompt: Prompt) -> Answer:
        return self.run(self.theirs.dflash.dflash_generate, prompt, block_size=1)

    def chain(self, prompt: Prompt) -> Answer:
        return self.run(self.theirs.dflash.dflash_generate, prompt, block_size=self.drafter.block_size)

    def tree(self, budget: int, prompt: Prompt) -> Answer:
        return self.run(self.theirs.ddtree.ddtree_generate, prompt, block_size=self.drafter.block_size, tree_budget=budget)


def their_arms(args: argparse.Namespace) -> dict[str, Callable[[Prompt], Answer]]:
    """The functions that answer a prompt, by the name of their arm."""
    theirs = import_theirs(args.work / "ddtree")
    theirs.torch.set_num_threads(args.threads)
    theirs.ddtree.maybe_enable_cpp_compact(True)  # As in their benchmark. Without a compiler, it only warns.
    arms: dict[str, Callable[[Prompt], Answer]] = {}
    for dtype in args.hf_dtypes.split(","):
        short, number_type = {"float32": "fp32", "bfloat16": "bf16"}[dtype], getattr(theirs.torch, dtype)
        target = load_model(theirs.transformers.AutoModelForCausalLM, args.target, number_type)
        drafter = load_model(theirs.model.DFlashDraftModel, args.drafter, number_type)
        pair = Pair(theirs, target, drafter, args.max_new_tokens)
        arms[f"plain HF {short}"] = pair.plain
        arms[f"DFlash HF {short}"] = pair.chain
        for budget in (int(text) for text in args.budgets.split(",")):
            arms[f"DDTree {budget} HF {short}"] = functools.partial(pair.tree, budget)
    return arms


def measure(args: argparse.Namespace, bastion: Bastion, endpoint: str) -> list[Arm]:
    """Runs all arms. Returns those of their code; bastion.arms has the others."""
    prompts, run = load_prompts(args), their_arms(args)
    arms = [Arm(name) for name in run]
    for answer in run.values():
        answer(prompts[0])  # Warm-up, as in their benchmark.

    def run_theirs(share: list[Prompt]) -> None:
        for prompt in share:
            for arm in arms:
                arm.answers.append(run[arm.name](prompt))

    def run_ours(share: list[Prompt]) -> None:
        bastion.answer(share)
        bastion.answer(share, "bastion services", endpoint)

    take_turns(args, prompts, [run_ours, run_theirs])
    return arms


def main() -> None:
    parser, theirs = make_parser(__doc__)
    theirs.add_argument(
        "--budgets", default="4,8,16,32,64", help="comma-separated node budgets of DDTree. Default: 4,8,16,32,64"
    )
    theirs.add_argument(
        "--hf_dtypes", default="float32,bfloat16", help="comma-separated dtypes of their models. Default: float32,bfloat16"
    )
    args = parser.parse_args()
    try:
        with bastion_side(args) as bastion:
            fetch(args.work / "ddtree")
            with bastion.services("--kv_tokens", KV_TOKENS) as endpoint:
                reference = measure(args, bastion, endpoint)
    except (MeasureError, OSError) as error:
        sys.exit(f"compare_ddtree: {error}")
    arms = [*reference, *bastion.arms.values()]
    save_report(args, arms)
    print(arms_table(arms, max(reference, key=Arm.rate)))


if __name__ == "__main__":
    main()
