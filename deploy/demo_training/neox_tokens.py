"""Encodes the corpus with the first pair's tokenizer: WORK/train.npy, WORK/validation.npy and WORK/tokens.json.

Both pairs read the same tokens, so that the folder WORK/tokenizer is a copy of the first target's tokenizer.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from demo_training import corpus
from demo_training.tokenizer import encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of tokenizer.json")
    args = parser.parse_args()
    (args.work / "tokenizer").mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(args.tokenizer / name, args.work / "tokenizer" / name)
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    sizes = {}
    for split in ("validation", "train"):
        ids, size = encode(tokenizer, corpus.load(args.work, split))
        np.save(args.work / f"{split}.npy", ids)
        sizes[split] = {"tokens": len(ids), "bytes": size}
    (args.work / "tokens.json").write_text(json.dumps(sizes))
    print(sizes)


if __name__ == "__main__":
    main()
