"""The steps of the GPU run that decode prompts with bastion-bench, in one process or through services."""

import json
from pathlib import Path

from gpu_runner import GpuRun, Pairs
from program_output import differing_text
from runner import DEMO, ROOT, NotRun, ServiceSettings, demo_prompts, pair_flags

QUICK_POLICIES = "ar,chain,fixed:4,fixed:16,bastion,adaptive,default"
POLICIES = "ar,chain,fixed:4,fixed:16,fixed:32,fixed:64,fixed:128,fixed:256,fixed:512,fixed:1024,bastion,adaptive,default"
LOAD_POLICIES = "ar,fixed:4,ngram:2,adaptive,default"
LOADS = "1,4,16,64"  # Requests that are live at the same time.
LOAD_SECONDS = 2.5  # Every policy begins requests for this long at each level, so that the loop stays full.
SAMPLED_LOADS = "1,64"
SAMPLED_LOAD_SECONDS = 1.5
MAX_ROWS = 1025  # The largest fixed size and the root.

LONG_POLICIES = "ar,fixed:16,default"
LONG_CONTEXTS = (8192, 32768)  # Tokens, within a few percent.
CHARACTERS_PER_TOKEN = 2.79  # Mean of the demo pair's tokenizer over the Python code of this folder.

FEATURE_BYTES = 8 << 30  # The features of 32768 tokens of the 8B shape are 1.3 GB.
VOCABULARIES = (0, 16384, 32768)  # Values of --draft_vocabulary. 0: all tokens.
CHAT_POLICIES = "ar,chain,fixed:16,adaptive,default"
CHAT = ROOT / "deploy/chat_model"


def engine_flags(run: GpuRun) -> list:
    """Flags of an engine, in a service or in bastion-bench."""
    table = ["--gemm_table", run.gemm_table] if run.on_gpu else []
    return ["--device", run.device, "--threads", 4 if run.on_gpu else 2, *table]


def in_process(run: GpuRun, folder: Path) -> list:
    """Flags of bastion-bench."""
    return [*pair_flags(folder), *engine_flags(run)]


def answer_flags(policies: str, tokens: int) -> list:
    return ["--policies", policies, "--max_new_tokens", tokens, "--ignore_eos"]


def memory_flags(run: GpuRun, texts: int) -> list:
    """Flags of bastion-bench that make room for `texts` texts of the longest context at the same time."""
    if run.quick or not run.on_gpu:
        return []
    return ["--kv_tokens", texts * Pairs.POSITIONS, "--feature_bytes", FEATURE_BYTES]


def say_differing(run: GpuRun, results: dict) -> None:
    if text := differing_text(results):
        run.say(f"  texts that differ from plain decoding (policy: prompts): {text}")


def decode(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies in process, at temperature 0. The report counts texts that differ from plain decoding."""
    flags = [
        *in_process(run, pairs.ready(size)),
        *answer_flags(run.pick(POLICIES, QUICK_POLICIES), run.pick(64, 16)),
        "--max_rows",
        MAX_ROWS,
    ]
    results = run.bench(f"decode_{size}", demo_prompts(run.pick(8, 2)), flags, exact=False)
    say_differing(run, results)
    for warning in results.get("warnings", []):
        run.say(f"  {warning}")


def sampled(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies in process, at temperature 1."""
    policies = run.pick("ar,fixed:16,adaptive,default", "ar,default")
    flags = [*in_process(run, pairs.ready(size)), *answer_flags(policies, run.pick(64, 16)), "--temperature", 1]
    say_differing(run, run.bench(f"sampled_{size}", demo_prompts(run.pick(8, 2)), flags, exact=False))


def int8(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies in process, with int8 weights of both models."""
    flags = [*in_process(run, pairs.ready(size)), *answer_flags("ar,default", run.pick(64, 16))]
    flags += ["--weights", "int8", "--drafter_weights", "int8"]
    say_differing(run, run.bench(f"int8_{size}", demo_prompts(run.pick(8, 2)), flags, exact=False))


def load(size: str, run: GpuRun, pairs: Pairs, temperature: int = 0) -> None:
    """Policies under load, in process: closed loops. Prompts repeat until the time is over."""
    name = f"load_{size}" if temperature == 0 else f"sampled_load_{size}"
    levels = LOADS if temperature == 0 else SAMPLED_LOADS
    seconds = LOAD_SECONDS if temperature == 0 else SAMPLED_LOAD_SECONDS
    policies = LOAD_POLICIES if temperature == 0 else "ar,default"
    flags = [
        *in_process(run, pairs.ready(size)),
        *answer_flags(policies, run.pick(64, 8)),
        "--temperature",
        temperature,
        "--concurrency",
        run.pick(levels, "1,4"),
        "--duration",
        run.pick(seconds, 1),
    ]
    say_differing(run, run.bench(name, demo_prompts(32), flags, exact=False))


def through_services(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies through services. The demo pair runs in fp32, where texts must not differ."""
    folder, dtype = (DEMO, "fp32") if size == "demo" else (pairs.ready(size), "bf16")
    name, exact = f"services_{size}", size == "demo"
    settings = ServiceSettings(folder / "target", folder / "drafter", engine_flags(run), dtype, dtype, shared_memory=True)
    with run.services(name, settings) as endpoint:
        run.say("  the services are ready")
        flags = [
            "--endpoint",
            endpoint,
            "--target",
            folder / "target",
            *answer_flags("ar,fixed:16,default", run.pick(64, 16)),
        ]
        say_differing(run, run.bench(name, demo_prompts(run.pick(32 if exact else 8, 3)), flags, exact))


def long_prompts(lengths: tuple[int, ...], count: int) -> list[dict]:
    """`count` prompts of roughly each length in tokens: different parts of this folder's Python code.

    The longest length has one prompt, because it takes most of the time.
    """
    code = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))
    prompts, begin = [], 0
    for length in lengths:
        for index in range(count if length != max(lengths) else 1):
            end = begin + int(length * CHARACTERS_PER_TOKEN)
            text = (code + code)[begin:end]
            prompts.append({"id": f"{length}-{index}", "text": text})
            begin = end % len(code)
    return prompts


def long_contexts(size: str, run: GpuRun, pairs: Pairs) -> None:
    """Policies in process after long prompts. The demo pair learned 2,048 positions: only the times are meaningful."""
    lengths = run.pick(LONG_CONTEXTS, (256, 1024))
    prompts = [json.dumps(prompt) for prompt in long_prompts(lengths, run.pick(2, 1))]
    flags = [*in_process(run, pairs.ready(size)), *answer_flags(LONG_POLICIES, run.pick(64, 8))]
    flags += memory_flags(run, 2)
    say_differing(run, run.bench(f"long_{size}", prompts, flags, exact=False))


def vocabularies(size: str, run: GpuRun, pairs: Pairs) -> None:
    """The policies that the size of the draft vocabulary changes most, with each size."""
    for count in run.pick(VOCABULARIES, (0, 1024)):
        flags = [*in_process(run, pairs.ready(size)), *answer_flags("chain,default", run.pick(64, 16))]
        flags += ["--draft_vocabulary", count]
        run.bench(f"vocabulary_{size}_{count}", demo_prompts(run.pick(12, 2)), flags, exact=False)


def chat_target(run: GpuRun) -> Path:
    """The GGUF file or the folder of the chat model. Raises NotRun if there is none."""
    places = [run.chat_model] if run.chat_model else [run.programs / "added", ROOT / "build/chat_model"]
    for place in places:
        if place.is_file() or (place / "config.json").exists():
            return place
        if files := sorted(place.rglob("*SmolLM2*.gguf")):
            return files[0]
    raise NotRun(
        f"there is no chat model in {' or '.join(map(str, places))}; pack it with pack.sh --add, or name it with --chat_model"
    )


def chat(run: GpuRun, _: Pairs) -> None:
    """A real pair: SmolLM2-135M and its trained drafter. First all policies, then smaller draft vocabularies."""
    prompts = (CHAT / "prompts.jsonl").read_text().splitlines()[: run.pick(16, 2)]
    pair = ["--target", chat_target(run), "--drafter", CHAT / "drafter", *engine_flags(run)]
    tokens = run.pick(128, 8)
    say_differing(run, run.bench("chat", prompts, [*pair, *answer_flags(CHAT_POLICIES, tokens)], exact=False))
    for count in run.pick(VOCABULARIES, VOCABULARIES[:2])[1:]:
        flags = [*pair, *answer_flags("chain,default", tokens), "--draft_vocabulary", count]
        run.bench(f"vocabulary_chat_{count}", prompts, flags, exact=False)
