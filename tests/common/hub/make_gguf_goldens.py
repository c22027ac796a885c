#!/usr/bin/env python3
"""Writes goldens/gguf_tokenizers.json: small tokenizers as the metadata of GGUF files, and the token ids of texts.

    pip install tokenizers==0.23.3 transformers==5.23.0 sentencepiece==0.2.3
    python tests/common/hub/make_gguf_goldens.py

Byte-level BPE is trained and run by `transformers`, SentencePiece by the `sentencepiece` package.
"""

import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "Hello, world!",
    "The year 2026 has 365 days; 12345678 is a number.",
    "  two spaces\n\n and\tlines \n",
    "Straße, naïve café, 東京 and emoji 🙂!",
    "I'm sure they'LL say it's we've",
    "e\u0301 is not \u00e9",
    "",
    "<|im_start|>user\nhi<|im_end|>\n",
    "x==y; foo_bar(1,2)",
]
TRAINING = TEXTS * 3 + ["the quick brown fox jumps over the lazy dog and the other dogs", "hello hello world 2025 2026"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN = LLAMA.replace("{1,3}", "")


def split(pattern: str) -> list:
    return [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


STEPS = {
    "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "llama-bpe": split(LLAMA),
    "smaug-bpe": split(LLAMA),
    "qwen2": split(QWEN),
}


def byte_level(pre: str) -> dict:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(STEPS[pre])
    tokenizer.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(t, normalized=False, special=True) for t in SPECIAL],
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    if pre == "llama-bpe":  # Whole words that no merges make: "jumps" is one token, but never merged.
        state = json.loads(tokenizer.to_str())
        state["model"]["merges"] = [m for m in state["model"]["merges"] if m != state["model"]["merges"][-1]]
        state["model"]["ignore_merges"] = True
        tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{SPECIAL[0]} $A", special_tokens=[(SPECIAL[0], 0)])
    state = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if t in SPECIAL else 1 for t in tokens],
        "tokenizer.ggml.merges": [" ".join(m) for m in state["merges"]],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
    }
    return {
        "metadata": metadata,
        "texts": TEXTS,
        "ids": [fast.encode(t) for t in TEXTS],
        "decoded": [fast.decode(fast.encode(t, add_special_tokens=False)) for t in TEXTS],
    }


def pieces(prefix: bool) -> dict:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING),
        model_writer=model,
        model_type="bpe",
        vocab_size=400,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        hard_vocab_limit=False,
        split_digits=True,
        minloglevel=2,
    )
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = sp.get_piece_size()

    def kind(i: int) -> int:
        return 6 if sp.is_byte(i) else 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 1

    texts = [t for t in TEXTS if t and "<|" not in t]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [sp.id_to_piece(i) for i in range(count)],
        "tokenizer.ggml.scores": [float(sp.get_score(i)) for i in range(count)],
        "tokenizer.ggml.token_type": [kind(i) for i in range(count)],
        "tokenizer.ggml.bos_token_id": sp.bos_id(),
        "tokenizer.ggml.eos_token_id": sp.eos_id(),
        "tokenizer.ggml.unknown_token_id": sp.unk_id(),
        "tokenizer.ggml.add_space_prefix": prefix,
    }
    return {
        "metadata": metadata,
        "texts": texts,
        "ids": [sp.encode(t, add_bos=True) for t in texts],
        "decoded": [sp.decode(sp.encode(t)) for t in texts],
    }


def main() -> None:
    cases = {pre: byte_level(pre) for pre in STEPS}
    cases["sentencepiece"] = pieces(True)
    cases["sentencepiece_without_prefix"] = pieces(False)
    path = Path(__file__).parent / "goldens" / "gguf_tokenizers.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
