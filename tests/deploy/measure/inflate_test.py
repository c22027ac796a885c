"""Tests that a pair grown by inflate.py gives the outputs of the small pair. Run by ctest with build/venv/bin/python.

The tests grow the demo pair in all dimensions at once, with more or fewer query heads per key head, and with a separate
head matrix. They compute logits and draft logits of several prompts with the numpy forward of qwen3_forward.py.
"""

import contextlib
import io
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import inflate
import inflate_maps
import qwen3_forward as forward
from checkpoint_io import Checkpoint, CheckpointError, SafetensorsFile, write_safetensors

ROOT = Path(__file__).resolve().parents[3]

PAIR = ROOT / "deploy/demo_model/target", ROOT / "deploy/demo_model/drafter"
SHAPE = inflate.Shape(
    hidden=640,
    intermediate=1408,
    layers=11,
    query_heads=8,
    kv_heads=4,
    head_dim=128,
    vocabulary=5000,
    tied=True,
    drafter_layers=3,
    taps=4,
)
TOLERANCE = 1e-3
PROMPTS = [np.random.default_rng(length).integers(0, 4096, length) for length in (2, 17, 40)]


@contextlib.contextmanager
def grown(shape: inflate.Shape) -> Iterator[tuple[Checkpoint, Checkpoint]]:
    """The pair grown to `shape`, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stderr(io.StringIO()):
            inflate.inflate(*PAIR, shape, Path(folder))
        yield Checkpoint(Path(folder) / "target"), Checkpoint(Path(folder) / "drafter")


def outputs(target: Checkpoint, drafter: Checkpoint, prompt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logits after every token except the last, and the logits of the draft that follows the last token."""
    last, features = forward.run_target(target, prompt[:-1], forward.taps_of(drafter))
    draft = forward.run_drafter(drafter, target, features, int(prompt[-1]))
    return (
        forward.head(target, forward.final_norm(target, last, "model.")),
        forward.head(target, forward.final_norm(drafter, draft, "")),
    )


class InflateTest(unittest.TestCase):
    outputs: list[tuple[np.ndarray, np.ndarray]]  # The small pair gives these, by prompt.
    grown: tuple[Checkpoint, Checkpoint]

    @classmethod
    def setUpClass(cls):
        target, drafter = (Checkpoint(folder) for folder in PAIR)
        cls.outputs = [outputs(target, drafter, prompt) for prompt in PROMPTS]
        cls.grown = cls.enterClassContext(grown(SHAPE))

    def check(self, pair: tuple[Checkpoint, Checkpoint]) -> None:
        for prompt, small in zip(PROMPTS, self.outputs):
            for old, new in zip(small, outputs(*pair, prompt)):
                known = old.shape[1]
                self.assertLess(np.abs(new[:, :known] - old).max(), TOLERANCE)
                if new.shape[1] > known:  # The new tokens have no probability.
                    self.assertLess(new[:, known:].max() + 100, old.max(-1).min())

    def check_shape(self, shape: inflate.Shape) -> None:
        with grown(shape) as pair:
            self.check(pair)

    def test_all_dimensions_grow(self):
        self.check(self.grown)

    def test_pairs_with_fewer_query_heads_per_key_head(self):
        self.check_shape(replace(SHAPE, layers=9, query_heads=6, kv_heads=6, vocabulary=4096))

    def test_pairs_with_more_query_heads_and_a_head_matrix(self):
        self.check_shape(replace(SHAPE, layers=9, query_heads=16, kv_heads=4, tied=False))

    def test_the_same_shape_is_the_same_model(self):
        self.check_shape(inflate.Shape(320, 1280, 9, 6, 2, 64, 4096, True, 2, 3))

    def test_extra_layers_and_heads_have_nonzero_weights(self):
        """Only the output matrices of the extra layers are zero, so the extra layers and heads really compute."""
        target = self.grown[0]
        silent = {name for name in target.names() if name.endswith("_proj.weight") and not target.floats(name).any()}
        self.assertEqual(len(silent), 2 * 2)  # o_proj and down_proj of the two extra layers.
        self.assertTrue(all(name.endswith(("o_proj.weight", "down_proj.weight")) for name in silent))

    def test_tapped_layers_are_renumbered(self):
        config, places = self.grown[1].config, inflate_maps.spread(9, SHAPE.layers)
        self.assertEqual(config["dflash_config"]["target_layer_ids"][:3], [places[2], places[4], places[7]])
        self.assertEqual((config["num_target_layers"], config["layer_types"]), (SHAPE.layers, ["full_attention"] * 3))

    def test_the_prior_matches_the_larger_vocabulary(self):
        """A pair of tokens keeps its continuations, but its number (previous * vocabulary + last) changes."""
        new = SafetensorsFile(self.grown[1].folder / inflate.PRIOR)
        old = SafetensorsFile(PAIR[1] / inflate.PRIOR)
        self.assertEqual(list(new.stored("facts")), [1, 5000])
        self.assertEqual(len(new.stored("occurrences")), 5000)
        self.assertEqual(len(new.stored("offsets")), len(old.stored("offsets")) + 904)
        for index in (0, 7, len(old.stored("pairs")) - 1):
            previous, last = divmod(int(old.stored("pairs")[index]), 4096)
            self.assertEqual(int(new.stored("pairs")[index]), previous * 5000 + last)
            self.assertEqual(new.stored("totals")[5000 + index], old.stored("totals")[4096 + index])
            self.assertEqual(new.stored("offsets")[5000 + index], old.stored("offsets")[4096 + index])

    def expect_refused(self, what: str, shape: inflate.Shape, pair: tuple[Path, Path] = PAIR) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(CheckpointError, what):
            inflate.inflate(*pair, shape, Path(folder))

    def test_invalid_shapes_and_pairs_are_refused(self):
        self.expect_refused("smaller than .*hidden 256 < 320", replace(SHAPE, hidden=256))
        self.expect_refused("must be a multiple", replace(SHAPE, head_dim=96))
        self.expect_refused("cannot hold", replace(SHAPE, query_heads=4, kv_heads=4))
        self.expect_refused("needs a larger hidden width", replace(SHAPE, hidden=320))
        self.expect_refused("is DFlashDraftModel; it must be Qwen3ForCausalLM", SHAPE, (PAIR[1], PAIR[1]))
        self.expect_refused("is not a DFlash drafter", replace(SHAPE, drafter_layers=11), (PAIR[0], PAIR[0]))
        self.expect_refused("cannot read config.json", SHAPE, (Path("/nowhere"), PAIR[1]))

    def test_a_full_disk_is_reported(self):
        huge = inflate_maps.Entry("x", "BF16", (1 << 24, 1 << 24), lambda: [])
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(CheckpointError, "the disk has"):
            write_safetensors(Path(folder) / "model.safetensors", [huge], "x")


if __name__ == "__main__":
    unittest.main()
