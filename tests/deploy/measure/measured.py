"""Hand-made measurements of bastion-bench, in the form of measurements.json, shared by several tests."""

STAGES = ("draft", "tree", "verify_queue", "verify", "commit", "audit", "transfer")
VALUES = {
    "committed": 1,
    "nodes": 0,
    "rows": 1,
    "accepted": 0,
    "expected_length": 1.0,
    "context": 0,
    "reason": "cost",
    "predicted_verify": 0.0,
} | dict.fromkeys(STAGES, 0.0)


def cycles(*each: dict) -> dict:
    """The columns of cycles with these values."""
    names = [*VALUES, *(["offered"] if any("offered" in cycle for cycle in each) else [])]
    return {name: [(VALUES | {"offered": []} | cycle)[name] for cycle in each] for name in names}


def request(name: str, tokens: list[int], seconds: float, *each: dict) -> dict:
    """A request that ran these cycles, without deltas."""
    times = {"seconds": seconds, "prefill_seconds": 0.5, "arrived": 0.0, "ended": seconds}
    return {"id": name, "output_token_ids": tokens, **times, "deltas": [], "cycles": cycles(*each)}


def delivered(arrived: float, *deltas: tuple[float, int]) -> dict:
    """A request whose decoding takes the time from its first delta to its end."""
    tokens = [0] * sum(count for _, count in deltas)
    begin, end = deltas[0][0], deltas[-1][0]
    return request("p", tokens, end - begin) | {"arrived": arrived, "ended": end, "deltas": [list(delta) for delta in deltas]}


def run(*requests: dict, rejected: int = 0, reliability: dict | None = None) -> dict:
    return {"requests": list(requests), "rejected": rejected, "reliability": reliability}


def level(arms: dict[str, list[dict]], **load) -> dict:
    """`arms`: the rounds by policy. `load`: concurrency, rate or arrivals."""
    return load | {"arms": [{"policy": policy, "rounds": rounds} for policy, rounds in arms.items()]}


def comparison(*levels: dict, **more) -> dict:
    """Measurements of a comparison at these levels."""
    return {
        "device": "a box",
        "target": "target",
        "drafter": "drafter",
        "mode": "in process",
        "settings": {"temperature": 0.0, "seed": 1, "max_new_tokens": 4, "ignore_eos": False},
        "latency_targets": {"gap": None, "ttft": None},
        "policies_with_prior": [],
        "levels": list(levels),
        "texts": {"compared": 2, "different": 0, "problem": None},
        "latency_model": None,
    } | more


def suite(runs: list[dict], datasets: dict[str, str], **more) -> dict:
    """Measurements of a suite named "small"."""
    return {
        "device": "machine",
        "target": "pairs/one/target",
        "drafter": "pairs/one/drafter",
        "mode": "in process",
        "same_texts": True,
        "suite": {
            "name": "small",
            "title": "Small",
            "paper": "A paper",
            "reported": ["4.2× on its machine."],
            "policies": ["ar", "chain"],
            "max_new_tokens": 4,
            "warmup": 1,
            "rounds": 1,
            "seeds": [1],
            "tables": ["datasets", "depths"],
            "plots": [],
        },
        "datasets": datasets,
        "runs": runs,
        "left_out": [],
        "accuracies": [],
        "latency": {"points": [], "slope": 0.0, "intercept": 0.0, "roofline_rmse": 0.0, "static_rmse": 0.0},
    } | more
