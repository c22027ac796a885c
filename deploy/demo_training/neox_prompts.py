"""Picks the prompts of the GPT-NeoX pair's `prompts.jsonl`, by the first pair's rule (prompts.py)."""

import argparse
from pathlib import Path

import torch

from demo_training.neox_export import load_target
from demo_training.prompts import pick, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file to write, prompts.jsonl")
    args = parser.parse_args()
    torch.set_num_threads(1)
    write(*pick(load_target(args.work), args.work), args.out, args.work / "neox_prompts.json")


if __name__ == "__main__":
    main()
