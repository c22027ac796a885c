"""Distills an autoregressive drafter from the target for `--max-minutes`.

Reads the teacher text (teacher.py). A label is the average of the target's distribution at temperature 1 and all
probability on its most probable token: the first is what sampling needs, the second what greedy decoding needs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from demo_training.export import load
from demo_training.language_model import LanguageModel
from demo_training.stage import parse, timed_parser
from demo_training.teacher import shards
from demo_training.training import Training

STEP_TOKENS = 4096
GREEDY_SHARE = 0.5


def draw(parts: list[dict], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of one shard, about STEP_TOKENS tokens: tokens [B, T], hidden [B, T - 1, C], used [B, T - 1]."""
    shard = parts[int(torch.randint(len(parts), (1,), generator=generator))]
    count, length = shard["tokens"].shape
    rows = torch.randperm(count, generator=generator)[: max(1, STEP_TOKENS // length)]
    used = torch.arange(1, length) < shard["useful"][rows].unsqueeze(1)
    return shard["tokens"][rows].long(), shard["hidden"][rows].float(), used


def distillation_loss(drafter: LanguageModel, head: Tensor, part: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, float]:
    """Cross-entropy to the labels in nats per token, and the share of positions with the target's argmax."""
    tokens, hidden, used = part
    log_q = F.log_softmax(drafter.head(drafter.hidden(tokens[:, :-1])[0][used]).float(), dim=-1)
    with torch.no_grad():
        p = F.softmax(F.linear(hidden[used], head).float(), dim=-1)
        best = p.argmax(dim=-1, keepdim=True)
        agreement = (log_q.argmax(dim=-1, keepdim=True) == best).float().mean().item()
        p.mul_(1 - GREEDY_SHARE).scatter_add_(-1, best, torch.full(best.shape, GREEDY_SHARE, dtype=p.dtype))
    return -(p * log_q).sum(dim=-1).mean(), agreement


def main() -> None:
    args = parse(timed_parser(__doc__))
    torch.manual_seed(args.pair.drafter.seed)
    head = load(args.work, args.pair.target).embedding
    parts = [torch.load(path, weights_only=True, mmap=True) for path in shards(args.work)]
    drafter: LanguageModel = args.pair.drafter.new()
    training = Training(args, args.pair.drafter, drafter)

    def gradient() -> tuple[int, dict]:
        part = draw(parts, torch.Generator().manual_seed(2_000_003 + training.step))
        loss, agreement = distillation_loss(drafter, head, part)
        loss.backward()
        return int(part[2].sum()), {"loss": round(loss.item(), 4), "agreement": round(agreement, 4)}

    training.run(gradient)


if __name__ == "__main__":
    main()
