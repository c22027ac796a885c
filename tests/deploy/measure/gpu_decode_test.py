"""Tests the steps of the GPU run that call bastion-bench. A shell script replaces it. Run by ctest."""

import contextlib
import io
import json
import unittest
from pathlib import Path

import gpu_decode
from fixtures import FolderTest, policy, results
from gpu_runner import GpuRun, Pairs
from runner import NotRun


class DecodeStepsTest(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "canned.json").write_text(json.dumps(results(policy("ar", 1, [1]), policy("default", 2, [1]))))
        self.script("bastion-bench", f'cp "{self.folder}/canned.json" "$4/results.json"; echo "$@" >"$4/flags"')

    def make_run(self, device: str = "cuda", **settings) -> GpuRun:
        return GpuRun(
            programs=self.folder, raw=self.folder / "raw", pairs=self.folder, device=device, quick=False, shape="{}", **settings
        )

    def run_step(self, step, *args, run: GpuRun | None = None, **options) -> None:
        run = run or self.make_run()
        pairs = Pairs(run)
        pairs.folder("8b").mkdir(exist_ok=True)
        (pairs.folder("8b") / "complete").write_text("{}")
        with contextlib.redirect_stdout(io.StringIO()):
            step(*args, run, pairs, **options)

    def flags(self, name: str) -> str:
        return (self.folder / "raw" / name / "flags").read_text()

    def test_temperature_1_has_plain_decoding_and_the_default(self):
        self.run_step(gpu_decode.sampled, "8b")
        self.assertIn("--policies ar,fixed:16,adaptive,default ", self.flags("sampled_8b"))
        self.assertIn("--temperature 1 ", self.flags("sampled_8b"))

    def test_int8_weights_are_those_of_both_models(self):
        self.run_step(gpu_decode.int8, "8b")
        self.assertIn("--weights int8 --drafter_weights int8 ", self.flags("int8_8b"))

    def test_loops_stay_full_for_a_time_at_every_level(self):
        self.run_step(gpu_decode.load, "8b")
        self.assertIn("--temperature 0 --concurrency 1,4,16,64 --duration 2.5 ", self.flags("load_8b"))
        self.run_step(gpu_decode.load, "8b", temperature=1)
        self.assertIn("--policies ar,default ", self.flags("sampled_load_8b"))
        self.assertIn("--temperature 1 --concurrency 1,64 --duration 1.5 ", self.flags("sampled_load_8b"))

    def test_long_prompts_are_different_code_and_have_room(self):
        self.run_step(gpu_decode.long_contexts, "8b")
        lines = (self.folder / "raw/long_8b/prompts.jsonl").read_text().splitlines()
        prompts = {prompt["id"]: prompt["text"] for prompt in map(json.loads, lines)}
        self.assertEqual(list(prompts), ["8192-0", "8192-1", "32768-0"])
        self.assertEqual(len(prompts["32768-0"]), int(32768 * gpu_decode.CHARACTERS_PER_TOKEN))
        self.assertNotEqual(prompts["8192-0"], prompts["8192-1"])
        kv_tokens = int(self.flags("long_8b").split("--kv_tokens ")[1].split()[0])
        self.assertGreaterEqual(kv_tokens, 2 * 32768)
        self.assertGreater(Pairs.POSITIONS, 1.06 * 32768, "a prompt may have a few percent more tokens")

    def test_a_machine_without_a_gpu_keeps_its_usual_memory(self):
        self.assertEqual(gpu_decode.memory_flags(self.make_run("cpu"), 2), [])

    def test_every_draft_vocabulary_decodes_the_same_prompts(self):
        self.run_step(gpu_decode.vocabularies, "8b")
        for count in (0, 16384, 32768):
            self.assertIn(f"--draft_vocabulary {count} ", self.flags(f"vocabulary_8b_{count}"))
        prompts = {(self.folder / f"raw/vocabulary_8b_{count}/prompts.jsonl").read_text() for count in (0, 16384, 32768)}
        self.assertEqual(len(prompts), 1)

    def test_a_named_chat_model_runs_with_its_drafter(self):
        model = self.folder / "some.gguf"
        model.write_text("")
        self.run_step(gpu_decode.chat, run=self.make_run(chat_model=model))
        self.assertIn(f"--target {model} --drafter {gpu_decode.CHAT}/drafter ", self.flags("chat"))
        self.assertIn("ar,chain,fixed:16,adaptive,default", self.flags("chat"))
        self.assertIn("--draft_vocabulary 16384 ", self.flags("vocabulary_chat_16384"))
        self.assertFalse((self.folder / "raw/vocabulary_chat_0").exists(), "the first run drafts all tokens")

    def test_a_packed_chat_model_is_found(self):
        folder = self.folder / "added/chat_model"
        folder.mkdir(parents=True)
        (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_text("")
        self.assertEqual(gpu_decode.chat_target(self.make_run()), folder / "SmolLM2-135M-Instruct.Q4_1.gguf")

    def test_a_machine_without_the_chat_model_says_how_to_get_it(self):
        empty = Path(self.folder / "nothing")
        empty.mkdir()
        with self.assertRaisesRegex(NotRun, "no chat model in .*nothing; pack it with pack.sh --add"):
            gpu_decode.chat_target(self.make_run(chat_model=empty))


if __name__ == "__main__":
    unittest.main()
