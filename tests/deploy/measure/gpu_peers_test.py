"""Tests how the GPU run measures other engines. Stand-ins replace torch and the engines. Run by ctest."""

import argparse
import contextlib
import io
import json
import types
import unittest
from unittest import mock

import gpu_peers
from arms import Answer
from compare_common import Prompt
from fixtures import FolderTest


def packages(has_gpu: bool = True) -> types.SimpleNamespace:
    torch = types.SimpleNamespace(
        __version__="2",
        bfloat16=None,
        equal=lambda a, b: a == b,
        cuda=types.SimpleNamespace(is_available=lambda: has_gpu, synchronize=lambda: None),
    )
    logging = types.SimpleNamespace(set_verbosity_error=lambda: None)
    return types.SimpleNamespace(
        torch=torch, transformers=types.SimpleNamespace(__version__="4", AutoModelForCausalLM=None, logging=logging)
    )


class Steps:
    """Replaces PlainSteps."""

    broken_graph = False

    def __init__(self, *_):
        pass

    def step(self):
        return "logits"

    def graph(self):
        if self.broken_graph:
            raise RuntimeError("not capturable")
        return self.step, "logits"


class PeersTest(FolderTest):
    def measure(self, arms: dict, ddtree: bool = True, device: str = "cpu") -> bool:
        """Runs measure() with these functions of DDTree's code."""
        model = types.SimpleNamespace(device=types.SimpleNamespace(type=device))
        args = argparse.Namespace(
            device=device, target=None, drafter=None, out=self.folder / "p.json", quick=False, max_new_tokens=4
        )
        args.ddtree = self.folder if ddtree else None
        with contextlib.ExitStack() as stack:
            for name, stand_in in {
                "import_packages": lambda _: packages(),
                "load_prompts": lambda _: [Prompt("one", [1]), Prompt("two", [2])],
                "load_model": lambda *_: model,
                "PlainSteps": Steps,
                "import_theirs": lambda *_, **__: None,
                "ddtree_arms": lambda *_: arms,
            }.items():
                stack.enter_context(mock.patch.object(gpu_peers, name, stand_in))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            return gpu_peers.measure(args)

    def report(self) -> dict:
        return json.loads((self.folder / "p.json").read_text())

    def test_all_prompts_are_answered_after_a_short_warm_up(self):
        calls: list[tuple[int, str]] = []

        def answer(tokens: int, prompt: Prompt) -> Answer:
            calls.append((tokens, prompt.id))
            return Answer([1], 0.5, 1)

        self.assertTrue(self.measure({"plain": answer}))
        self.assertEqual(calls, [(gpu_peers.WARMUP_TOKENS, "one"), (4, "one"), (4, "two")])
        found = self.report()
        self.assertEqual(found["arms"], [{"name": "plain", "answers": [{"tokens": [1], "seconds": 0.5, "cycles": 1}] * 2}])
        self.assertEqual([step["context"] for step in found["steps"]], list(gpu_peers.CONTEXTS))
        self.assertEqual((found["prompts"], found["left_out"]), (["one", "two"], {}))

    def test_an_error_of_their_code_keeps_what_was_measured(self):
        def broken(_tokens: int, _prompt: Prompt) -> Answer:
            raise RuntimeError("out of memory")

        self.assertFalse(self.measure({"plain": lambda *_: Answer([1], 1, 1), "DFlash": broken}))
        found = self.report()
        self.assertEqual([arm["name"] for arm in found["arms"]], ["plain"])
        self.assertEqual(len(found["steps"]), len(gpu_peers.CONTEXTS))
        self.assertIn("out of memory", found["left_out"]["DDTree's code"])

    def test_a_step_as_a_cuda_graph_needs_a_gpu(self):
        self.assertTrue(self.measure({}))
        self.assertEqual([step["graph_ms"] for step in self.report()["steps"]], [None, None])
        self.assertTrue(self.measure({}, device="cuda"))
        steps = self.report()["steps"]
        self.assertTrue(all(step["graph_ms"] is not None and step["same_logits"] for step in steps), steps)

    def test_a_step_that_cannot_be_captured_keeps_its_other_time(self):
        with mock.patch.object(Steps, "broken_graph", True):
            self.assertFalse(self.measure({}, device="cuda"))
        found = self.report()
        self.assertEqual([(step["eager_ms"] is None, step["graph_ms"]) for step in found["steps"]], [(False, None)] * 2)
        self.assertIn("not capturable", found["left_out"]["plain steps after 16 tokens"])

    def test_without_a_checkout_only_plain_steps_are_measured(self):
        self.assertTrue(self.measure({}, ddtree=False))
        self.assertEqual(list(self.report()["left_out"]), ["DDTree's code"])

    def test_a_python_without_torch_or_a_gpu_ends_with_a_status_of_its_own(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            for modules in ({"torch": None}, {"torch": packages(has_gpu=False).torch, "transformers": mock.Mock()}):
                with mock.patch.dict("sys.modules", modules), self.assertRaises(SystemExit) as end:
                    gpu_peers.import_packages("cuda")
                self.assertEqual(end.exception.code, gpu_peers.NOTHING_TO_RUN)
        self.assertIn("this one finds no GPU", errors.getvalue())

    def test_a_time_is_the_median_of_calls_that_ended(self):
        waits: list[int] = []
        calls: list[int] = []
        found = packages()
        found.torch.cuda.synchronize = lambda: waits.append(len(calls))
        milliseconds = gpu_peers.milliseconds(found, lambda: calls.append(1), 3)
        self.assertEqual((len(calls), waits), (3, [0, 1, 1, 2, 2, 3]), "each call is waited for before the clock stops")
        self.assertGreaterEqual(milliseconds, 0)


if __name__ == "__main__":
    unittest.main()
