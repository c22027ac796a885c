"""Writes goldens/sampling.json: the results of transformers' logits processors on random logits.

    python tests/verifier_service/make_sampling_goldens.py

Each case: logits, the text so far (prompt and output), the sampling parameters, the logits after
bias, minimum length and penalties, and the tokens that temperature, top-k, top-p and min-p keep.
The presence and frequency penalties follow vLLM (transformers has none): an output token loses
frequency * count + presence, after the repetition penalty.
"""

import json
import pathlib
import random

import torch
from transformers.generation import logits_process as hf

VOCABULARY = 48
HERE = pathlib.Path(__file__).parent


def random_case(rng: random.Random) -> dict:
    prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 12))]
    output = [rng.randrange(VOCABULARY) for _ in range(rng.randint(0, 10))]
    stops = rng.sample(range(VOCABULARY), 2)
    return {
        "logits": [round(rng.gauss(0, 1.5), 4) for _ in range(VOCABULARY)],
        "prompt": prompt,
        "output": output,
        "temperature": rng.choice([0.3, 0.7, 1.0, 1.5]),
        "top_k": rng.choice([0, 0, 0, 1, 5, 20]),
        "top_p": rng.choice([1.0, 0.95, 0.9, 0.5]),
        "min_p": rng.choice([0.0, 0.0, 0.02, 0.1]),
        "repetition_penalty": rng.choice([1.0, 1.0, 1.3, 0.8]),
        "presence_penalty": rng.choice([0.0, 0.0, 0.7, -0.4]),
        "frequency_penalty": rng.choice([0.0, 0.0, 0.5, -0.3]),
        "logit_bias": {str(rng.randrange(VOCABULARY)): rng.choice([-5.0, 2.5]) for _ in range(rng.choice([0, 0, 3]))},
        "min_tokens": rng.choice([0, 0, 5]),
        "stop_tokens": stops,
    }


def edited(case: dict, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    if case["logit_bias"]:
        bias = {(int(token),): value for token, value in case["logit_bias"].items()}
        scores = hf.SequenceBiasLogitsProcessor(bias)(ids, scores)
    if case["min_tokens"]:
        scores = hf.MinNewTokensLengthLogitsProcessor(
            len(case["prompt"]), case["min_tokens"], case["stop_tokens"], device="cpu"
        )(ids, scores)
    if case["repetition_penalty"] != 1:
        scores = hf.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
    for token in set(case["output"]):
        scores[0, token] -= case["frequency_penalty"] * case["output"].count(token)
        scores[0, token] -= case["presence_penalty"]
    return scores


def kept(case: dict, ids: torch.Tensor, scores: torch.Tensor) -> list[int]:
    warpers = [hf.TemperatureLogitsWarper(case["temperature"])]
    if case["top_k"]:
        warpers.append(hf.TopKLogitsWarper(case["top_k"]))
    if case["top_p"] < 1:
        warpers.append(hf.TopPLogitsWarper(case["top_p"]))
    if case["min_p"]:
        warpers.append(hf.MinPLogitsWarper(case["min_p"]))
    for warper in warpers:
        scores = warper(ids, scores)
    return [x for x in range(VOCABULARY) if scores[0, x] > -float("inf")]


def main() -> None:
    rng = random.Random(4)
    cases = []
    for _ in range(120):
        case = random_case(rng)
        ids = torch.tensor([case["prompt"] + case["output"]])
        scores = edited(case, ids, torch.tensor([case["logits"]]))
        case["edited"] = [round(x, 6) if x > -1e30 else None for x in scores[0].tolist()]
        case["kept"] = kept(case, ids, scores)
        cases.append(case)
    text = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "goldens" / "sampling.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
