"""Reference evaluation of a DFlash drafter at T = 0: committed tokens per cycle (τ) on the prompts, and perplexity.

It uses its own simple decode cycle for one sequence, independent of bastion's. The tree is DDTree's best-first
tree (arXiv 2604.12989) of `--nodes` nodes, or the top-1 chain. Every text is compared with plain greedy decoding.
"""

import heapq
import math

import torch
import torch.nn.functional as F
from tqdm import tqdm

from demo_training.dflash import BLOCK, TARGET_LAYERS, DFlash
from demo_training.evaluation import by_prompt, greedy, mean_length, perplexity, prompt_ids, write_report
from demo_training.export import load
from demo_training.prompts import CONTINUATION
from demo_training.qwen3 import Qwen3
from demo_training.stage import parse, parser
from demo_training.tokenizer import EOS


def best_first(log_q: torch.Tensor, nodes: int) -> list[tuple[int, int, int]]:
    """The `nodes` most probable nodes of the prefix tree, as (parent index or −1, token, depth), parents first."""
    top = log_q.topk(min(nodes, log_q.shape[1]), dim=-1)
    values, ids = top.values.tolist(), top.indices.tolist()
    tree: list[tuple[int, int, int]] = []
    pushed = 1
    heap = [(-values[0][0], 0, -1, 0, 0)]  # (−score, push order, parent, depth − 1, rank)
    while heap and len(tree) < nodes:
        negative, _, parent, level, rank = heapq.heappop(heap)
        index = len(tree)
        tree.append((parent, ids[level][rank], level + 1))
        steps = []
        if rank + 1 < len(values[level]):
            steps.append((negative + values[level][rank] - values[level][rank + 1], parent, level, rank + 1))
        if level + 1 < len(values):
            steps.append((negative - values[level + 1][0], index, level + 1, 0))
        for score, *rest in steps:
            if math.isfinite(score):
                heapq.heappush(heap, (score, pushed, *rest))
                pushed += 1
    return tree


def chain(log_q: torch.Tensor, nodes: int) -> list[tuple[int, int, int]]:
    """The top-1 path, at most `nodes` long."""
    return [(i - 1, int(t), i + 1) for i, t in enumerate(log_q.argmax(-1)[:nodes])]


class Sequence:
    """One sequence: the target's cache and features of the committed tokens, and the bonus token after them."""

    def __init__(self, model: Qwen3, prompt: list[int], capacity: int):
        self.model, self.caches = model, model.new_caches(1, capacity)
        hidden, self.features = model.hidden(torch.tensor([prompt]), None, self.caches, TARGET_LAYERS)
        self.bonus = int(model.head(hidden[0, -1]).argmax())

    def verify(self, tree: list[tuple[int, int, int]]) -> list[int]:
        """Verifies the tree in one forward and commits the accepted path. Returns the accepted tokens and the new bonus token."""
        n, rows = self.caches[0].used, 1 + len(tree)
        sees = torch.eye(rows, dtype=torch.bool)
        for row, (parent, _, _) in enumerate(tree, start=1):
            sees[row] |= sees[parent + 1]
        mask = torch.cat([torch.ones(rows, n, dtype=torch.bool), sees], dim=1)
        ids = torch.tensor([[self.bonus] + [token for _, token, _ in tree]])
        positions = torch.tensor([n] + [n + depth for _, _, depth in tree])
        hidden, features = self.model.hidden(ids, positions, self.caches, TARGET_LAYERS, mask)
        assert features is not None
        picks = self.model.head(hidden[0]).argmax(-1).tolist()
        path, out = [0], []
        while True:
            out.append(picks[path[-1]])
            children = (i + 1 for i, (parent, token, _) in enumerate(tree) if (parent + 1, token) == (path[-1], out[-1]))
            child = next(children, None)
            if child is None:
                break
            path.append(child)
        for cache in self.caches:
            cache.used = n
            cache.extend(cache.k[:, :, [n + r for r in path]], cache.v[:, :, [n + r for r in path]])
        assert features is not None  # TARGET_LAYERS are tapped.
        self.features = torch.cat([self.features, features[:, path]], dim=1)
        self.bonus = out[-1]
        return out


@torch.no_grad()
def decode(model: Qwen3, drafter: DFlash, prompt: list[int], new: int, tree: tuple) -> tuple[list[int], list[int]]:
    """Greedy decoding with tree speculation. Returns generated ids and the committed length of each cycle.

    `tree`: (number of nodes, function that builds the tree).
    """
    nodes, builder = tree
    head = model.embedding
    sequence = Sequence(model, prompt, len(prompt) + new + BLOCK + nodes + 1)
    text, lengths = [sequence.bonus], list[int]()
    while len(text) < new and EOS not in text:
        anchor = torch.tensor([[sequence.caches[0].used]])
        hidden = drafter(head, sequence.features, torch.tensor([[sequence.bonus]]), anchor)
        picks = sequence.verify(builder(F.log_softmax(hidden[0, 0] @ head.T, dim=-1), nodes))
        text, lengths = text + picks, lengths + [len(picks)]
    return text[:new], lengths


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    options.add_argument("--new-tokens", type=int, default=CONTINUATION)
    options.add_argument("--limit", type=int, help="maximum number of prompts. Default: all")
    args = parse(options)
    model: Qwen3 = load(args.work, args.pair.target)
    drafter: DFlash = load(args.work, args.pair.drafter)
    prompts = list(prompt_ids(args).values())[: args.limit]
    arms = [("chain", chain, BLOCK - 1)] + [(f"tree:{n}", best_first, n) for n in args.nodes]
    lengths: dict[str, list[list[int]]] = {name: [] for name, _, _ in arms}
    differing = 0
    for prompt in tqdm(prompts, desc="evaluate", unit="prompt"):
        texts = [greedy(model, prompt, args.new_tokens)]
        for name, builder, nodes in arms:
            text, cycle = decode(model, drafter, prompt, args.new_tokens, (nodes, builder))
            lengths[name].append(cycle)
            texts.append(text)
        shortest = min(map(len, texts))
        differing += any(t[:shortest] != texts[0][:shortest] for t in texts)
    report = {
        "prompts": len(prompts),
        "new_tokens": args.new_tokens,
        "texts_that_differ": differing,
        "target": perplexity(model, args.work),
        "tau": {name: round(mean_length(cycles), 3) for name, cycles in lengths.items()},
        "tau_by_prompt": {name: by_prompt(cycles) for name, cycles in lengths.items()},
    }
    write_report(args.work, report)


if __name__ == "__main__":
    main()
