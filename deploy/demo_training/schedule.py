"""Training for a fixed time: the learning rate depends on the elapsed share of that time.

On any machine, the learning rate reaches zero at the end of the time. `--max-minutes` counts training time
only, and continues across restarts.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch


def learning_rate_scale(share: float, decay_from: float = 0.4) -> float:
    """Rises linearly to 1 in the first 1 % of the time, stays 1, then falls linearly to 0 from `decay_from` on.

    `share`: elapsed time / allowed time, 0 to 1.
    """
    if share < 0.01:
        return max(share, 1e-4) / 0.01
    return min(1.0, max(0.0, (1.0 - share) / (1.0 - decay_from)))


def set_scale(optimizers: list, scale: float) -> None:
    """Sets the lr of every group to its peak (`base_lr`) times `scale`."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * scale


class Clock:
    """Counts seconds of training. `spent`: seconds of earlier runs.

    `now`: where the seconds come from. time.process_time counts processor time, so that a busy machine does not
    shorten the training.
    """

    def __init__(self, max_minutes: float, spent: float = 0.0, now: Callable[[], float] = time.monotonic):
        self.limit, self.spent, self.now, self.start = max_minutes * 60.0, spent, now, now()

    def seconds(self) -> float:
        return self.spent + self.now() - self.start

    def share(self) -> float:
        return min(1.0, self.seconds() / self.limit)


class Checkpoint:
    """A file with model, optimizers and counters. due() is true every `every` seconds. save() is atomic."""

    def __init__(self, path: Path, every: float = 180.0):
        self.path, self.every, self.last = path, every, time.monotonic()

    def peek(self) -> dict:
        """Returns the counters, or {} if there is no checkpoint."""
        return torch.load(self.path, weights_only=True)["counters"] if self.path.exists() else {}

    def load(self, model: torch.nn.Module, optimizers: list) -> dict:
        """Restores model and optimizers in place. Returns the counters, or {} if there is no checkpoint."""
        if not self.path.exists():
            return {}
        state = torch.load(self.path, weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        return state["counters"]

    def save(self, model: torch.nn.Module, optimizers: list, counters: dict) -> None:
        state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "counters": counters}
        temporary = self.path.with_suffix(".tmp")
        torch.save(state, temporary)
        os.replace(temporary, self.path)
        self.last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self.last > self.every


def append_log(path: Path, record: dict) -> None:
    """Appends the record as one line of JSON."""
    with open(path, "a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")
