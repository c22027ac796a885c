"""Converts a Qwen3 folder to the GGUF file that llama.cpp reads: bit for bit in bf16, or converted to f16 or f32.

The file has no tokenizer, because it is only used to decode token ids. Needs numpy and `gguf`.
"""

from pathlib import Path

import gguf
import numpy as np

from checkpoint_io import Checkpoint, CheckpointError, from_floats
from qwen3_forward import theta_of

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TYPES = {
    "bf16": ("BF16", gguf.GGMLQuantizationType.BF16),
    "f16": ("F16", gguf.GGMLQuantizationType.F16),
    "f32": ("F32", gguf.GGMLQuantizationType.F32),
}


def gguf_name(name: str) -> str:
    """The tensor's name in GGUF: model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    stem = name.removesuffix(".weight")
    if stem in NAMES:
        return NAMES[stem] + ".weight"
    parts = stem.removeprefix("model.layers.").split(".", 1)
    if not stem.startswith("model.layers.") or parts[1] not in LAYER_NAMES:
        raise CheckpointError(f"tensor '{name}' does not belong to a Qwen3 model")
    return f"blk.{parts[0]}.{LAYER_NAMES[parts[1]]}.weight"


def write_metadata(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(theta_of(config))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")


def convert(folder: Path, path: Path, kind: str) -> None:
    """Writes `path`: matrices as `kind` (a key of TYPES), norms in fp32."""
    source = Checkpoint(folder)
    if source.config.get("architectures") != ["Qwen3ForCausalLM"]:
        raise CheckpointError(f"{folder}: config.json does not name the architecture Qwen3ForCausalLM")
    dtype, raw = TYPES[kind]
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "qwen3", use_temp_file=False)
    write_metadata(writer, source.config)
    for name in source.names():
        if len(source.stored(name).shape) == 1:
            writer.add_tensor(gguf_name(name), source.floats(name))
        else:
            same = source.dtype(name) == dtype
            stored = source.stored(name) if same else from_floats(source.floats(name), dtype)
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(stored).view(np.uint8), raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=True)
    writer.close()
    partial.rename(path)
