"""Writes the GPT-NeoX pair as Hugging Face folders (bf16 safetensors) and checks both against `transformers`."""

import argparse
import json
from pathlib import Path

import torch

from demo_training.export import round_to_bf16, write_folder
from demo_training.gpt_neox import DRAFTER, TARGET, Config, GptNeox

LARGEST_DIFFERENCE = 1e-4  # in logits, fp32


def load(work: Path, name: str, config: Config) -> GptNeox:
    """The model of the last checkpoint, frozen. Weights are rounded to bf16; arithmetic is fp32."""
    model = GptNeox(config)
    model.load_state_dict(torch.load(work / f"neox_{name}.pt", weights_only=True)["model"])
    return round_to_bf16(model)


def load_target(work: Path) -> GptNeox:
    return load(work, "target", TARGET)


def load_drafter(work: Path) -> GptNeox:
    return load(work, "drafter", DRAFTER)


@torch.no_grad()
def check_against_transformers(folder: Path, model: GptNeox) -> float:
    """The largest difference in fp32 logits between `model` and GPTNeoXForCausalLM loaded from the folder."""
    from transformers import GPTNeoXForCausalLM

    reference = GPTNeoXForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(8, model.config.vocab_size, (2, 200), generator=torch.Generator().manual_seed(1))
    return (reference(ids).logits - model(ids)).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder to write target/ and drafter/ to")
    args = parser.parse_args()
    differences = {}
    for name, model in (("target", load_target(args.work)), ("drafter", load_drafter(args.work))):
        folder = args.out / name
        write_folder(folder, model, model.config.to_json(), args.work / "tokenizer")
        generation = {"do_sample": False, "eos_token_id": 0, "pad_token_id": 0}
        (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        differences[name] = check_against_transformers(folder, model)
        print(f"{name}: largest difference in logits from transformers {differences[name]:.2e}")
        if differences[name] > LARGEST_DIFFERENCE:
            raise SystemExit(
                f"neox_export: {folder} differs from transformers by {differences[name]:.2e} in logits; "
                f"at most {LARGEST_DIFFERENCE:.0e} is allowed"
            )
    (args.work / "neox_export.json").write_text(json.dumps(differences))


if __name__ == "__main__":
    main()
