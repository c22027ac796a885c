"""The two demo pairs: what differs in their training. Everything else is the same code."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from demo_training import gpt_neox, grow
from demo_training.dflash import TARGET_LAYERS, DFlash, DraftConfig
from demo_training.gpt_neox import GptNeox
from demo_training.language_model import LanguageModel
from demo_training.qwen3 import Config, Qwen3

DEPLOY = Path(__file__).resolve().parent.parent
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Recipe(Generic[M]):
    """How one model is trained.

    `name` is that of its files and folder. `new` makes the model in its final size. `seed` draws its first weights.
    """

    name: str
    new: Callable[[], M]
    minutes: float
    seed: int
    adam_lr: float


@dataclass(frozen=True)
class TargetRecipe(Recipe[LanguageModel]):
    """How a target is trained and grows.

    `first` makes the model that training begins or continues with. It gets the number of layers in the last checkpoint,
    or None. `grow` gets a model of `first`, and returns the model to train after a share of the time: the same, or a
    larger one. `step_tokens` gives the tokens of a step after a share of the time.
    """

    first: Callable[[int | None], LanguageModel]
    grow: Callable[[Any, float], LanguageModel]
    step_tokens: Callable[[float], int]


@dataclass(frozen=True)
class TeacherRecipe:
    """How the teacher text is made. `seed` draws the prefixes.

    `shapes`: (corpus prefix, continuation) in tokens. Shards cycle through them. Continuation 0: corpus text alone.
    `taps`: the target's layers whose features a shard holds.
    """

    minutes: float
    seed: int
    shapes: tuple[tuple[int, int], ...]
    taps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pair:
    """One pair.

    `folder`: target/, drafter/, prompts.jsonl and the model card. `tokenizer`: folder of the tokenizer of another pair,
    which shares the text too. None: the pair trains its own. `now`: the clock that training times count. `bf16`: products
    run in bf16 while training. `tolerance`: largest difference in fp32 logits from `transformers`.
    """

    name: str
    folder: Path
    tokenizer: Path | None
    threads: int
    now: Callable[[], float]
    bf16: bool
    tolerance: float
    target: TargetRecipe
    teacher: TeacherRecipe
    drafter: Recipe[nn.Module]


# A Qwen3 target with a DFlash drafter, on two cores.
DEMO = Pair(
    name="demo",
    folder=DEPLOY / "demo_model",
    tokenizer=None,
    threads=2,
    now=time.monotonic,
    bf16=False,
    tolerance=1e-3,
    target=TargetRecipe(
        name="target",
        new=lambda: Qwen3(Config()),
        minutes=128,
        seed=1,
        adam_lr=0.003,
        first=grow.first,
        grow=grow.grow_when_due,
        # Early in training, many small steps learn faster than a few large steps.
        step_tokens=lambda share: 2048 if share < 0.75 else 4096,
    ),
    teacher=TeacherRecipe(
        minutes=32,
        seed=7,
        # Most prefixes are as long as the prompts; some are longer.
        shapes=((48, 160), (96, 160), (160, 160), (64, 160), (128, 160), (224, 160), (72, 192), (448, 96)),
        taps=TARGET_LAYERS,
    ),
    drafter=Recipe(name="drafter", new=lambda: DFlash(DraftConfig()), minutes=65, seed=2, adam_lr=0.003),
)

# A GPT-NeoX target with an autoregressive drafter, on one core. Times are processor time: a busy machine takes longer,
# but trains on nearly as many tokens.
NEOX = Pair(
    name="neox",
    folder=DEPLOY / "demo_model_neox",
    tokenizer=DEMO.folder / "target",
    threads=1,
    now=time.process_time,
    bf16=True,
    tolerance=1e-4,
    target=TargetRecipe(
        name="target",
        new=lambda: GptNeox(gpt_neox.TARGET),
        minutes=38,
        seed=3,
        adam_lr=0.003,
        first=lambda layers: GptNeox(gpt_neox.TARGET),
        grow=gpt_neox.grow_when_due,
        step_tokens=lambda share: 2048,
    ),
    teacher=TeacherRecipe(
        minutes=9,
        seed=9,
        # Two shards of three are continuations. The third is corpus text alone.
        shapes=((48, 112), (128, 128), (256, 0), (96, 128), (192, 112), (512, 0)),
    ),
    drafter=Recipe(name="drafter", new=lambda: GptNeox(gpt_neox.DRAFTER), minutes=13, seed=4, adam_lr=0.005),
)

PAIRS = {pair.name: pair for pair in (DEMO, NEOX)}
