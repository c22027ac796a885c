"""Compares the τ of coupled drafting with an upper bound that holds for every coupling of the same target and drafter.

Reads the results.json of a bastion-bench run at a temperature T with the policies ar and chain+coupled. The
drafter draws a chain x₁…x_d from its marginals q, one token per position, independently of each other.
However these draws are coupled with the target's noise, the probability that the first d tokens are accepted
is at most Σ_x min(P(x₁…x_d), Π q_i(x_i)). This script estimates that sum as the mean of min(1, Π
q_i(x_i)/p(x_i)) over texts that the target generated. So the τ of a chain is at most 1 + the sum of these
means over d. The services use one such coupling, with Gumbel noise; independent noise is another.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from demo_training.dflash import BLOCK, TARGET_LAYERS
from demo_training.export import load_drafter, load_target


@torch.no_grad()
def log_ratios(model, drafter, tokens: list[int], first: int, temperature: float) -> torch.Tensor:
    """log q_i(x_i) − log p(x_i) [roots, BLOCK − 1] for every root from token `first` on."""
    ids = torch.tensor([tokens])
    hidden, features = model.hidden(ids, None, None, taps=TARGET_LAYERS)
    log_p = F.log_softmax(model.head(hidden[0]) / temperature, dim=-1)
    roots = torch.arange(first, max(first, len(tokens) - BLOCK + 1))
    if len(roots) == 0:
        return torch.zeros(0, BLOCK - 1)
    embedding = model.embedding
    guesses = drafter(embedding, features, ids[:, roots], roots[None])[0]
    log_q = F.log_softmax(guesses @ embedding.T / temperature, dim=-1)
    places = roots[:, None] + torch.arange(1, BLOCK)
    picked = ids[0, places, None]
    return (log_q.gather(2, picked) - log_p[places - 1].gather(2, picked))[:, :, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("results", type=Path, nargs="+", help="results.json of bastion-bench")
    args = parser.parse_args()
    torch.set_num_threads(2)
    model, drafter = load_target(args.work), load_drafter(args.work)
    tokenizer = Tokenizer.from_file(str(args.work / "tokenizer" / "tokenizer.json"))
    prompts = {
        p["id"]: tokenizer.encode(p["text"], add_special_tokens=False).ids
        for p in map(json.loads, args.prompts.read_text().splitlines())
    }
    for path in args.results:
        results = json.loads(path.read_text())
        temperature = results["settings"]["temperature"]
        policies = {policy["policy"]: policy for policy in results["policies"]}
        ratios = torch.cat(
            [
                log_ratios(model, drafter, prompts[p["id"]] + p["output_token_ids"], len(prompts[p["id"]]) - 1, temperature)
                for p in policies["ar"]["prompts"]
            ]
        )
        bound = 1 + ratios.cumsum(1).clamp(max=0).exp().mean(0).sum().item()
        measured = ", ".join(f"{name} {policy['tau']:.2f}" for name, policy in policies.items() if "chain" in name)
        print(f"T {temperature:g}: τ of a chain is at most {bound:.2f} with any coupling; measured: {measured}")


if __name__ == "__main__":
    main()
