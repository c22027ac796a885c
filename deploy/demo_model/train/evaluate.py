"""Reference evaluation at T = 0: committed length per cycle (τ) of the pair on the prompts, and held-out perplexity.

A second, slow implementation of the decode cycle: no cache, every forward is a plain full one; the tree is DDTree's
best-first tree (arXiv 2604.12989) of `--nodes` nodes, or the top-1 chain. Every cycle's tokens are compared with plain
greedy decoding.
"""

import argparse
import heapq
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tqdm import tqdm

from dflash import BLOCK, TARGET_LAYERS, DFlash
from export import load_drafter, load_target
from qwen3 import Qwen3
from tokenizer import EOS


def best_first(log_q: torch.Tensor, nodes: int) -> list[tuple[int, int, int]]:
    """The `nodes` most probable nodes of the prefix tree, as (parent index or −1, token, depth), parents first."""
    top = log_q.topk(min(nodes, log_q.shape[1]), dim=-1)
    values, ids = top.values.tolist(), top.indices.tolist()
    tree, pushed = [], 1
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


def verify(model: Qwen3, tokens: list[int], tree: list[tuple[int, int, int]]) -> tuple[list[int], torch.Tensor]:
    """The target's choices along the accepted path, and the features of all rows of `tokens`.

    tokens ends with the root (the bonus token). Returns accepted + 1 ids: the last one is the next bonus token.
    """
    n, rows = len(tokens), len(tokens) + len(tree)
    mask = torch.zeros(rows, rows, dtype=torch.bool)
    mask[:n, :n] = torch.ones(n, n, dtype=torch.bool).tril()
    for i, (parent, _, _) in enumerate(tree):
        mask[n + i] = mask[n - 1 if parent < 0 else n + parent]
        mask[n + i, n + i] = True
    positions = torch.tensor(list(range(n)) + [n - 1 + depth for _, _, depth in tree])
    ids = torch.tensor([tokens + [token for _, token, _ in tree]])
    hidden, features = model.hidden(ids, positions, mask=mask, taps=TARGET_LAYERS)
    picks = model.head(hidden[0, n - 1:]).argmax(-1).tolist()
    node, out = -1, []
    while True:
        out.append(picks[node + 1])
        node = next((i for i, (parent, token, _) in enumerate(tree) if parent == node and token == out[-1]), None)
        if node is None:
            return out, features[:, :n]


@torch.no_grad()
def decode(model: Qwen3, drafter: DFlash, prompt: list[int], new: int, nodes: int, builder) -> tuple[list[int], list]:
    """(generated ids, committed length of each cycle) of tree-speculative greedy decoding."""
    head = model.model.embed_tokens.weight
    picks, _ = verify(model, prompt, [])
    tokens, lengths = prompt + picks, []
    while len(tokens) - len(prompt) < new:
        context = torch.tensor([tokens[:-1]])
        _, features = model.hidden(context, taps=TARGET_LAYERS)
        hidden = drafter(head, features, torch.tensor([[tokens[-1]]]), torch.tensor([[len(tokens) - 1]]))
        tree = builder(F.log_softmax(hidden[0, 0] @ head.T, dim=-1), nodes)
        picks, _ = verify(model, tokens, tree)
        tokens, lengths = tokens + picks, lengths + [len(picks)]
        if EOS in picks:
            break
    return tokens[len(prompt):len(prompt) + new], lengths


@torch.no_grad()
def greedy(model: Qwen3, prompt: list[int], new: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(new):
        tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt):]


@torch.no_grad()
def perplexity(model: Qwen3, work: Path, length: int = 512, limit: int = 400) -> dict:
    """Nats per token and bits per byte over the validation files, in windows of `length`."""
    stream = np.load(work / "validation.npy").astype(np.int64)
    sizes = json.loads((work / "tokens.json").read_text())["validation"]
    losses = []
    for start in range(0, min(len(stream) - length - 1, limit * length), length):
        ids = torch.from_numpy(stream[start:start + length + 1])
        losses.append(F.cross_entropy(model(ids[None, :-1])[0], ids[1:]).item())
    nats = float(np.mean(losses))
    return {"nats_per_token": nats, "perplexity": math.exp(nats),
            "bits_per_byte": nats / math.log(2) * sizes["tokens"] / sizes["bytes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--nodes", type=int, nargs="+", default=[64])
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--limit", type=int, default=1000, help="prompts to use")
    parser.add_argument("--exact", action="store_true", help="also compare every text with plain greedy decoding")
    args = parser.parse_args()
    torch.set_num_threads(2)
    model, drafter = load_target(args.work), load_drafter(args.work)
    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer" / "tokenizer.json"))
    prompts = [json.loads(line) for line in args.prompts.read_text().splitlines()][:args.limit]
    arms = [("chain", chain, BLOCK - 1)] + [(f"tree:{n}", best_first, n) for n in args.nodes]
    lengths: dict[str, list] = {name: [] for name, _, _ in arms}
    differing = 0
    for prompt in tqdm(prompts, desc="evaluate", unit="prompt"):
        ids = tokenizer.encode(prompt["text"], add_special_tokens=False).ids
        texts = [greedy(model, ids, args.new_tokens)] if args.exact else []
        for name, builder, nodes in arms:
            text, cycle = decode(model, drafter, ids, args.new_tokens, nodes, builder)
            lengths[name].append(cycle)
            texts.append(text)
        shortest = min(map(len, texts))
        differing += any(t[:shortest] != texts[0][:shortest] for t in texts)
    report = {"prompts": len(prompts), "texts_that_differ": differing, **perplexity(model, args.work),
              "tau": {name: round(float(np.mean(sum(cycles, []))), 3) for name, cycles in lengths.items()},
              "tau_by_prompt": {name: [round(float(np.mean(c)), 2) for c in cycles] for name, cycles in lengths.items()}}
    (args.work / "evaluation.json").write_text(json.dumps(report, indent=1))
    print(json.dumps({k: v for k, v in report.items() if k != "tau_by_prompt"}, indent=1))


if __name__ == "__main__":
    main()
