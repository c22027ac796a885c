"""Tests the tables of the GPU report for long contexts, draft vocabularies and other engines. Run by ctest."""

import unittest

import gpu_tables
from fixtures import forward, policy, results

# What was measured on an H200 on 2026-11-27 (results/h200-2026-11-27/peers_8b.json): 64 tokens per prompt.
TOKENS = list(range(64))
RECORDED = {"plain": (14.09, 64), "DFlash": (20.24, 21), "budget 64": (40.23, 16), "budget 128": (47.35, 15)}
RECORDED_STEP = {"context": 2048, "eager_ms": 38.90, "graph_ms": 9.31}


def peers(**more) -> dict:
    """The content of peers.json with one prompt, "one"."""
    arms = [
        {"name": f"DDTree's code, {name}", "answers": [{"tokens": TOKENS, "seconds": 64 / rate, "cycles": cycles}]}
        for name, (rate, cycles) in RECORDED.items()
    ]
    content = {"torch": "2.11.0", "transformers": "4.57.6", "prompts": ["one"], "steps": [RECORDED_STEP], "arms": arms}
    return content | {"left_out": {}} | more


class LongContextsTest(unittest.TestCase):
    def with_prompts(self, name: str, *prompts: tuple[str, float, int]) -> dict:
        """A policy with prompts (id, tokens/s, tokens before). Each answer has 4 tokens, in 2 cycles."""
        made = policy(name, 1, [1, 2, 3, 4], lengths=[2, 2])
        made["prompts"] = [
            made["prompts"][0] | {"id": id, "seconds": 4 / rate, "contexts": [context, context + 2], "prefill_seconds": 0.5}
            for id, rate, context in prompts
        ]
        return made

    def test_each_length_has_its_own_figures(self):
        found = results(
            self.with_prompts("ar", ("8192-0", 100, 8159), ("8192-1", 100, 8341), ("32768-0", 50, 32704)),
            self.with_prompts("default", ("8192-0", 300, 8159), ("8192-1", 300, 8341), ("32768-0", 75, 32704)),
        )
        short, long = gpu_tables.by_length(found).values()
        self.assertEqual([round(row["speedup"], 3) for row in short], [1, 3])
        self.assertEqual([round(row["speedup"], 3) for row in long], [1, 1.5])
        self.assertEqual((short[1]["prompts"], short[1]["context"], long[1]["context"]), (2, 8250, 32704))
        table = gpu_tables.long_table(found)
        self.assertIn("| 8250 | default | 300.0 | 3.00× | 2.00 |", table)
        self.assertIn("| 65408 | 0 of 1 |", table, "32,704 tokens in half a second")


class VocabulariesTest(unittest.TestCase):
    def rows(self, pair: str, rates: dict[int, float]) -> dict[str, list[dict]]:
        found = {
            f"{pair}_{count}": results(
                policy("chain", 50, [1, 2], stages={"draft": 0.002}), policy("default", rate, [1, 2], stages={"draft": 0.001})
            )
            for count, rate in rates.items()
        }
        return gpu_tables.vocabulary_rows(found)

    def test_the_fastest_vocabulary_is_named(self):
        pairs = self.rows("8b", {32768: 104, 0: 100, 16384: 110}) | self.rows("chat", {0: 100, 16384: 98})
        self.assertEqual([row["count"] for row in pairs["8b"]], [0, 16384, 32768])
        text = gpu_tables.vocabulary_table(pairs, {"8b": "big", "chat": "small"})
        self.assertIn("| big | all | 2.000 | 2.00 | 1.000 | 2.00 | 100.0 | 1.00× |", text)
        self.assertIn("| big | 16,384 | 2.000 | 2.00 | 1.000 | 2.00 | 110.0 | 1.10× |", text)
        self.assertIn("Best `--draft_vocabulary` for `default`: big: 16,384; small: all.", text)

    def test_a_difference_within_the_noise_chooses_all_tokens(self):
        self.assertEqual(gpu_tables.best_vocabulary(self.rows("8b", {0: 100, 16384: 102.9})["8b"]), 0)
        self.assertEqual(gpu_tables.best_vocabulary(self.rows("8b", {0: 100, 16384: 103.1})["8b"]), 16384)

    def test_a_run_that_was_stopped_compares_what_it_has(self):
        rows = self.rows("8b", {16384: 100, 32768: 120})["8b"]
        self.assertEqual([row["relative"] for row in rows], [None, None], "all tokens did not run")
        self.assertEqual(gpu_tables.best_vocabulary(rows), 32768)
        self.assertEqual(gpu_tables.vocabulary_rows({"8b_0": results(policy("chain", 1, [1]))}), {})


class PeersTest(unittest.TestCase):
    ROOFLINE = {"forwards": [forward(1, 0.00595)]}

    def ours(self, *policies: dict) -> dict:
        return results(*policies)

    def test_engines_stand_beside_each_other_relative_to_the_best_of_the_others(self):
        decode = self.ours(policy("ar", 171.7, TOKENS), policy("chain", 300, TOKENS), policy("default", 686.5, TOKENS))
        text = gpu_tables.peers_text(peers(), decode, self.ROOFLINE)
        self.assertIn("| DDTree's code, budget 128 | 47.4 | 47.4 | 1.00× | 4.27 | 100 % |", text)
        self.assertIn("| bastion default | 686.5 | 686.5 | 14.50× |", text)
        self.assertNotIn("chain", text, "only some policies stand beside others")
        self.assertIn("| 2048 | 38.90 | 9.31 | 5.95 | 1.56× |", text)

    def test_without_a_gpu_there_is_no_graph(self):
        text = gpu_tables.peers_text(peers(steps=[RECORDED_STEP | {"graph_ms": None}]), {}, {})
        self.assertIn("| 2048 | 38.90 | – | – | – |", text)

    def test_what_was_left_out_is_named(self):
        text = gpu_tables.peers_text(peers(arms=[], steps=[], left_out={"DDTree's code": "no checkout was named"}), {}, {})
        self.assertIn("Left out: DDTree's code: no checkout was named.", text)
        self.assertNotIn("|", text)

    def test_answers_to_other_prompts_are_not_compared(self):
        _, ours = gpu_tables.peer_arms(peers(prompts=["two"]), self.ours(policy("ar", 171.7, TOKENS)))
        self.assertEqual(ours, [])


if __name__ == "__main__":
    unittest.main()
