#!/usr/bin/env python3
"""Writes the report of a bastion-bench run. bastion-bench starts this script after each measurement.

    bench_report.py FOLDER                        reads FOLDER/measurements.json, and writes the report to FOLDER
    bench_report.py --tables FOLDER               only prints the tables
    bench_report.py --merge FOLDER... [--report OUT]    joins reports of one suite, made on several machines

The report of a comparison and of a suite is results.json (figures for programs), report.md, and plots (plots.py, with
matplotlib). That of --roofline is roofline.json and roofline.md, that of --rejection_sampling is rejection_sampling.json and
rejection_sampling.md, and that of --replay is replay.json. The tables are also printed. README.md describes measurements.json.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bench_tables
import comparison_report
import suite_report
from chart_style import is_available
from plots import draw_bench_report

# The version of measurements.json.
FORMAT = 1


class Unreadable(Exception):
    """There is no report to make. The text says why."""


@dataclass(frozen=True)
class Report:
    printed: str  # What appears on the screen.
    files: dict[str, str]  # Content by name.
    results: dict | None = None  # What plots.py draws. None: there are no plots.


def comparison(measurements: dict) -> Report:
    results = comparison_report.results(measurements)
    files = {"results.json": _dump(results), "report.md": comparison_report.markdown(measurements)}
    printed = f"{comparison_report.tables(measurements)}\n{comparison_report.ablation_table(measurements)}"
    return Report(printed, files, results)


def suite(measurements: dict) -> Report:
    return _suite(suite_report.results(measurements))


def _suite(results: dict) -> Report:
    text = suite_report.markdown(results)
    return Report(text, {"results.json": _dump(results), "report.md": text}, results)


def roofline(measurements: dict) -> Report:
    text = bench_tables.roofline(measurements)
    return Report(text, {"roofline.json": _dump(measurements), "roofline.md": text})


def replay(measurements: dict) -> Report:
    return Report(bench_tables.replay(measurements), {"replay.json": _dump(measurements)})


def rejection_sampling(measurements: dict) -> Report:
    text = bench_tables.rejection_sampling(measurements)
    return Report(text, {"rejection_sampling.json": _dump(measurements), "rejection_sampling.md": text})


_MAKERS = (comparison, suite, roofline, replay, rejection_sampling)
KINDS: dict[str, Callable[[dict], Report]] = {each.__name__: each for each in _MAKERS}


def _dump(content: dict) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)


def read(file: Path) -> Report:
    """The report of the measurements in `file`."""
    try:
        measurements = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot read {file}: {error}") from error
    kind = measurements.pop("kind", "")
    if measurements.pop("format", 0) != FORMAT or kind not in KINDS:
        raise Unreadable(f"{file} is not a file of measurements of this version: run bastion-bench again")
    return KINDS[kind](measurements)


def write(report: Report, folder: Path) -> None:
    """Writes the report to `folder`. Without matplotlib, it has no plots."""
    for name, content in report.files.items():
        (folder / name).write_text(content)
    if report.results is None:
        return
    if is_available():
        print("\n".join(map(str, draw_bench_report(report.results, folder))))
    else:
        print(
            f"bench_report: no plots: {sys.executable} has no matplotlib (deploy/local/setup.sh installs one)", file=sys.stderr
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--tables", action="store_true", help="only print the tables")
    parser.add_argument("--merge", action="store_true", help="join the reports of a suite in the folders to one")
    parser.add_argument("--report", type=Path, help="folder of the merged report. Default: only print its tables")
    args = parser.parse_args()
    if len(args.folders) > 1 and not args.merge:
        parser.error("several folders need --merge")
    try:
        report = _suite(suite_report.merge(args.folders)) if args.merge else read(args.folders[0] / "measurements.json")
        print(report.printed, end="", flush=True)
        folder = args.report if args.merge else args.folders[0]
        if folder and not args.tables:
            folder.mkdir(parents=True, exist_ok=True)
            write(report, folder)
    except (Unreadable, suite_report.NotASuite, OSError) as error:
        print(f"bench_report: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
