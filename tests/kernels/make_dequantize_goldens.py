#!/usr/bin/env python3
"""Writes goldens/dequantize.safetensors: random blocks of each format of GGUF files, and the floats of the `gguf` package.

    pip install gguf==0.19.0 safetensors==0.8.0
    python tests/kernels/make_dequantize_goldens.py

For each format: NAME.blocks [n] int64, one byte each, and NAME.floats [m]. The scales are halves of any finite
value, subnormal ones included.
"""

from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

BLOCKS = 3
# The bytes of a block where a half begins.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def main() -> None:
    random = np.random.default_rng(39)
    tensors = {}
    for name, offsets in SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for offset in offsets:
            blocks[:, offset + 1] &= 0xBB  # No exponent of 31: neither infinite nor NaN.
            blocks[0, offset + 1] &= 0x83  # A subnormal number.
        floats = gguf.dequantize(blocks, kind)
        assert np.isfinite(floats).all()
        tensors[name + ".blocks"] = blocks.reshape(-1).astype(np.int64)
        tensors[name + ".floats"] = floats.reshape(-1).astype(np.float32)
    folder = Path(__file__).parent / "goldens"
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "dequantize.safetensors")


if __name__ == "__main__":
    main()
