"""Trains the DFlash drafter on teacher text and frozen features of the target, for `--max-minutes`.

An anchor is the position of a block's first token (dflash.py). Anchors are random and sorted. A block predicts
the γ tokens after its anchor. The loss of position k has the weight exp(−(k−1)/4), DFlash's decay for a block
of 8. A label is the average of two distributions: all probability on the token of the teacher text, and the
target's distribution at that position at temperature 1.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from demo_training.dflash import BLOCK, DFlash, start_from_target
from demo_training.export import load
from demo_training.qwen3 import Qwen3
from demo_training.stage import parse, timed_parser
from demo_training.teacher import shards
from demo_training.training import Training

SEQUENCES, ANCHORS = 16, 16  # per step: 256 blocks
HARD_SHARE = 0.5
DECAY = torch.exp(-torch.arange(BLOCK - 1) / 4.0)


def draw(work: Path, generator: torch.Generator) -> dict:
    """SEQUENCES rows of one shard, features and hidden states as fp32.

    Reads the shard from disk. Training can begin while the teacher is still writing shards.
    """
    paths = shards(work)
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
    options = timed_parser(__doc__)
    options.add_argument(
        "--start-from", type=Path, help="checkpoint of an earlier drafter to start from. Default: the target's weights"
    )
    args = parse(options)
    torch.manual_seed(args.pair.drafter.seed)
    target: Qwen3 = load(args.work, args.pair.target)
    drafter: DFlash = args.pair.drafter.new()
    if args.start_from:
        drafter.load_state_dict(torch.load(args.start_from, weights_only=True)["model"])
    else:
        start_from_target(drafter, target)
    training = Training(args, args.pair.drafter, drafter)

    def gradient() -> tuple[int, dict]:
        generator = torch.Generator().manual_seed(1_000_003 + training.step)
        part = draw(args.work, generator)
        anchors = draw_anchors(part, generator)
        loss, hits = block_loss(drafter, target.embedding, part, anchors)
        loss.backward()
        values = {"loss": round(loss.item(), 4), "hits": [round(share, 4) for share in hits.tolist()]}
        return anchors.numel() * (BLOCK - 1), values

    training.run(gradient)


if __name__ == "__main__":
    main()
