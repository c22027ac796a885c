"""Distills the autoregressive drafter from the target for `--max-minutes` of processor time.

Reads the teacher text (neox_teacher.py). A label is the average of the target's distribution at temperature 1 and all
probability on its most probable token: the first is what sampling needs, the second what greedy decoding needs.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from demo_training.gpt_neox import DRAFTER, GptNeox
from demo_training.muon import optimizers
from demo_training.neox_export import load_target
from demo_training.schedule import Checkpoint, Clock, append_log, learning_rate_scale, set_scale

STEP_TOKENS = 4096
GREEDY_SHARE = 0.5


def load_shards(folder: Path) -> list[dict]:
    """All shards, read into memory as they are needed (memory mapped)."""
    paths = sorted(folder.glob("*.pt"))
    if not paths:
        raise SystemExit(f"neox_drafter: no teacher text in {folder}; run neox_teacher.py first")
    return [torch.load(path, weights_only=True, mmap=True) for path in paths]


def draw(shards: list[dict], generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of one shard, about STEP_TOKENS tokens: tokens [B, T], hidden [B, T - 1, C], used [B, T - 1]."""
    shard = shards[int(torch.randint(len(shards), (1,), generator=generator))]
    count, length = shard["tokens"].shape
    rows = torch.randperm(count, generator=generator)[: max(1, STEP_TOKENS // length)]
    used = torch.arange(1, length) < shard["useful"][rows].unsqueeze(1)
    return shard["tokens"][rows].long(), shard["hidden"][rows].float(), used


def distillation_loss(drafter: GptNeox, head: Tensor, part: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, float]:
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=13.0)
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.005)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(4)
    head = load_target(args.work).embedding
    shards = load_shards(args.work / "neox_teacher")
    drafter = GptNeox(DRAFTER)
    optimizer_pair = optimizers(drafter, args.muon_lr, args.adam_lr, weight_decay=0.0)
    checkpoint = Checkpoint(args.work / "neox_drafter.pt")
    counters = checkpoint.load(drafter, optimizer_pair)
    clock = Clock(args.max_minutes, counters.get("seconds", 0.0), time.process_time)
    step, tokens = counters.get("step", 0), counters.get("tokens", 0)
    bar = tqdm(
        total=100,
        desc="drafter",
        unit="%",
        mininterval=20,
        bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}",
    )
    done = clock.share() >= 1.0
    while not done:
        set_scale(optimizer_pair, learning_rate_scale(clock.share()))
        part = draw(shards, torch.Generator().manual_seed(2_000_003 + step))
        with torch.autocast("cpu", torch.bfloat16):
            loss, agreement = distillation_loss(drafter, head, part)
            loss.backward()
            for optimizer in optimizer_pair:
                optimizer.step()
                optimizer.zero_grad()
        step, tokens = step + 1, tokens + int(part[2].sum())
        if step % 20 == 0:
            bar.n = round(100 * clock.share(), 1)
            bar.set_postfix(step=step, loss=f"{loss.item():.3f}", agreement=f"{agreement:.3f}")
            append_log(
                args.work / "neox_drafter.log.jsonl",
                {
                    "step": step,
                    "tokens": tokens,
                    "seconds": round(clock.seconds(), 1),
                    "loss": round(loss.item(), 4),
                    "agreement": round(agreement, 4),
                },
            )
        done = clock.share() >= 1.0
        if checkpoint.due() or done:
            checkpoint.save(drafter, optimizer_pair, {"step": step, "tokens": tokens, "seconds": clock.seconds()})
    bar.close()


if __name__ == "__main__":
    main()
