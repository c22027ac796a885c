"""Parity goldens of target families without a drafter: tiny random checkpoints of `transformers`' own classes.

make_goldens.py describes the tensors of golden.safetensors. These cases also have
    layer_ids [n]      the layers whose outputs are the features
    touched [1]        models with experts: those that the T tokens chose, a mean over the layers with experts
The weights are bf16, to save space; both sides compute in fp32. A case either keeps the files that
save_pretrained writes, or has the config.json of an older version of `transformers`.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

VOCABULARY = 72
LAYER_IDS = (0,)


@dataclass(frozen=True)
class Family:
    """One checkpoint. `config` is its config.json; with `saved`, save_pretrained rewrites it."""

    name: str
    seed: int
    config: dict
    saved: bool = True
    buffers: bool = False  # Adds the constants that old GPT-NeoX checkpoints contain.
    stacked: bool = False  # Stores the experts of a layer as two tensors.


def _config(architecture: str, model_type: str, **fields: object) -> dict:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": VOCABULARY,
        "num_hidden_layers": 2,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 0,
        **fields,
    }


def _llama(**fields: object) -> dict:
    return _config(
        "LlamaForCausalLM",
        "llama",
        **{
            "hidden_size": 32,
            "intermediate_size": 40,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "attention_bias": False,
            "mlp_bias": False,
            "pretraining_tp": 1,
            **fields,
        },
    )


def _neox(**fields: object) -> dict:
    return _config(
        "GPTNeoXForCausalLM",
        "gpt_neox",
        **{
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_attention_heads": 2,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-5,
            "use_parallel_residual": True,
            **fields,
        },
    )


def _moe(**fields: object) -> dict:
    return _config(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        **{
            "hidden_size": 32,
            "intermediate_size": 40,
            "moe_intermediate_size": 16,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "attention_bias": False,
            **fields,
        },
    )


def _qwen2(**fields: object) -> dict:
    return _config(
        "Qwen2ForCausalLM",
        "qwen2",
        **{
            "hidden_size": 48,
            "intermediate_size": 40,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "use_sliding_window": False,
            "sliding_window": 128,
            "max_window_layers": 2,
            "tie_word_embeddings": True,
            **fields,
        },
    )


def _mistral(**fields: object) -> dict:
    return _config(
        "MistralForCausalLM",
        "mistral",
        **{
            "hidden_size": 32,
            "intermediate_size": 40,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            **fields,
        },
    )


def _smollm3(**fields: object) -> dict:
    return _config(
        "SmolLM3ForCausalLM",
        "smollm3",
        **{
            "hidden_size": 32,
            "intermediate_size": 40,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 50000.0,
            "attention_bias": False,
            "mlp_bias": False,
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": 28,
            "pretraining_tp": 2,
            "pad_token_id": None,
            **fields,
        },
    )


# The context that Llama 3.1 scales is 8,192 tokens. Here it is 32, so that a short text shows all three ranges.
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

# The frequencies fade in over two pairs of elements.
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0}

CASES = [
    Family(
        "llama_scaled_rope",
        11,
        _llama(tie_word_embeddings=True, rope_theta=500000.0, rope_scaling=_LLAMA3, torch_dtype="bfloat16"),
        saved=False,
    ),
    Family(
        "llama_default_rope", 12, _llama(head_dim=32, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    ),
    Family(
        "llama_rope_parameters",
        13,
        _llama(
            hidden_size=48,
            num_attention_heads=3,
            num_key_value_heads=3,
            tie_word_embeddings=False,
            rope_parameters={**_LLAMA3, "rope_theta": 10000.0},
        ),
    ),
    Family(
        "llama_dynamic_rope",
        15,
        _llama(tie_word_embeddings=True, rope_theta=10000.0, rope_scaling={"type": "dynamic", "factor": 4.0}),
        saved=False,
    ),
    Family("qwen2_yarn", 41, _qwen2(rope_scaling={**_YARN, "type": "yarn"}), saved=False),
    Family("mistral_window", 51, _mistral(sliding_window=7, rope_scaling={"rope_type": "linear", "factor": 4.0})),
    Family(
        "smollm3_no_rope_layers",
        61,
        _smollm3(num_hidden_layers=4, rope_scaling={**_YARN, "attention_factor": 1.5}),
        saved=False,
    ),
    Family(
        "neox_parallel",
        21,
        _neox(
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        ),
    ),
    # 24 of a head's 48 elements rotate, like 20 of 80 in Pythia-2.8B: not whole vectors.
    Family(
        "neox_old_config",
        22,
        _neox(
            hidden_size=48,
            num_attention_heads=1,
            rotary_pct=0.5,
            rotary_emb_base=5000,
            tie_word_embeddings=False,
            torch_dtype="float16",
            use_cache=True,
        ),
        saved=False,
        buffers=True,
    ),
    Family(
        "neox_sequential",
        23,
        _neox(use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, rotary_pct=1.0),
    ),
    Family("moe_normalized", 31, _moe(num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, tie_word_embeddings=False)),
    Family(
        "moe_every_second_layer",
        32,
        _moe(
            num_experts=4,
            num_experts_per_tok=3,
            decoder_sparse_step=2,
            tie_word_embeddings=True,
            use_sliding_window=False,
            sliding_window=None,
            max_window_layers=2,
        ),
        saved=False,
    ),
    Family(
        "moe_stacked_experts",
        33,
        _moe(num_experts=9, num_experts_per_tok=1, mlp_only_layers=[1], moe_intermediate_size=24, tie_word_embeddings=True),
        stacked=True,
    ),
]


def _randomize(model: torch.nn.Module) -> None:
    """Matrices with standard deviation 1/sqrt(fan-in), embeddings 0.4, biases 0.2, and norm weights around 1."""
    for name, parameter in model.named_parameters():
        if "embed" in name or "lm_head" in name:
            scale, mean = 0.4, 0.0
        elif parameter.dim() > 1:
            scale, mean = 1 / math.sqrt(parameter.shape[-1]), 0.0
        else:
            scale, mean = 0.2, float(name.endswith("weight"))
        values = mean + scale * torch.randn(parameter.shape)
        parameter.data = values.to(torch.bfloat16).float()


def _add_buffers(tensors: dict[str, torch.Tensor], config: dict) -> None:
    positions = 8  # The model has 256, but the engine ignores the mask.
    for layer in range(config["num_hidden_layers"]):
        prefix = f"gpt_neox.layers.{layer}.attention."
        tensors[prefix + "bias"] = torch.ones(1, 1, positions, positions, dtype=torch.bool).tril()
        tensors[prefix + "masked_bias"] = torch.tensor(-1e9)
        tensors[prefix + "rotary_emb.inv_freq"] = torch.rand(4)


def _stack_experts(tensors: dict[str, torch.Tensor], config: dict) -> None:
    """Replaces the matrices of the experts by the stacked tensors that `transformers` has in memory."""
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.mlp.experts."
        if f"{prefix}0.up_proj.weight" not in tensors:
            continue
        experts = [
            {name: tensors.pop(f"{prefix}{expert}.{name}_proj.weight") for name in ("gate", "up", "down")}
            for expert in range(config["num_experts"])
        ]
        tensors[prefix + "gate_up_proj"] = torch.stack([torch.cat([e["gate"], e["up"]]) for e in experts])
        tensors[prefix + "down_proj"] = torch.stack([e["down"] for e in experts])


def write(case: Family, folder: Path) -> torch.nn.Module:
    """Writes the checkpoint and returns its model, loaded again in fp32."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(case.config, indent=2) + "\n"
    (folder / "config.json").write_text(text)
    kind = getattr(transformers, case.config["architectures"][0])
    torch.manual_seed(case.seed)
    model = kind(transformers.AutoConfig.from_pretrained(folder))
    _randomize(model)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if not case.saved:
        (folder / "config.json").write_text(text)
    if case.buffers or case.stacked:
        tensors = load_file(folder / "model.safetensors")
        (_add_buffers if case.buffers else _stack_experts)(tensors, case.config)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


@torch.no_grad()
def touched_experts(model: torch.nn.Module, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensor `touched`, for a model with experts."""
    if not hasattr(model.config, "num_experts_per_tok"):
        return {}
    logits = model(tokens[None], output_router_logits=True).router_logits
    counts = [len(layer.topk(model.config.num_experts_per_tok).indices.unique()) for layer in logits]
    return {"touched": torch.tensor([sum(counts) / len(counts)])}


def make_all(folder: Path, only: set[str]) -> Iterator[tuple[str, torch.nn.Module, tuple[int, ...]]]:
    """Writes the named cases, or all. Yields the name, the model and the feature layers of each."""
    for case in CASES:
        if not only or case.name in only:
            yield case.name, write(case, folder / case.name / "target"), LAYER_IDS
