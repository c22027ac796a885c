#!/usr/bin/env python3
"""Writes one GPU report from the raw output of one or more runs of tests/gpu/run.sh.

    deploy/measure/gpu_report.py --out DIR FIRST/gpu_raw.tar.gz SECOND/gpu_raw.tar.gz

Writes gpu_results.json, gpu_results.md, gpu_raw.tar.gz and, if this Python has matplotlib, three
plots. If several runs have the same step, the report uses the step of the last run.
"""

import argparse
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import gpu_figures as figures
import gpu_tables
import load_plots
import plots
import report
from bars import Verdict
from loads import LoadArm, add_levels, loads_table
from program_output import contexts, forward, load_json, policies, predictions, row_ratios, target_forwards
from report import number, percent, policies_table, table

NO_GPU = "**No GPU was used. This report shows that the script works; its figures are meaningless.**"
SHARES_OF_ROWS = (1, 32, 64)


def steps_table(steps: dict) -> str:
    return table(
        ["seconds", "planned", "limit", "step"],
        [
            [
                number(step["seconds"], 1),
                number(step.get("planned"), 0),  # Older runs had no plan.
                number(step["limit"], 0),
                f"{name}: {step['status']}" + (f", {step['why']}" if step["why"] else ""),
            ]
            for name, step in steps.items()
        ],
        text_columns=(3,),
    )


def tests_text(programs: dict) -> str:
    rows = [
        [
            name,
            *(str(end.get(kind, "–")) for kind in ("passed", "failed", "skipped")),
            str(end["status"]),
            number(end["seconds"], 1),
        ]
        for name, end in programs.items()
    ]
    names = [f"- {name}: {test}" for name, end in programs.items() for test in end.get("names", []) if "failed" in test]
    return "\n".join([table(["program", "passed", "failed", "skipped", "status", "seconds"], rows), "", *names[:40]]).strip()


def decode_table(roofline: dict) -> str:
    rows = [
        [
            str(entry["context"]),
            number(entry["bytes"] / 1e6, 0),
            number(1e3 * entry["bound_seconds"], 3),
            number(1e3 * entry["seconds"], 3),
            percent(entry["bound_seconds"] / entry["seconds"]),
        ]
        for entry in roofline["forwards"]
        if entry["forward"] == "decode"
    ]
    return table(["plain step after", "MB", "bound ms", "measured ms", "bound / measured"], rows)


def verify_table(roofline: dict) -> str:
    def cell(rows: int, context: int) -> str:
        entry, ratios = forward(roofline, rows, context), row_ratios(roofline, context)
        if entry is None:
            return "–"
        return f"{1e3 * entry['seconds']:.3f}" + (f", {ratios[rows]:.2f}×" if ratios else "")

    return table(
        ["rows; ms, relative to one row", *(f"after {context}" for context in contexts(roofline))],
        [
            [str(rows), *(cell(rows, context) for context in contexts(roofline))]
            for rows in sorted({entry["rows"] for entry in target_forwards(roofline)})
        ],
    )


def predictions_table(rows: list[dict]) -> str:
    return table(
        ["rows", "cycles", "predicted ms", "measured ms", "median error"],
        [
            [
                str(row["rows"]),
                str(row["cycles"]),
                number(row["predicted"], 3),
                number(row["measured"], 3),
                percent(row["error"]),
            ]
            for row in rows
        ],
    )


def sweep_table(entries: list[dict]) -> str:
    """Times by work and number of rows."""
    all_rows = sorted({entry["rows"] for entry in entries})
    by_work: dict[str, dict[int, str]] = {}
    for entry in entries:
        share = f", {percent(entry['share_of_memory'])}" if "share_of_memory" in entry else ""
        by_work.setdefault(entry["work"], {})[entry["rows"]] = f"{entry['us']:.2f}{share}"
    return table(
        ["µs, share of the memory bandwidth; rows", *map(str, all_rows)],
        [[work, *(cells.get(rows, "–") for rows in all_rows)] for work, cells in by_work.items()],
    )


def shares_table(shares: list[dict]) -> str:
    names = list(shares[0]["kernels"])
    rows = [
        [name, *(f"{share['kernels'][name]:.0f} µs, {percent(share['kernels'][name] / share['sum'])}" for share in shares)]
        for name in names
    ]
    rows.append(["sum", *(f"{share['sum']:.0f} µs" for share in shares)])
    rows.append(["measured step", *(number(share["measured"], 0, " µs") for share in shares)])
    return table(["Qwen3-8B shape after 2048 tokens", *(f"{share['rows']} rows" for share in shares)], rows)


def load_table(results: dict) -> str:
    """System throughput by live requests, and how many answers differ."""
    arms: dict[str, LoadArm] = {}
    add_levels(arms, "bastion", results)
    text = loads_table(list(arms.values()), arms["bastion ar"])
    if outputs := results.get("outputs"):
        text += f"\n\n{outputs['different']} of {outputs['compared']} answers differ from another policy's."
    return text


def pair_name(size: str, machine: dict) -> str:
    """The name of a pair in headings."""
    if size == "demo":
        return "demo pair, fp32"
    if size == "chat":
        return "SmolLM2-135M"
    return f"{size.upper()} pair, changed shape" if machine.get("shape") else f"Qwen3-{size.upper()} shape"


def further_sections(found: dict) -> list[str]:
    """The Markdown of temperature 1, long contexts, draft vocabularies, the chat model and other engines."""
    parts, name = [], lambda size: pair_name(size, found["machine"])
    for size, results in found["sampled"].items():
        parts += [f"## At temperature 1 in process, {name(size)}", policies_table(policies(results))]
    for size, results in found["sampled_load"].items():
        parts += [f"## At temperature 1 under load in process, {name(size)}", load_table(results)]
    for size, results in found["int8"].items():
        parts += [f"## With int8 weights in process, {name(size)}", policies_table(policies(results))]
    for size, results in found["long"].items():
        note = "The pair learned 2,048 positions: the times are those of long contexts, τ is not that of a model for them."
        parts += [f"## After long contexts in process, {name(size)}", note, gpu_tables.long_table(results)]
    if pairs := gpu_tables.vocabulary_rows(found["vocabulary"]):
        parts += ["## Draft vocabularies", gpu_tables.vocabulary_table(pairs, {pair: name(pair) for pair in pairs})]
    if found["chat"]:
        parts += [f"## Policies in process, {name('chat')}", policies_table(policies(found["chat"]))]
    for size, peers in found["peers"].items():
        text = gpu_tables.peers_text(peers, found["decode"].get(size, {}), found["roofline"].get(size, {}))
        parts += [f"## Beside other engines, {name(size)}", text]
    return parts


def sections(found: dict) -> list[str]:
    """The Markdown of all parts that ran."""
    parts, name = [], lambda size: pair_name(size, found["machine"])
    if found["steps"]:
        parts += ["## Steps", steps_table(found["steps"])]
    if found["kernels"]:
        parts += ["## Tests", tests_text(found["kernels"])]
    for size, roofline in found["roofline"].items():
        parts += [f"## Forwards, {name(size)}", roofline["device"], decode_table(roofline), verify_table(roofline)]
    for size, results in found["decode"].items():
        parts += [
            f"## Policies in process, {name(size)}",
            policies_table(policies(results)),
            "Verify times of all policies, predicted and measured:",
            predictions_table(predictions(results)),
        ]
    for size, results in found["load"].items():
        parts += [f"## Under load in process, {name(size)}", load_table(results)]
    for size, results in found["services"].items():
        parts += [f"## Through three services, {name(size)}", policies_table(policies(results))]
    parts += further_sections(found)
    shares = [share for rows in SHARES_OF_ROWS if (share := figures.kernel_shares(found, rows))]
    if shares:
        parts += ["## Kernels of a step, according to the sweep", shares_table(shares)]
    for part in figures.SWEEPS:
        entries = [entry for entry in found["sweep"].get("figures", []) if entry["part"] == part]
        if entries:
            parts += [f"## Sweep: {part}", sweep_table(entries)]
    return parts


def facts(machine: dict) -> str:
    names = {
        "gpus": "GPU",
        "cpu": "host",
        "cores": "cores",
        "torch": "torch",
        "python": "Python",
        "kernel": "Linux",
        "built": "programs built from commit",
        "shape": "changes to the pairs' shapes",
        "parts": "parts",
    }
    known = {name: value for key, name in names.items() if (value := machine.get(key))}
    return "; ".join(f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in known.items())


def draw(found: dict, verdicts: list[Verdict], folder: Path) -> list[Path]:
    """The plots of the verify time, for the largest pair that ran, of the speedups, and of the load."""
    size = next((size for size in ("8b", "4b") if size in found["roofline"]), "")
    roofline = found["roofline"].get(size, {})
    # The bar's context comes first, because the plot labels points of the first line.
    ordered = sorted(contexts(roofline), key=lambda context: context != figures.BAR_CONTEXT)
    series = {f"{size.upper()} pair after {context} tokens": row_ratios(roofline, context) for context in ordered}
    verify = next(verdict for verdict in verdicts if verdict.bar.key == "verify")
    limits = {64: verify.bar.limit} if verify.outcome in ("met", "missed") else {}
    title = "tokens/s relative to plain decoding, "
    name = lambda size: pair_name(size, found["machine"])  # noqa: E731
    answers = {name(size): results for size, results in found["decode"].items()}
    answers |= {f"{name(size)}, temperature 1": results for size, results in found["sampled"].items()}
    answers |= {name("chat"): found["chat"]} if found["chat"] else {}
    panels = [plots.speedup_panel(policies(results), title + pair) for pair, results in answers.items()]
    return plots.save(
        {
            "gpu_verify": plots.verify_chart(series, limits, "at most, after 2048 tokens"),
            "gpu_speedups": plots.bar_chart(panels),
            "gpu_load": load_plots.throughput_chart(found["load"].get("8b", {}).get("levels", [])),
        },
        folder,
        figures.device_name(found),
    )


def numbers(found: dict, verdicts: list[Verdict]) -> dict:
    """The content of gpu_results.json: the figures of the tables, and the sweep and the forwards as measured."""
    rows = lambda kind: {size: policies(results) for size, results in found[kind].items()}  # noqa: E731
    return {
        "device": figures.device_name(found),
        "machine": found["machine"],
        "steps": found["steps"],
        "bars": [verdict.as_json() for verdict in verdicts],
        "kernels": found["kernels"],
        "sweep": found["sweep"],
        "roofline": found["roofline"],
        "policies": rows("decode"),
        "predictions": {size: predictions(results) for size, results in found["decode"].items()},
        "load": {size: results["levels"] for size, results in found["load"].items()},
        "services": rows("services"),
        "sampled": rows("sampled"),
        "int8": rows("int8"),
        "sampled_load": {size: results["levels"] for size, results in found["sampled_load"].items()},
        "long": {size: gpu_tables.by_length(results) for size, results in found["long"].items()},
        "vocabulary": gpu_tables.vocabulary_rows(found["vocabulary"]),
        "chat": policies(found["chat"]) if found["chat"] else [],
        "peers": found["peers"],
        "kernel_shares": [share for count in SHARES_OF_ROWS if (share := figures.kernel_shares(found, count))],
    }


def merge_json(path: Path, more: Path) -> None:
    """Adds the entries of `more` to those in `path`."""
    old, new = load_json(path) or {}, load_json(more) or {}
    path.write_text(json.dumps({**old, **new}, indent=1))


def gather(sources: list[Path], raw: Path) -> None:
    """Copies or unpacks the sources into `raw`. A later source replaces steps of an earlier one."""
    for index, source in enumerate(sources):
        folder = source
        if source.is_file():
            folder = raw.parent / f"source_{index}"
            with tarfile.open(source) as tar:
                if hasattr(tarfile, "data_filter"):
                    tar.extractall(folder, filter="data")
                else:  # Debian 12's Python has no filters.
                    tar.extractall(folder)
            folder = folder / "raw"
        if not folder.is_dir():
            raise FileNotFoundError(f"{source} has no raw output from tests/gpu/run.sh")
        for step in folder.iterdir():
            if step.is_dir():
                shutil.rmtree(raw / step.name, ignore_errors=True)
                shutil.copytree(step, raw / step.name)
            elif step.name == "steps.json":
                merge_json(raw / step.name, step)
            else:
                shutil.copy(step, raw / step.name)


def write(sources: list[Path], out: Path, with_plots: bool = True) -> None:
    """Writes the whole report to `out`. `sources`: folders of raw output, or gpu_raw.tar.gz files."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        raw = Path(work) / "raw"
        raw.mkdir()
        gather(sources, raw)
        with tarfile.open(Path(work) / "raw.tar.gz", "w:gz") as tar:
            tar.add(raw, "raw")
        shutil.copyfile(Path(work) / "raw.tar.gz", out / "gpu_raw.tar.gz")
        found = figures.load(raw)
    verdicts, machine = figures.judge_all(found), found["machine"]
    pictures = draw(found, verdicts, out) if with_plots and plots.is_available() else []
    intro = [
        f"{'Short run' if machine.get('quick') else 'Run'} of {machine.get('when', 'an unknown day')}. {facts(machine)}.",
        NO_GPU if machine.get("device") != "cuda" else "",
    ]
    report.write(
        out,
        "gpu_results",
        numbers(found, verdicts),
        report.page(f"GPU results: {figures.device_name(found)}", intro, verdicts, pictures, sections(found)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the report")
    parser.add_argument("raw", type=Path, nargs="+", help="a folder of raw output, or a gpu_raw.tar.gz")
    args = parser.parse_args()
    try:
        write(args.raw, args.out)
    except (OSError, tarfile.TarError) as error:
        print(f"gpu_report: {error}", file=sys.stderr)
        return 1
    print(args.out / "gpu_results.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
