"""Fake output of the measured programs, shared by several tests."""

import json
import tempfile
import unittest
from pathlib import Path

SWEEP_DEVICE = {"name": "NVIDIA Test", "capability": 90, "multiprocessors": 132, "bytes_per_second": 3e12}
KERNELS_OF_A_STEP = [
    *(
        ("gemm", f"Qwen3-8B {name}")
        for name in ("qkv 6144 x 4096", "o 4096 x 4096", "gate_up 24576 x 4096", "down 4096 x 12288", "head 151936 x 4096")
    ),
    *(("rowwise", name) for name in ("norm", "qkv", "silu", "embed")),
    ("attention", "32:8 heads of 128 over 2048"),
    ("choose", "greedy"),
]


def policy(name: str, rate: float, tokens: list[int], lengths: list[int] | None = None, stages: dict | None = None) -> dict:
    """A policy of results.json with one prompt. By default, one cycle commits all tokens."""
    lengths = lengths or [len(tokens)]
    stages = {"draft": 0.001, "tree": 0, "verify": 0.01, "commit": 0, "transfer": 0} | (stages or {})
    prompt = {
        "id": "one",
        "output_token_ids": tokens,
        "committed_lengths": lengths,
        "nodes_per_cycle": [4] * len(lengths),
        "seconds": len(tokens) / rate,
        "prefill_seconds": 0,
        "stage_seconds": stages,
    }
    return {
        "policy": name,
        "tokens_per_second": rate,
        "tau": sum(lengths) / len(lengths),
        "speedup_vs_ar": 1,
        "verify_prediction_error_median": 0.1,
        "verify_trace": [[5, 0.009, 0.01]],
        "prompts": [prompt],
    }


def results(*policies: dict) -> dict:
    return {"device": "NVIDIA Test, bf16", "policies": list(policies)}


def forward(rows: int, seconds: float, context: int = 2048) -> dict:
    """An entry of roofline.json."""
    return {
        "forward": "decode" if rows == 1 else "verify",
        "rows": rows,
        "context": context,
        "bytes": 16e9,
        "flops": 1e9,
        "bound_seconds": 0.005,
        "seconds": seconds,
    }


def load_level(live: int, ratios: dict[str, float]) -> dict:
    """A closed loop of results.json, with the ratios to `ar` of each policy."""
    arms = [
        {"policy": name, "system_tokens_per_second": 100 * ratio, "ratio_to_ar": {"median": ratio, "low": ratio, "high": ratio}}
        for name, ratio in ratios.items()
    ]
    return {"concurrency": live, "arms": arms}


def sweep_entry(part: str, work: str, rows: int, us: float) -> dict:
    return {"part": part, "work": work, "rows": rows, "us": us, "us_p10": us, "us_p90": us, "share_of_memory": 0.75}


def sweep_of_a_step() -> dict:
    """Every kernel of a step: 2 µs with 1 row, 4 µs with 32, 6 µs with 64."""
    times = ((1, 2.0), (32, 4.0), (64, 6.0))
    figures = [sweep_entry(part, work, rows, us) for part, work in KERNELS_OF_A_STEP for rows, us in times]
    return {"device": SWEEP_DEVICE, "figures": figures}


def gtest(*kinds: str) -> dict:
    """gtest's JSON for tests that passed, failed or were skipped."""
    tests = []
    for index, kind in enumerate(kinds):
        test = {"name": f"Test{index}", "status": "RUN", "result": "SKIPPED" if kind == "skipped" else "COMPLETED"}
        tests.append({**test, "failures": [{"failure": "no"}]} if kind == "failed" else test)
    return {"testsuites": [{"name": "Suite", "testsuite": tests}]}


class FolderTest(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def script(self, name: str, text: str) -> None:
        """Writes an executable shell script."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


class RawTest(FolderTest):
    """A test with the raw output of a GPU run."""

    def setUp(self):
        super().setUp()
        self.raw = self.folder / "raw"
        self.put("machine.json", {"device": "cuda", "when": "a day", "gpus": ["NVIDIA Test, 580.1"], "built": "abc"})
        self.put("steps.json", {})

    def put(self, name: str, content) -> None:
        path = self.raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
