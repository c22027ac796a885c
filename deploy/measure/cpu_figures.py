#!/usr/bin/env python3
"""Measures all figures of this project on this machine's CPU, and compares them with their bars.

    build/venv/bin/python deploy/measure/cpu_figures.py --out DIR [--quick] [--only SECTION,...]

Writes DIR/figures.md (a table of bars and one part per section), DIR/figures.json and plots. The
output of the programs stays in DIR/raw. Sections run one after another. If a section cannot run, the
report says why, and the other sections still run. With --only, DIR keeps the other sections of an
earlier run. Run it on an idle machine. README.md in this folder explains the figures.

Exit status: 0 if every bar that was judged is met and no section failed.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import cpu_report
import plots
from cpu_sections import SECTIONS, CpuRun
from report import bars_table
from runner import PROGRAMS, MeasureError, NotRun


class OtherLoad:
    """Measures the CPU time that other programs and other virtual machines of the host use after construction."""

    def __init__(self):
        self._began = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds of all CPUs: total, busy, and used by this process and its children."""
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(used.ru_utime + used.ru_stime for used in ours)

    def share(self) -> float:
        """The share (0 to 1) of all CPU time that others used."""
        whole, busy, ours = (now - then for now, then in zip(self._read(), self._began))
        return max(0.0, busy - ours) / max(whole, 1e-9)


def run_section(name: str, run: CpuRun) -> dict:
    began, load = time.monotonic(), OtherLoad()
    section = {
        "why": "",
        "measured": {},
        "numbers": {},
        "text": "",
        "quick": run.quick,
        "when": time.strftime("%Y-%m-%d %H:%M"),
    }
    try:
        section |= SECTIONS[name][1](run)
    except NotRun as error:
        section["why"] = f"not run: {error}"
    except (MeasureError, OSError) as error:
        section["why"] = f"failed: {error}"
    except (ValueError, KeyError, StopIteration) as error:  # A program's output was not what the section expects.
        section["why"] = f"failed: {error!r}"
    return section | {"seconds": time.monotonic() - began, "others": load.share()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what to measure")
    what.add_argument(
        "--only",
        default=",".join(SECTIONS),
        metavar="SECTION,...",
        help=f"comma-separated sections. Default: all of {', '.join(SECTIONS)}",
    )
    what.add_argument("--quick", action="store_true", help="fewer prompts and tokens: about 7 minutes on two cores")
    what.add_argument("--threads", type=int, default=2, help="threads of each engine. Default: 2")
    files = parser.add_argument_group("files")
    files.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the report and the raw output")
    files.add_argument(
        "--inflated",
        type=Path,
        metavar="DIR",
        help="a pair that inflate.py made with --profile cpu-1b. Default: make a pair in OUT/inflated",
    )
    files.add_argument(
        "--programs",
        type=Path,
        default=PROGRAMS,
        metavar="DIR",
        help="folder with bastion-bench and the services. Default: build/release/bin",
    )
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(SECTIONS):
        parser.error(f"--only: unknown section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    if not plots.is_available():
        parser.error(f"{sys.executable} has no matplotlib: use build/venv/bin/python (created by deploy/local/setup.sh)")
    return args


def run_sections(run: CpuRun, chosen: list[str], out: Path) -> bool:
    """Runs the sections and rewrites the report after each. Returns False if a bar was missed or a section failed."""
    file = out / "figures.json"
    sections = json.loads(file.read_text())["sections"] if file.exists() else {}
    titles, verdicts = {name: title for name, (title, _) in SECTIONS.items()}, []
    for index, name in enumerate(chosen, 1):
        print(f"[{index}/{len(chosen)}] {name}: {SECTIONS[name][0]}", flush=True)
        sections[name] = run_section(name, run)
        device = sections.get("machine", {}).get("numbers", {}).get("device", "")
        settings = f"{device or 'CPU: run section machine'}; {run.threads} threads; {'with' if run.amx else 'without'} AMX"
        verdicts = cpu_report.write({"device": device, "amx": run.amx, "settings": settings, "sections": sections}, titles, out)
        print(f"      {cpu_report.circumstances(sections[name])} {sections[name]['why']}", flush=True)
    print(bars_table(verdicts) + f"\n\n{out / 'figures.md'}")
    return cpu_report.all_met({name: sections[name] for name in chosen}, run.amx)


def main() -> int:
    args = arguments()
    run = CpuRun(
        programs=args.programs.resolve(),
        raw=args.out / "raw",
        quick=args.quick,
        out=args.out,
        threads=args.threads,
        given_pair=args.inflated,
    )
    run.raw.mkdir(parents=True, exist_ok=True)
    try:
        return 0 if run_sections(run, args.only.split(","), args.out) else 1
    finally:
        run.stop_all()


if __name__ == "__main__":
    sys.exit(main())
