#!/usr/bin/env python3
"""gpu_results.json, gpu_results.md and gpu_raw.tar.gz out of the raw output of tests/gpu/run.sh.

    tests/gpu/report.py --out DIR RAW…

RAW: a folder of raw output or a gpu_raw.tar.gz; of several, what a later one has takes the place of an earlier one's. Needs
nothing but Python; two plots come with matplotlib.
"""

import argparse
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import report_figures as figures
import report_plots as plots

NO_GPU = "**No GPU was used: this shows that the script works; no figure in it says anything.**"
SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Not in Debian 12's Python.
SHARES_OF_ROWS = (1, 32, 64)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def bars_table(bars: list[dict]) -> str:
    said = lambda bar: bar["measured"] + (f" ({bar['note']})" if bar["note"] else "")  # noqa: E731
    return table(["bar", "required", "measured", "verdict"], [[bar["what"], bar["required"], said(bar), bar["verdict"]]
                                                             for bar in bars])


def steps_table(steps: dict) -> str:
    return table(["seconds", "of", "step"], [[number(step["seconds"], 1), number(step["limit"], 0),
                                              f"{name}: {step['status']}" + (f", {step['why']}" if step["why"] else "")]
                                             for name, step in steps.items()]).replace("---|--:|--:|", "--:|--:|---|")


def tests_text(programs: dict) -> str:
    rows = [[name, *(str(end.get(kind, "–")) for kind in ("passed", "failed", "skipped")), str(end["status"]),
             number(end["seconds"], 1)] for name, end in programs.items()]
    names = [f"- {name}: {test}" for name, end in programs.items() for test in end.get("names", []) if "failed" in test]
    return "\n".join([table(["program", "passed", "failed", "skipped", "status", "seconds"], rows), "", *names[:40]]).strip()


def decode_table(roofline: dict) -> str:
    rows = [[str(entry["context"]), number(entry["bytes"] / 1e6, 0), number(1e3 * entry["bound_seconds"], 3),
             number(1e3 * entry["seconds"], 3), percent(entry["bound_seconds"] / entry["seconds"])]
            for entry in roofline["forwards"] if entry["forward"] == "decode"]
    return table(["plain step after", "MB", "bound ms", "measured ms", "share of bound"], rows)


def verify_table(roofline: dict) -> str:
    entries = [entry for entry in roofline["forwards"] if entry["forward"] != "draft"]
    contexts = sorted({entry["context"] for entry in entries})

    def cell(rows: int, context: int) -> str:
        entry, one = (figures.forward(roofline, count, context) for count in (rows, 1))
        if entry is None:
            return "–"
        return f"{1e3 * entry['seconds']:.3f}" + (f", {entry['seconds'] / one['seconds']:.2f}×" if one else "")

    return table(["rows; ms, against one row", *(f"after {context}" for context in contexts)],
                 [[str(rows), *(cell(rows, context) for context in contexts)] for rows in sorted({e["rows"] for e in entries})])


def policies_table(rows: list[dict]) -> str:
    head = ["policy", "tokens/s", "vs ar", "of the ideal", "τ", "nodes", "draft ms", "verify ms", "verify predicted ±",
            "other texts"]
    return table(head, [[row["policy"], number(row["rate"], 1), number(row["speedup"], 2, "×"),
                         f"{percent(row['share'])} of {number(row['ideal'])}×", number(row["tau"]), number(row["nodes"], 1),
                         number(row["draft"], 3), number(row["verify"], 3), percent(row["prediction_error"]),
                         f"{row['differing']} of {row['prompts']}"] for row in rows])


def predictions_table(rows: list[dict]) -> str:
    return table(["rows", "cycles", "predicted ms", "measured ms", "off by"],
                 [[str(row["rows"]), str(row["cycles"]), number(row["predicted"], 3), number(row["measured"], 3),
                   percent(row["error"])] for row in rows])


def sweep_table(entries: list[dict]) -> str:
    """Work by rows."""
    all_rows = sorted({entry["rows"] for entry in entries})
    by_work = {}
    for entry in entries:
        share = f", {percent(entry['share_of_memory'])}" if "share_of_memory" in entry else ""
        by_work.setdefault(entry["work"], {})[entry["rows"]] = f"{entry['us']:.2f}{share}"
    return table(["µs, share of the memory's bandwidth; rows", *map(str, all_rows)],
                 [[work, *(cells.get(rows, "–") for rows in all_rows)] for work, cells in by_work.items()])


def shares_table(shares: list[dict]) -> str:
    names = list(shares[0]["kernels"])
    rows = [[name, *(f"{share['kernels'][name]:.0f} µs, {percent(share['kernels'][name] / share['sum'])}" for share in shares)]
            for name in names]
    rows.append(["sum", *(f"{share['sum']:.0f} µs" for share in shares)])
    rows.append(["measured step", *(number(share["measured"], 0, " µs") for share in shares)])
    return table(["Qwen3-8B shape after 2048 tokens", *(f"{share['rows']} rows" for share in shares)], rows)


def pair_name(size: str, machine: dict) -> str:
    """Of a heading."""
    if size == "demo":
        return "demo pair, fp32"
    return f"{size.upper()} pair, made smaller" if machine.get("shape") else f"Qwen3-{size.upper()} shape"


def sections(found: dict) -> list[str]:
    """Markdown of whatever ran."""
    parts, name = [], lambda size: pair_name(size, found["machine"])
    if found["kernels"]:
        parts += ["## Tests", tests_text(found["kernels"])]
    for size, roofline in found["roofline"].items():
        parts += [f"## Forwards, {name(size)}", roofline["device"], decode_table(roofline), verify_table(roofline)]
    for size, results in found["decode"].items():
        parts += [f"## Policies in process, {name(size)}", policies_table(figures.policies(results)),
                  "Verifies of all policies, predicted and measured:", predictions_table(figures.predictions(results))]
    for size, results in found["services"].items():
        parts += [f"## Through three services, {name(size)}", policies_table(figures.policies(results))]
    shares = [share for rows in SHARES_OF_ROWS if (share := figures.kernel_shares(found, rows))]
    if shares:
        parts += ["## Kernels of a step, by the sweep", shares_table(shares)]
    for part in figures.SWEEPS:
        entries = [entry for entry in found["sweep"].get("figures", []) if entry["part"] == part]
        if entries:
            parts += [f"## Sweep: {part}", sweep_table(entries)]
    return parts


def facts(machine: dict) -> str:
    names = {"gpus": "GPU", "cpu": "host", "cores": "cores", "torch": "torch", "python": "Python", "kernel": "Linux",
             "built": "programs of commit", "shape": "pairs with", "parts": "parts"}
    told = {name: machine.get(key) for key, name in names.items()}
    return "; ".join(f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in told.items() if value)


def markdown(found: dict, bars: list[dict], pictures: list[Path]) -> str:
    machine = found["machine"]
    parts = [f"# GPU results: {figures.device_name(found)}",
             f"{'Short run' if machine.get('quick') else 'Run'} of {machine.get('when', 'an unknown day')}. {facts(machine)}."]
    parts += [NO_GPU] if machine.get("device") != "cuda" else []
    parts += [bars_table(bars), steps_table(found["steps"]), *(f"![{path.stem}]({path.name})" for path in pictures)]
    return "\n\n".join(parts + sections(found)) + "\n"


def numbers(found: dict, bars: list[dict]) -> dict:
    """gpu_results.json: what the tables show, and the sweep and the forwards as they were measured."""
    rows = lambda kind: {size: figures.policies(results) for size, results in found[kind].items()}  # noqa: E731
    return {"device": figures.device_name(found), "machine": found["machine"], "steps": found["steps"], "bars": bars,
            "kernels": found["kernels"], "sweep": found["sweep"], "roofline": found["roofline"], "policies": rows("decode"),
            "predictions": {size: figures.predictions(results) for size, results in found["decode"].items()},
            "services": rows("services"),
            "kernel_shares": [share for count in SHARES_OF_ROWS if (share := figures.kernel_shares(found, count))]}


def merge_json(path: Path, more: Path) -> None:
    """steps.json alone is of all runs together."""
    old, new = figures.load_json(path) or {}, figures.load_json(more) or {}
    path.write_text(json.dumps({**old, **new}, indent=1))


def gather(sources: list[Path], raw: Path) -> None:
    """Copies or unpacks the sources into `raw`, one over the other."""
    for index, source in enumerate(sources):
        folder = source
        if source.is_file():
            folder = raw.parent / f"source_{index}"
            with tarfile.open(source) as tar:
                tar.extractall(folder, **SAFELY)
            folder = folder / "raw"
        if not folder.is_dir():
            raise FileNotFoundError(f"{source}: no raw output of tests/gpu/run.sh")
        for step in folder.iterdir():
            if step.is_dir():
                shutil.rmtree(raw / step.name, ignore_errors=True)
                shutil.copytree(step, raw / step.name)
            elif step.name == "steps.json":
                merge_json(raw / step.name, step)
            else:
                shutil.copy(step, raw / step.name)


def write(sources: list[Path], out: Path, with_plots: bool = True) -> None:
    """The whole report into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        raw = Path(work) / "raw"
        raw.mkdir()
        gather(sources, raw)
        with tarfile.open(Path(work) / "raw.tar.gz", "w:gz") as tar:
            tar.add(raw, "raw")
        shutil.copyfile(Path(work) / "raw.tar.gz", out / "gpu_raw.tar.gz")
        found = figures.load(raw)
    bars = figures.judged(found)
    (out / "gpu_results.json").write_text(json.dumps(numbers(found, bars), indent=1) + "\n")
    pictures = plots.draw(found, out) if with_plots else []
    (out / "gpu_results.md").write_text(markdown(found, bars, pictures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("raw", type=Path, nargs="+")
    args = parser.parse_args()
    try:
        write(args.raw, args.out)
    except (OSError, tarfile.TarError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(args.out / "gpu_results.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
