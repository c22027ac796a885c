#!/usr/bin/env python3
"""Every figure of this project on this machine, beside what is required of it, with one command.

    build/venv/bin/python client/bench/figures.py --out DIR [--only SECTION,…] [--quick] [--inflated DIR] [--threads N]

writes DIR/figures.md (a table of bars, then a section each), DIR/figures.json, plots, and what every program said in DIR/raw.
Sections run one after another; one whose needs are missing says so, and the others go on. With --only the other sections of an
earlier run into DIR are kept. Exit status 0: every bar that ran is met. Run it on a quiet machine: README.md in this folder.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import figures_bars as bars
import figures_page as page
from compare_common import CompareError
from figures_sections import SECTIONS, Failed, NotRun, Run


class Bystanders:
    """The CPU time of others between two readings: of programs that we did not start, and of the host's other guests."""

    def __init__(self):
        self._began = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds of all CPUs, of those that somebody used, of those that we used."""
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(used.ru_utime + used.ru_stime for used in ours)

    def share(self) -> float:
        """Of all CPU time since the start."""
        whole, busy, ours = (now - then for now, then in zip(self._read(), self._began))
        return max(0.0, busy - ours) / max(whole, 1e-9)


def run_section(name: str, run: Run) -> dict:
    began, bystanders = time.monotonic(), Bystanders()
    section = {"why": "", "measured": {}, "numbers": {}, "text": "", "quick": run.quick, "when": time.strftime("%Y-%m-%d %H:%M")}
    try:
        section |= SECTIONS[name][1](run)
    except NotRun as error:
        section["why"] = f"not run here: {error}"
    except (Failed, CompareError, OSError, ValueError, KeyError, StopIteration) as error:
        section["why"] = f"failed: {error if isinstance(error, (Failed, CompareError, OSError)) else repr(error)}"
    section |= {"seconds": time.monotonic() - began, "others": bystanders.share()}
    return section


def write(report: dict, out: Path) -> None:
    (out / "figures.json").write_text(json.dumps(report, indent=1) + "\n")
    titles = {name: title for name, (title, _) in SECTIONS.items()}
    (out / "figures.md").write_text(page.markdown(report, titles, page.draw(report, out)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for everything")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections, comma-separated, of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="fewer prompts and tokens: about 7 minutes on two cores")
    parser.add_argument("--inflated", type=Path, help="a pair of inflate.py's cpu-1b; else it is made in OUT/inflated")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"--only: no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    run, file = Run(args), args.out / "figures.json"
    sections = json.loads(file.read_text())["sections"] if file.exists() else {}
    for index, name in enumerate(chosen, 1):
        print(f"[{index}/{len(chosen)}] {name}: {SECTIONS[name][0]}", flush=True)
        sections[name] = run_section(name, run)
        device = sections.get("machine", {}).get("numbers", {}).get("device", "")
        settings = f"{device or 'CPU: run section machine'}; {run.threads} threads; {'with' if run.amx else 'without'} AMX"
        report = {"device": device, "amx": run.amx, "settings": settings, "sections": sections}
        write(report, args.out)
        print(f"      {page.circumstances(sections[name])} {sections[name]['why']}", flush=True)
    print(page.bars_table(report) + f"\n\n{args.out / 'figures.md'}")
    return 0 if bars.all_met({name: sections[name] for name in chosen}, run.amx) else 1


if __name__ == "__main__":
    sys.exit(main())
