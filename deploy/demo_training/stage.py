"""The command line that all stages share."""

import argparse
from pathlib import Path

import torch

from demo_training.pairs import PAIRS


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every stage. `doc`: the docstring of the stage's module."""
    options = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    options.add_argument("--pair", choices=PAIRS, required=True)
    options.add_argument("--work", type=Path, required=True, help="working folder of this pair, outside the history")
    options.add_argument(
        "--out", type=Path, help="folder of target/, drafter/ and prompts.jsonl. Default: the pair's in deploy"
    )
    options.add_argument("--threads", type=int, help="threads of torch. Default: as the pair was trained")
    return options


def timed_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options of a stage that runs for a fixed time."""
    options = parser(doc)
    options.add_argument("--max-minutes", type=float, help="minutes of this stage. Default: as the pair was trained")
    return options


def parse(options: argparse.ArgumentParser) -> argparse.Namespace:
    """Parses the command line. `pair` becomes the Pair of that name."""
    args = options.parse_args()
    args.pair = PAIRS[args.pair]
    args.out = args.out or args.pair.folder
    torch.set_num_threads(args.threads or args.pair.threads)
    return args
