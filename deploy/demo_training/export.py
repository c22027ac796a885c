"""Writes the pair as Hugging Face folders (bf16 safetensors), and checks its models against `transformers`."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from demo_training.language_model import LanguageModel
from demo_training.pairs import M, Recipe
from demo_training.stage import parse, parser
from demo_training.tokenizer import FILES

LICENSE = """The weights in this folder were trained from scratch on the standard library, the test-suite and the
documentation of CPython 3.11 as packaged by Debian 12 (libpython3.11-stdlib, libpython3.11-testsuite, python3.11-doc),
which are under the PSF License Agreement, Copyright (c) 2001 Python Software Foundation; All Rights Reserved
(https://docs.python.org/3.11/license.html). The weights may be used, changed and passed on under the same terms.
"""


def load(work: Path, recipe: Recipe[M]) -> M:
    """The model of the last checkpoint, frozen. Weights are rounded to bf16; arithmetic is fp32."""
    model = recipe.new()
    model.load_state_dict(torch.load(work / f"{recipe.name}.pt", weights_only=True)["model"])
    for parameter in model.parameters():
        parameter.requires_grad_(False).copy_(parameter.bfloat16().float())
    return model.eval()


def write_folder(folder: Path, model: nn.Module, config: dict, tokenizer: Path) -> None:
    """Writes config.json, model.safetensors, tokenizer files and LICENSE."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().bfloat16().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in FILES:
        shutil.copyfile(tokenizer / name, folder / name)
    (folder / "LICENSE").write_text(LICENSE)


@torch.no_grad()
def difference_from_transformers(folder: Path, model: LanguageModel) -> float:
    """The largest difference in fp32 logits between `model` and the model that `transformers` loads from the folder."""
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(8, model.config.vocab_size, (2, 200), generator=torch.Generator().manual_seed(1))
    return (reference(ids).logits - model(ids)).abs().max().item()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", choices=["target", "drafter"])
    args = parse(options)
    differences = {}
    for recipe in (args.pair.target, args.pair.drafter):
        if args.only not in (None, recipe.name):
            continue
        model, folder = load(args.work, recipe), args.out / recipe.name
        write_folder(folder, model, model.config.to_json(), args.work / "tokenizer")
        if not isinstance(model, LanguageModel):
            continue
        generation = {"do_sample": False, "eos_token_id": 0, "pad_token_id": 0}
        (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        difference = differences[recipe.name] = difference_from_transformers(folder, model)
        print(f"{recipe.name}: largest difference in logits from transformers {difference:.2e}")
        if difference > args.pair.tolerance:
            raise SystemExit(
                f"export: {folder} differs from transformers by {difference:.2e} in logits; "
                f"at most {args.pair.tolerance:.0e} is allowed"
            )
    (args.work / "export.json").write_text(json.dumps(differences))


if __name__ == "__main__":
    main()
