"""Compares the τ of coupled drafting with an upper bound that holds for every coupling of the same target and drafter.

Reads the results.json of a bastion-bench run at a temperature T with the policies ar and chain+coupled. The
drafter draws a chain x₁…x_d from its marginals q, one token per position, independently of each other.
However these draws are coupled with the target's noise, the probability that the first d tokens are accepted
is at most Σ_x min(P(x₁…x_d), Π q_i(x_i)). This script estimates that sum as the mean of min(1, Π
q_i(x_i)/p(x_i)) over texts that the target generated. So the τ of a chain is at most 1 + the sum of these
means over d. The services use one such coupling, with Gumbel noise; independent noise is another.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

from demo_training.dflash import BLOCK, TARGET_LAYERS, DFlash
from demo_training.evaluation import prompt_ids
from demo_training.export import load
from demo_training.qwen3 import Qwen3
from demo_training.stage import parse, parser


@torch.no_grad()
def log_ratios(models: tuple[Qwen3, DFlash], tokens: list[int], first: int, temperature: float) -> torch.Tensor:
    """log q_i(x_i) − log p(x_i) [roots, BLOCK − 1] for every root from token `first` on."""
    model, drafter = models
    ids = torch.tensor([tokens])
    hidden, features = model.hidden(ids, None, None, taps=TARGET_LAYERS)
    log_p = F.log_softmax(model.head(hidden[0]) / temperature, dim=-1)
    roots = torch.arange(first, max(first, len(tokens) - BLOCK + 1))
    if len(roots) == 0:
        return torch.zeros(0, BLOCK - 1)
    guesses = drafter(model.embedding, features, ids[:, roots], roots[None])[0]
    log_q = F.log_softmax(guesses @ model.embedding.T / temperature, dim=-1)
    places = roots[:, None] + torch.arange(1, BLOCK)
    picked = ids[0, places, None]
    return (log_q.gather(2, picked) - log_p[places - 1].gather(2, picked))[:, :, 0]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("results", type=Path, nargs="+", help="results.json of bastion-bench")
    args = parse(options)
    models: tuple[Qwen3, DFlash] = load(args.work, args.pair.target), load(args.work, args.pair.drafter)
    prompts = prompt_ids(args)
    for path in args.results:
        results = json.loads(path.read_text())
        temperature = results["settings"]["temperature"]
        policies = {policy["policy"]: policy for policy in results["policies"]}
        ratios = torch.cat(
            [
                log_ratios(models, prompts[p["id"]] + p["output_token_ids"], len(prompts[p["id"]]) - 1, temperature)
                for p in policies["ar"]["prompts"]
            ]
        )
        bound = 1 + ratios.cumsum(1).clamp(max=0).exp().mean(0).sum().item()
        measured = ", ".join(f"{name} {policy['tau']:.2f}" for name, policy in policies.items() if "chain" in name)
        print(f"T {temperature:g}: τ of a chain is at most {bound:.2f} with any coupling; measured: {measured}")


if __name__ == "__main__":
    main()
