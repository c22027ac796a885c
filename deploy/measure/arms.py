"""Arms of a comparison: engines with policies that take turns on the same prompts. Also a table of their rates."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bars import measured
from report import number, table


@dataclass(frozen=True)
class Answer:
    """The answer to one prompt. `seconds` excludes prefill. Without drafts, every token is one cycle."""

    tokens: list[int]
    seconds: float
    cycles: int


@dataclass
class Arm:
    """An engine with a policy, and its answers in the order of the prompts."""

    name: str
    answers: list[Answer] = field(default_factory=list)

    def rates(self) -> list[float]:
        """Tokens per second, by prompt."""
        return [len(answer.tokens) / answer.seconds for answer in self.answers]

    def rate(self) -> float:
        """Tokens per second over all prompts."""
        return sum(len(a.tokens) for a in self.answers) / sum(a.seconds for a in self.answers)

    def tau(self) -> float:
        """Mean committed length."""
        return sum(len(a.tokens) for a in self.answers) / sum(a.cycles for a in self.answers)


def add_answers(arms: dict[str, Arm], prefix: str, results: dict) -> None:
    """Adds the answers of bastion-bench's results.json to the arms "PREFIX POLICY"."""
    for policy in results["policies"]:
        name = f"{prefix} {policy['policy']}"
        answers = arms.setdefault(name, Arm(name)).answers
        for prompt in policy["prompts"]:
            answers.append(Answer(prompt["output_token_ids"], prompt["seconds"], len(prompt["committed_lengths"])))


def rounds(prompts: list, count: int) -> list[list]:
    """Divides the prompts into `count` shares of equal size. With fewer prompts, there are fewer shares, none empty."""
    count = max(1, min(count, len(prompts)))
    return [prompts[len(prompts) * i // count : len(prompts) * (i + 1) // count] for i in range(count)]


def ratio(arm: Arm, reference: Arm) -> float:
    """The median over prompts of arm's rate relative to the reference's."""
    return median(mine / theirs for mine, theirs in zip(arm.rates(), reference.rates(), strict=True))


def best_ratio(arms: list[Arm], reference: Arm) -> dict:
    best = max(arms, key=lambda arm: ratio(arm, reference))
    return measured(ratio(best, reference), f"{best.name} relative to {reference.name}")


def agreement(arm: Arm, reference: Arm) -> float:
    """The share of tokens before the first difference, over all answers."""
    same = total = 0
    for ours, theirs in zip(arm.answers, reference.answers):
        total += len(theirs.tokens)
        pairs = enumerate(zip(ours.tokens, theirs.tokens))
        same += next((i for i, (a, b) in pairs if a != b), min(len(ours.tokens), len(theirs.tokens)))
    return same / total


def arms_table(arms: list[Arm], reference: Arm) -> str:
    """The reference comes first. All ratios are relative to it."""
    ordered = [reference, *(arm for arm in arms if arm is not reference)]
    head = [
        "engine, policy",
        "tokens/s, all",
        "median of prompts",
        "median ratio to the first",
        "τ",
        "same tokens as the first",
    ]
    return table(
        head,
        [
            [
                arm.name,
                number(arm.rate(), 1),
                number(median(arm.rates()), 1),
                number(ratio(arm, reference), 2, "×"),
                number(arm.tau()),
                f"{100 * agreement(arm, reference):.0f} %",
            ]
            for arm in ordered
        ],
    )


def save(path: Path, arms: list[Arm]) -> None:
    path.write_text(json.dumps([{"name": arm.name, "answers": [vars(answer) for answer in arm.answers]} for arm in arms]))


def load(path: Path) -> list[Arm]:
    return [Arm(arm["name"], [Answer(**answer) for answer in arm["answers"]]) for arm in json.loads(path.read_text())]
