"""Writes the trained pair as Hugging Face folders (bf16 safetensors) and checks the target against `transformers`."""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from demo_training.dflash import DFlash, DraftConfig
from demo_training.qwen3 import Config, Qwen3

LICENSE = """The weights in this folder were trained from scratch on the standard library, the test-suite and the
documentation of CPython 3.11 as packaged by Debian 12 (libpython3.11-stdlib, libpython3.11-testsuite, python3.11-doc),
which are under the PSF License Agreement, Copyright (c) 2001 Python Software Foundation; All Rights Reserved
(https://docs.python.org/3.11/license.html). The weights may be used, changed and passed on under the same terms.
"""


def load_target(work: Path) -> Qwen3:
    """The target of the last checkpoint, frozen. Weights are rounded to bf16; arithmetic is fp32."""
    model = Qwen3(Config())
    model.load_state_dict(torch.load(work / "target.pt", weights_only=True)["model"])
    return round_to_bf16(model)


def load_drafter(work: Path) -> DFlash:
    """The drafter of the last checkpoint, frozen and rounded like the target."""
    model = DFlash(DraftConfig())
    model.load_state_dict(torch.load(work / "drafter.pt", weights_only=True)["model"])
    return round_to_bf16(model)


def round_to_bf16(model: torch.nn.Module) -> torch.nn.Module:
    for parameter in model.parameters():
        parameter.requires_grad_(False).copy_(parameter.bfloat16().float())
    return model.eval()


def write_folder(folder: Path, model: torch.nn.Module, config: dict, tokenizer: Path) -> None:
    """Writes config.json, model.safetensors, tokenizer files and LICENSE."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().bfloat16().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
    (folder / "LICENSE").write_text(LICENSE)


def check_against_transformers(folder: Path, model: Qwen3) -> float:
    """The largest difference in fp32 logits between `model` and Qwen3ForCausalLM loaded from the folder."""
    from transformers import Qwen3ForCausalLM

    reference = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(8, model.config.vocab_size, (2, 200), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (reference(ids).logits - model(ids)).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder to write target/ and drafter/ to")
    parser.add_argument("--random-drafter", action="store_true", help="write an untrained drafter, to test the format")
    parser.add_argument("--only", choices=["target", "drafter"])
    args = parser.parse_args()
    if args.only != "drafter":
        target = load_target(args.work)
        write_folder(args.out / "target", target, target.config.to_json(), args.work / "tokenizer")
        generation = {"do_sample": False, "eos_token_id": 0, "pad_token_id": 0}
        (args.out / "target" / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        difference = check_against_transformers(args.out / "target", target)
        print(f"largest difference in logits from transformers: {difference:.2e}")
        assert difference < 1e-3
    if args.only != "target":
        drafter = round_to_bf16(DFlash(DraftConfig())) if args.random_drafter else load_drafter(args.work)
        write_folder(args.out / "drafter", drafter, drafter.config.to_json(), args.work / "tokenizer")


if __name__ == "__main__":
    main()
