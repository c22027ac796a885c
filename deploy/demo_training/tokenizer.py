"""A byte-level BPE tokenizer of 4096 entries, written as a Hugging Face `tokenizer.json`.

Pre-tokenizer: the regular expression of Qwen2/Qwen3. Ids 0..7 are the special tokens, in the order of SPECIALS.
A pair may copy the tokenizer of another pair instead. Also turns each split of the corpus into one stream of uint16
ids, with `<|endoftext|>` after every file.
"""

import json
import shutil
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from demo_training import corpus
from demo_training.stage import parse, parser

FILES = ("tokenizer.json", "tokenizer_config.json")
VOCABULARY = 4096
SPECIALS = ["<|endoftext|>", "<|mask|>", "<|im_start|>", "<|im_end|>"] + [f"<|reserved_{i}|>" for i in range(4)]
EOS, MASK = 0, 1
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(texts: list[str]) -> Tokenizer:
    """Trains the tokenizer on `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIALS, show_progress=True, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    assert tokenizer.get_vocab_size() == VOCABULARY
    assert [tokenizer.token_to_id(s) for s in SPECIALS] == list(range(len(SPECIALS)))
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": SPECIALS[EOS],
        "pad_token": SPECIALS[EOS],
        "mask_token": SPECIALS[MASK],
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def encode(tokenizer: Tokenizer, documents: list[corpus.Document]) -> tuple[np.ndarray, int]:
    """All documents as one stream of uint16 ids [tokens], and their size in bytes of UTF-8."""
    ids = []
    for encoding in tokenizer.encode_batch([d.text for d in documents]):
        ids.append(np.array(encoding.ids + [EOS], dtype=np.uint16))
    return np.concatenate(ids), sum(len(d.text.encode()) for d in documents)


def load(folder: Path) -> Tokenizer:
    """The tokenizer of a folder with a tokenizer.json."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of the text, without special tokens around it."""
    return tokenizer.encode(text, add_special_tokens=False).ids


def main() -> None:
    args = parse(parser(__doc__))
    folder = args.work / "tokenizer"
    if args.pair.tokenizer is None:
        save(train([d.text for d in corpus.load(args.work, "train")]), folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(args.pair.tokenizer / name, folder / name)
    tokenizer = load(folder)
    sizes = {}
    for split in ("train", "validation"):
        ids, size = encode(tokenizer, corpus.load(args.work, split))
        np.save(args.work / f"{split}.npy", ids)
        sizes[split] = {"tokens": len(ids), "bytes": size}
    (args.work / "tokens.json").write_text(json.dumps(sizes))
    print(sizes)


if __name__ == "__main__":
    main()
