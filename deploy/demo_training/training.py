"""The training loop that targets and drafters share."""

import argparse
from collections.abc import Callable
from typing import Generic

import torch
from tqdm import tqdm

from demo_training.muon import optimizers
from demo_training.pairs import M, Recipe
from demo_training.schedule import Checkpoint, Clock, append_log, learning_rate_scale, set_scale

LOG_STEPS = 10


def progress_bar(name: str) -> tqdm:
    """A bar that shows the elapsed share of a stage's time in percent."""
    return tqdm(total=100, desc=name, unit="%", bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}")


def show(bar: tqdm, share: float, **values: object) -> None:
    """Moves the bar and shows the values beside it."""
    bar.n = round(100 * share, 1)
    bar.set_postfix(values)


class Training(Generic[M]):
    """Trains one model until its time is up.

    If training is interrupted, the same command continues from the last checkpoint. A step's random draws depend on
    `step` only.
    """

    def __init__(self, args: argparse.Namespace, recipe: Recipe[M], model: M):
        self.pair, self.recipe = args.pair, recipe
        self.checkpoint = Checkpoint(args.work / f"{recipe.name}.pt")
        self.log = args.work / f"{recipe.name}.log.jsonl"
        self.use(model)
        counters = self.checkpoint.load(self.model, self.optimizers)
        self.clock = Clock(args.max_minutes or recipe.minutes, counters.get("seconds", 0.0), args.pair.now)
        self.step, self.tokens = counters.get("step", 0), counters.get("tokens", 0)
        self.share = 0.0  # Elapsed share of the time when the current step began.

    def use(self, model: M) -> None:
        """Trains this model from now on, with new optimizers."""
        self.model, self.optimizers = model, optimizers(model, self.recipe.adam_lr)

    def run(self, gradient: Callable[[], tuple[int, dict]], report: Callable[[], dict] = dict) -> None:
        """Trains until the time is up.

        gradient: accumulates the gradient of one step; returns how many tokens it learned from, and values for the log.
        report: more counters for each checkpoint.
        """
        bar = progress_bar(self.recipe.name)
        done = self.clock.share() >= 1.0
        while not done:
            self.share = self.clock.share()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.pair.bf16):
                tokens, values = gradient()
                self._update()
            self.step, self.tokens = self.step + 1, self.tokens + tokens
            if self.step % LOG_STEPS == 0:
                seconds = self.clock.seconds()
                append_log(self.log, {"step": self.step, "tokens": self.tokens, "seconds": round(seconds, 1), **values})
                show(bar, self.share, step=self.step, **values, tokens_per_s=f"{self.tokens / seconds:.0f}")
            done = self.clock.share() >= 1.0
            if self.checkpoint.due() or done:
                self._save(report)
        bar.close()

    def _update(self) -> None:
        set_scale(self.optimizers, learning_rate_scale(self.share))
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def _save(self, report: Callable[[], dict]) -> None:
        counters = {"step": self.step, "tokens": self.tokens, "seconds": self.clock.seconds(), **report()}
        append_log(self.log, counters)
        self.checkpoint.save(self.model, self.optimizers, counters)
