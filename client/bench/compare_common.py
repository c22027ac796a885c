"""What compare_llama_cpp.py, compare_ddtree.py and figures.py share: prompts as token ids, rounds of bastion-bench, services
that run beside, the table."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "build/compare_venv lacks it: see client/bench/compare_requirements.txt"
STARTUP_SECONDS = 180


class CompareError(Exception):
    """Something is missing or failed; the text says what to do."""


@dataclass(frozen=True)
class Prompt:
    id: str
    tokens: list[int]


@dataclass(frozen=True)
class Answer:
    """One prompt answered: all new tokens, seconds without prefill, cycles (1 a token without drafts)."""

    tokens: list[int]
    seconds: float
    cycles: int


@dataclass
class Arm:
    """An engine with a policy, and its answers in the order of the prompts."""

    name: str
    answers: list[Answer] = field(default_factory=list)

    def rates(self) -> list[float]:
        return [len(answer.tokens) / answer.seconds for answer in self.answers]

    def rate(self) -> float:
        return sum(len(a.tokens) for a in self.answers) / sum(a.seconds for a in self.answers)

    def tau(self) -> float:
        return sum(len(a.tokens) for a in self.answers) / sum(a.cycles for a in self.answers)


def add_arguments(parser: ArgumentParser) -> None:
    """What both comparisons are told."""
    demo = ROOT / "deploy/demo_model"
    parser.add_argument("--target", type=Path, default=demo / "target")
    parser.add_argument("--drafter", type=Path, default=demo / "drafter")
    parser.add_argument("--prompts", type=Path, default=demo / "prompts.jsonl",
                        help='JSON lines of {"id", "text"} or {"id", "token_ids"}')
    parser.add_argument("--count", type=int, default=32, help="of the first prompts")
    parser.add_argument("--rounds", type=int, default=4, help="the prompts are divided among so many turns of all arms")
    parser.add_argument("--max_new_tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policies", default="ar,adaptive+prior", help="of bastion-bench; 'ar' is plain decoding")
    parser.add_argument("--dtype", default="bf16", help="of bastion: bf16 or fp32")
    parser.add_argument("--drafter_dtype", default="auto", help="of bastion's drafter")
    parser.add_argument("--bench", type=Path, default=ROOT / "build/release/bin/bastion-bench")
    parser.add_argument("--work", type=Path, default=ROOT / "build/compare", help="for converted or fetched files")
    parser.add_argument("--report", type=Path, help="JSON file of all answers")


def load_prompts(args: Namespace) -> list[Prompt]:
    """The first --count prompts; texts through the target's tokenizer.json."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise CompareError(f"{error}: {INSTALL}") from error
    for folder in (args.target, args.drafter):
        if not (folder / "config.json").exists():
            raise CompareError(f"{folder}: holds no model")
    tokenizer, prompts = None, []
    for number, line in enumerate(args.prompts.read_text().splitlines()[:args.count], 1):
        try:
            entry = json.loads(line)
            if "text" in entry:
                tokenizer = tokenizer or Tokenizer.from_file(str(args.target / "tokenizer.json"))
                entry["token_ids"] = tokenizer.encode(entry["text"]).ids
            prompts.append(Prompt(entry["id"], entry["token_ids"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CompareError(f"{args.prompts}:{number}: wants id and text or token_ids: {error}") from error
    if not prompts:
        raise CompareError(f"{args.prompts}: no prompts in it")
    return prompts


def rounds(prompts: list[Prompt], count: int) -> list[list[Prompt]]:
    """Shares of even size, none empty."""
    count = max(1, min(count, len(prompts)))
    return [prompts[len(prompts) * i // count:len(prompts) * (i + 1) // count] for i in range(count)]


def bench_arms(args: Namespace, name: str) -> list[Arm]:
    return [Arm(f"{name} {policy}") for policy in args.policies.split(",")]


def run_bench(args: Namespace, prompts: list[Prompt], arms: list[Arm], where: list[str]) -> None:
    """Adds the prompts' answers to `arms`; `where`: flags that say which stages ([] or --endpoint …)."""
    if not args.bench.exists():
        raise CompareError(f"{args.bench}: no such program: run deploy/local/build.sh")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prompts.jsonl"
        file.write_text("".join(json.dumps({"id": p.id, "token_ids": p.tokens}) + "\n" for p in prompts))
        command = [args.bench, "--prompts", file, "--target", args.target, "--drafter", args.drafter,
                   "--policies", args.policies, "--temperature", "0", "--max_new_tokens", args.max_new_tokens,
                   "--threads", args.threads, "--dtype", args.dtype, "--drafter_dtype", args.drafter_dtype,
                   "--ignore_eos", "--report", folder, *where]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            why = "out of memory?" if done.returncode == -9 else (done.stdout + done.stderr)[-2000:]
            raise CompareError(f"bastion-bench ended with status {done.returncode}: {why}")
        report = json.loads((Path(folder) / "results.json").read_text())
    for arm, policy in zip(arms, report["policies"]):
        for entry in policy["prompts"]:
            arm.answers.append(Answer(entry["output_token_ids"], entry["seconds"], len(entry["committed_lengths"])))


@contextlib.contextmanager
def services(args: Namespace, *engine) -> Iterator[str]:
    """Verifier, drafter and orchestrator on sockets of a folder that goes with them; yields the address. `engine`: more flags of
    verifier and drafter."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        address = {name: f"unix://{folder}/{name}.sock" for name in ("verifier", "drafter", "orchestrator")}
        started = []

        def start(name: str, *flags) -> None:
            log = stack.enter_context(open(f"{folder}/{name}.log", "w"))
            command = [args.bench.parent / f"bastion-{name}", "--target", args.target, "--listen", address[name], *flags]
            process = subprocess.Popen([str(part) for part in command], stderr=log)
            started.append(process)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        engine = ["--threads", args.threads, *engine]
        start("verifier", "--dtype", args.dtype, *engine)
        start("drafter", "--drafter", args.drafter, "--dtype", args.drafter_dtype, "--verifier", address["verifier"], *engine)
        prior = ["--prior", args.drafter] if (args.drafter / "transition_prior.safetensors").exists() else []
        start("orchestrator", "--verifier", address["verifier"], "--drafter", address["drafter"], *prior)
        wait_until_healthy(args.bench.parent / "bastionctl", address["orchestrator"], started)
        yield address["orchestrator"]


def wait_until_healthy(bastionctl: Path, address: str, processes: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while subprocess.run([str(bastionctl), "health", "--endpoint", address], capture_output=True).returncode != 0:
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            raise CompareError("the services did not come up: does deploy/local/demo.sh?")
        time.sleep(0.1)


def agreement(arm: Arm, reference: Arm) -> float:
    """Share of tokens before the first difference, over all answers."""
    same = total = 0
    for ours, theirs in zip(arm.answers, reference.answers):
        total += len(theirs.tokens)
        pairs = enumerate(zip(ours.tokens, theirs.tokens))
        same += next((i for i, (a, b) in pairs if a != b), min(len(ours.tokens), len(theirs.tokens)))
    return same / total


def table(arms: list[Arm], reference: Arm) -> str:
    """Markdown: `reference` is what the ratios are against."""
    lines = ["| engine, policy | tokens/s, all | median of prompts | median ratio to the first | τ | same tokens as the first |",
             "|---|--:|--:|--:|--:|--:|"]
    for arm in [reference, *(arm for arm in arms if arm is not reference)]:
        ratio = median(mine / theirs for mine, theirs in zip(arm.rates(), reference.rates()))
        lines.append(f"| {arm.name} | {arm.rate():.1f} | {median(arm.rates()):.1f} | {ratio:.2f}× | {arm.tau():.2f} | "
                     f"{100 * agreement(arm, reference):.0f} % |")
    return "\n".join(lines)


def write_report(path: Path | None, arms: list[Arm]) -> None:
    if path is not None:
        path.write_text(json.dumps([{"name": arm.name, "answers": [vars(answer) for answer in arm.answers]} for arm in arms]))


def progress(done: int, total: int, what: str) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else ""
    print(f"\rround {done} of {total}: {what:<40}", end=end, file=sys.stderr, flush=True)
