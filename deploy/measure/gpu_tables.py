"""Tables of the GPU report that need figures of their own: long contexts, draft vocabularies, and other engines."""

from collections import defaultdict
from statistics import median

from arms import Answer, Arm, add_answers, arms_table
from program_output import differing_prompts, forward, policies, row_of
from report import number, table

OURS = ("ar", "adaptive", "default")  # The policies that stand beside other engines.
VOCABULARY_NOISE = 0.03  # A draft vocabulary must be faster than all tokens by more than this.


# ---- long contexts ----


def by_length(results: dict) -> dict[int, list[dict]]:
    """For each intended length of the prompts, the rows of program_output.policies() for these prompts alone.

    Each row also has `context`, the tokens of the prompts, and `prefill`, the tokens per second of reading them (medians).
    """
    lengths = sorted({int(prompt["id"].split("-")[0]) for policy in results["policies"] for prompt in policy["prompts"]})
    return {length: _rows_of_length(results, length) for length in lengths}


def _rows_of_length(results: dict, length: int) -> list[dict]:
    chosen = []
    for policy in results["policies"]:
        prompts = [prompt for prompt in policy["prompts"] if prompt["id"].startswith(f"{length}-")]
        tokens = sum(len(prompt["output_token_ids"]) for prompt in prompts)
        cycles = sum(len(prompt["committed_lengths"]) for prompt in prompts)
        rate, tau = tokens / sum(prompt["seconds"] for prompt in prompts), tokens / max(1, cycles)
        chosen.append(policy | {"prompts": prompts, "tokens_per_second": rate, "tau": tau})
    rows = policies({"policies": chosen})
    for row, policy in zip(rows, chosen):
        row["context"] = median(prompt["contexts"][0] for prompt in policy["prompts"])
        read = [
            prompt["contexts"][0] / prompt["prefill_seconds"] for prompt in policy["prompts"] if prompt["prefill_seconds"] > 0
        ]
        row["prefill"] = median(read) if read else None
    return rows


def long_table(results: dict) -> str:
    head = [
        "tokens before",
        "policy",
        "tokens/s",
        "vs ar",
        "τ",
        "nodes",
        "draft ms",
        "verify ms",
        "prefill tokens/s",
        "different texts",
    ]
    rows = [
        [
            number(row["context"], 0),
            row["policy"],
            number(row["rate"], 1),
            number(row["speedup"], 2, "×"),
            number(row["tau"]),
            number(row["nodes"], 1),
            number(row["draft"], 3),
            number(row["verify"], 3),
            number(row["prefill"], 0),
            f"{row['differing']} of {row['prompts']}",
        ]
        for rows_of_length in by_length(results).values()
        for row in rows_of_length
    ]
    return table(head, rows, text_columns=(1,))


# ---- draft vocabularies ----


def vocabulary_rows(found: dict[str, dict]) -> dict[str, list[dict]]:
    """By pair, a row for each draft vocabulary, the whole one (0) first. `found`: results by "PAIR_COUNT"."""
    pairs: dict[str, list[dict]] = defaultdict(list)
    for name, results in found.items():
        pair, count = name.rsplit("_", 1)
        rows = policies(results)
        chain, default = row_of(rows, "chain"), row_of(rows, "default")
        if chain and default:
            pairs[pair].append({"count": int(count), "chain": chain, "default": default})
    for rows in pairs.values():
        rows.sort(key=lambda row: row["count"])
        for row in rows:
            row["relative"] = row["default"]["rate"] / rows[0]["default"]["rate"] if rows[0]["count"] == 0 else None
    return dict(pairs)


def best_vocabulary(rows: list[dict]) -> int:
    """The fastest draft vocabulary for `default`. 0, all tokens, unless another is faster by more than the noise."""
    best = max(rows, key=lambda row: row["default"]["rate"])
    clear = best["relative"] is None or best["relative"] > 1 + VOCABULARY_NOISE
    return best["count"] if clear else 0


def _count(count: int) -> str:
    return f"{count:,}" if count else "all"


def vocabulary_table(pairs: dict[str, list[dict]], names: dict[str, str]) -> str:
    """`pairs`: from vocabulary_rows(). `names`: of the pairs."""
    head = [
        "pair",
        "tokens drafted",
        "draft ms, `chain`",
        "τ `chain`",
        "draft ms, `default`",
        "τ `default`",
        "tokens/s `default`",
        "relative to all tokens",
    ]
    rows = [
        [
            names[pair],
            _count(row["count"]),
            number(row["chain"]["draft"], 3),
            number(row["chain"]["tau"]),
            number(row["default"]["draft"], 3),
            number(row["default"]["tau"]),
            number(row["default"]["rate"], 1),
            number(row["relative"], 2, "×"),
        ]
        for pair, rows in pairs.items()
        for row in rows
    ]
    best = [f"{names[pair]}: {_count(best_vocabulary(rows))}" for pair, rows in pairs.items()]
    rule = f"Another number than all must be more than {100 * VOCABULARY_NOISE:.0f} % faster."
    return "\n".join([table(head, rows), "", f"Best `--draft_vocabulary` for `default`: {'; '.join(best)}. {rule}"])


# ---- other engines ----


def peer_arms(peers: dict, decode: dict) -> tuple[list[Arm], list[Arm]]:
    """The arms of the other engines, and bastion's arms with the same prompts. `decode`: results.json, or {}."""
    theirs = [Arm(arm["name"], [Answer(**answer) for answer in arm["answers"]]) for arm in peers["arms"]]
    chosen = []
    for policy in decode.get("policies", []):
        answers = {prompt["id"]: prompt for prompt in policy["prompts"]}
        if policy["policy"] in OURS and all(prompt in answers for prompt in peers["prompts"]):
            chosen.append({"policy": policy["policy"], "prompts": [answers[prompt] for prompt in peers["prompts"]]})
    ours: dict[str, Arm] = {}
    add_answers(ours, "bastion", {"policies": chosen})
    return theirs, list(ours.values())


def peer_steps_table(peers: dict, roofline: dict) -> str:
    rows = []
    for step in peers["steps"]:
        ours = forward(roofline, 1, step["context"])
        own = 1e3 * ours["seconds"] if ours else None
        graph = step["graph_ms"]
        cells = [number(step["eager_ms"], 2), number(graph, 2), number(own, 2)]
        rows.append([str(step["context"]), *cells, number(graph / own if graph and own else None, 2, "×")])
    head = ["plain step after", "transformers ms", "transformers as a CUDA graph ms", "bastion ms", "graph / bastion"]
    return table(head, rows)


def peers_text(peers: dict, decode: dict, roofline: dict) -> str:
    """The tables of the other engines, and what was left out."""
    parts = [f"transformers {peers['transformers']}, torch {peers['torch']}, bf16, the same weights."]
    if peers["steps"]:
        parts.append(peer_steps_table(peers, roofline))
    theirs, ours = peer_arms(peers, decode)
    if theirs:
        parts.append(
            f"One request at a time; prompts: {len(peers['prompts'])}. Rates exclude prefill; those of DDTree's code, also the first draft."
        )
        parts.append(arms_table([*theirs, *ours], max(theirs, key=Arm.rate)))
    parts += [f"Left out: {part}: {why}." for part, why in peers["left_out"].items()]
    return "\n\n".join(parts)


# ---- texts ----


def differing_count(found: dict, size: str) -> tuple[int, list[str]]:
    """Answers of one pair in process that differ from plain decoding: their number, and where they were.

    A prompt counts once for each kind of run, however many policies differ.
    """
    count, where = 0, []
    for kind in ("decode", "sampled", "int8", "long"):
        if results := found[kind].get(size):
            differing = {name: prompts for name, prompts in differing_prompts(results).items() if prompts}
            count += len({prompt for prompts in differing.values() for prompt in prompts})
            where += [f"{kind}: {', '.join(differing)}"] if differing else []
    for kind in ("load", "sampled_load"):
        different = found[kind].get(size, {}).get("outputs", {}).get("different", 0)
        count += different
        where += [kind.replace("_", " ")] if different else []
    return count, where
