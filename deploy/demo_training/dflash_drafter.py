"""Trains the DFlash drafter on teacher text and frozen features of the target, for `--max-minutes`.

An anchor is the position of a block's first token (dflash.py). Anchors are random and sorted. A block predicts
the γ tokens after its anchor. The loss of position k has the weight exp(−(k−1)/4), DFlash's decay for a block
of 8. A label is the average of two distributions: all probability on the token of the teacher text, and the
target's distribution at that position at temperature 1.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from demo_training.dflash import BLOCK, DFlash, DraftConfig, start_from_target
from demo_training.export import load_target
from demo_training.muon import optimizers
from demo_training.schedule import Checkpoint, Clock, append_log, learning_rate_scale, set_scale

SEQUENCES, ANCHORS = 16, 16  # per step: 256 blocks
HARD_SHARE = 0.5
DECAY = torch.exp(-torch.arange(BLOCK - 1) / 4.0)


class Shards:
    """Draws the teacher's shards at random. Reads a shard from disk each time it is drawn."""

    def __init__(self, folder: Path):
        self.folder = folder
        if not self.paths():
            raise SystemExit(f"drafter: no teacher text in {folder}; run teacher.py first")

    def paths(self) -> list[Path]:
        """The shards that exist now. Training can begin while the teacher is still writing shards."""
        return sorted(self.folder.glob("*.pt"))

    def draw(self, generator: torch.Generator) -> dict:
        """SEQUENCES rows of one shard, features and hidden states as fp32."""
        paths = self.paths()
        pick = int(torch.randint(len(paths), (1,), generator=generator))
        shard = torch.load(paths[pick], weights_only=True, mmap=True)
        enough = torch.nonzero(shard["useful"] - shard["prefix"] > 3 * BLOCK).squeeze(1)
        rows = enough[torch.randperm(len(enough), generator=generator)[:SEQUENCES]]
        return {
            "prefix": shard["prefix"],
            "useful": shard["useful"][rows],
            "tokens": shard["tokens"][rows].long(),
            "features": shard["features"][rows].float(),
            "hidden": shard["hidden"][rows].float(),
        }


def draw_anchors(part: dict, generator: torch.Generator) -> Tensor:
    """Sorted positions [B, A] in [prefix, useful − γ − 1], so that all γ labels are useful text."""
    lowest = part["prefix"]
    highest = (part["useful"] - BLOCK).clamp(min=lowest).unsqueeze(1)
    uniform = torch.rand(len(part["tokens"]), ANCHORS, generator=generator)
    return (lowest + uniform * (highest - lowest + 1)).long().sort(dim=1).values


def block_loss(drafter: DFlash, head: Tensor, part: dict, anchors: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the weighted loss, and for each position [γ] how often the argmax is the teacher's token."""
    batch = torch.arange(len(anchors)).view(-1, 1, 1)
    anchor_tokens = part["tokens"].gather(1, anchors)
    longest = int(anchors.max())
    hidden = drafter(head, part["features"][:, :longest], anchor_tokens, anchors)  # [B, A, γ, C]
    places = anchors.unsqueeze(-1) + torch.arange(BLOCK - 1)  # the rows whose successor is predicted
    labels = part["tokens"][batch, places + 1].flatten()  # [N], N = B·A·γ
    log_q = F.log_softmax(F.linear(hidden.flatten(0, 2), head), dim=-1)
    with torch.no_grad():
        p = F.softmax(F.linear(part["hidden"][batch, places].flatten(0, 2), head), dim=-1).mul_(1 - HARD_SHARE)
        p.scatter_add_(-1, labels.unsqueeze(-1), torch.full((len(labels), 1), HARD_SHARE))
        hits = (log_q.argmax(-1) == labels).float().view(-1, BLOCK - 1).mean(dim=0)
    loss = -torch.linalg.vecdot(p, log_q).view(-1, BLOCK - 1).mean(dim=0)  # [γ]
    return (loss * DECAY).sum() / DECAY.sum(), hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-minutes", type=float, default=35.0)
    parser.add_argument(
        "--start-from", type=Path, help="checkpoint of an earlier drafter to start from. Default: the target's weights"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(2)
    target = load_target(args.work)
    head = target.embedding
    shards = Shards(args.work / "teacher")
    drafter = DFlash(DraftConfig())
    if args.start_from:
        drafter.load_state_dict(torch.load(args.start_from, weights_only=True)["model"])
    else:
        start_from_target(drafter, target)
    optimizer_pair = optimizers(drafter, args.muon_lr, args.adam_lr, weight_decay=0.0)
    checkpoint = Checkpoint(args.work / "drafter.pt")
    counters = checkpoint.load(drafter, optimizer_pair)
    clock, step = Clock(args.max_minutes, counters.get("seconds", 0.0)), counters.get("step", 0)
    bar = tqdm(total=100, desc="drafter", unit="%", bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}")
    done = clock.share() >= 1.0
    while not done:
        generator = torch.Generator().manual_seed(1_000_003 + step)
        set_scale(optimizer_pair, learning_rate_scale(clock.share()))
        part = shards.draw(generator)
        loss, hits = block_loss(drafter, head, part, draw_anchors(part, generator))
        loss.backward()
        for optimizer in optimizer_pair:
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        if step % 20 == 0:
            bar.n = round(100 * clock.share(), 1)
            bar.set_postfix(step=step, loss=f"{loss.item():.3f}", hits=" ".join(f"{h:.2f}" for h in hits))
            append_log(
                args.work / "drafter.log.jsonl",
                {"step": step, "seconds": round(clock.seconds(), 1), "loss": round(loss.item(), 4), "hits": hits.tolist()},
            )
        done = clock.share() >= 1.0
        if checkpoint.due() or done:
            checkpoint.save(drafter, optimizer_pair, {"step": step, "seconds": clock.seconds()})
    bar.close()


if __name__ == "__main__":
    main()
