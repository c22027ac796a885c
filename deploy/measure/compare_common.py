"""Shared by compare_llama_cpp.py and compare_ddtree.py: flags, prompts as token ids, and bastion's arms."""

import contextlib
import json
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _ArgumentGroup
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from arms import Arm, add_answers, rounds, save
from runner import DEMO, PROGRAMS, ROOT, NotRun, Runner, ServiceSettings

INSTALL = "install the packages in deploy/measure/compare_requirements.txt, which says how"


@dataclass(frozen=True)
class Prompt:
    id: str
    tokens: list[int]


def make_parser(description: str) -> tuple[ArgumentParser, _ArgumentGroup]:
    """Returns the parser of a comparison script, and the group for the flags of the other engine."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    what = parser.add_argument_group("models and prompts")
    what.add_argument(
        "--target",
        type=Path,
        default=DEMO / "target",
        metavar="DIR",
        help="folder of the target model. Default: the demo model's",
    )
    what.add_argument(
        "--drafter", type=Path, default=DEMO / "drafter", metavar="DIR", help="folder of the drafter. Default: the demo model's"
    )
    what.add_argument(
        "--prompts",
        type=Path,
        default=DEMO / "prompts.jsonl",
        metavar="FILE",
        help='JSON lines of {"id", "text"} or {"id", "token_ids"}. Default: the demo model\'s',
    )
    what.add_argument("--count", type=int, default=32, help="use the first COUNT prompts. Default: 32")
    what.add_argument(
        "--rounds",
        type=int,
        default=4,
        help="number of rounds. In each round, all arms answer one share of the prompts. Default: 4",
    )
    what.add_argument("--max_new_tokens", type=int, default=64, help="tokens to generate for each prompt. Default: 64")
    ours = parser.add_argument_group("bastion")
    ours.add_argument(
        "--policies",
        default="ar,adaptive+prior",
        help="comma-separated policies of bastion-bench; ar is plain decoding. Default: ar,adaptive+prior",
    )
    ours.add_argument("--dtype", default="bf16", help="weights of the target: bf16 or fp32. Default: bf16")
    ours.add_argument("--drafter_dtype", default="auto", help="weights of the drafter. Default: auto")
    theirs = parser.add_argument_group("the other engine")
    both = parser.add_argument_group("machine and files")
    both.add_argument("--threads", type=int, default=2, help="threads of each engine. Default: 2")
    both.add_argument(
        "--programs",
        type=Path,
        default=PROGRAMS,
        metavar="DIR",
        help="folder with bastion-bench and the services. Default: build/release/bin",
    )
    both.add_argument(
        "--work",
        type=Path,
        default=ROOT / "build/compare",
        metavar="DIR",
        help="folder for converted or fetched files. Default: build/compare",
    )
    both.add_argument("--report", type=Path, metavar="FILE", help="JSON file to write all measurements to. Default: none")
    return parser, theirs


def load_prompts(args: Namespace) -> list[Prompt]:
    """The first --count prompts. The target's tokenizer.json converts texts to token ids."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotRun(f"{error}: {INSTALL}") from error
    for folder in (args.target, args.drafter):
        if not (folder / "config.json").exists():
            raise NotRun(f"{folder} is not a model folder: it has no config.json")
    tokenizer, prompts = None, []
    for number, line in enumerate(args.prompts.read_text().splitlines()[: args.count], 1):
        try:
            entry = json.loads(line)
            if "text" in entry:
                tokenizer = tokenizer or Tokenizer.from_file(str(args.target / "tokenizer.json"))
                entry["token_ids"] = tokenizer.encode(entry["text"]).ids
            prompts.append(Prompt(entry["id"], entry["token_ids"]))
        except (ValueError, KeyError, TypeError) as error:
            raise NotRun(f"{args.prompts}:{number}: a line must have 'id' and 'text' or 'token_ids': {error}") from error
    if not prompts:
        raise NotRun(f"{args.prompts} has no prompts")
    return prompts


class Bastion:
    """Runs bastion's arms of a comparison. `arms`: the arms with their answers, by name."""

    def __init__(self, args: Namespace, run: Runner):
        self._args, self._run = args, run
        self.arms: dict[str, Arm] = {}

    def bench(self, prompts: list[Prompt], *flags) -> dict:
        """Runs all policies. `flags`: more flags of bastion-bench. Returns its results.json."""
        args = self._args
        command = [
            "--target",
            args.target,
            "--drafter",
            args.drafter,
            "--policies",
            args.policies,
            "--temperature",
            "0",
            "--max_new_tokens",
            args.max_new_tokens,
            "--threads",
            args.threads,
            "--weights",
            args.dtype,
            "--drafter_weights",
            args.drafter_dtype,
            "--ignore_eos",
            *flags,
        ]
        lines = [json.dumps({"id": prompt.id, "token_ids": prompt.tokens}) for prompt in prompts]
        return self._run.bench("bench", lines, command)

    def answer(self, prompts: list[Prompt], name: str = "bastion", endpoint: str = "") -> None:
        """Adds the answers of the arms "NAME POLICY". Empty endpoint: in process."""
        add_answers(self.arms, name, self.bench(prompts, *(["--endpoint", endpoint] if endpoint else [])))

    @contextlib.contextmanager
    def services(self, *engine) -> Iterator[str]:
        """Runs the three services. Yields the orchestrator's address. `engine`: more flags of verifier and drafter."""
        args = self._args
        settings = ServiceSettings(
            args.target, args.drafter, ["--threads", args.threads, *engine], args.dtype, args.drafter_dtype
        )
        with self._run.services("services", settings) as endpoint:
            yield endpoint


@contextlib.contextmanager
def bastion_side(args: Namespace) -> Iterator[Bastion]:
    """A Bastion whose programs log to a temporary folder. Stops the programs at the end."""
    with tempfile.TemporaryDirectory() as folder:
        run = Runner(programs=args.programs.resolve(), raw=Path(folder))
        run.program("bastion-bench")
        try:
            yield Bastion(args, run)
        finally:
            run.stop_all()


def alternate(turns: list[Callable], index: int) -> list[Callable]:
    """The order of the turns in round `index`."""
    return turns if index % 2 == 0 else turns[::-1]


def take_turns(args: Namespace, prompts: list[Prompt], turns: list[Callable[[list[Prompt]], None]]) -> None:
    """Divides the prompts into shares, one per round. In each round, all sides answer the share, in alternating order."""
    shares = rounds(prompts, args.rounds)
    for index, share in enumerate(shares):
        for turn in alternate(turns, index):
            turn(share)
        end = "\n" if index + 1 == len(shares) or not sys.stderr.isatty() else ""
        print(f"\rround {index + 1} of {len(shares)}: {len(share)} prompts", end=end, file=sys.stderr, flush=True)


def save_report(args: Namespace, arms: list[Arm]) -> None:
    if args.report is not None:
        save(args.report, arms)
