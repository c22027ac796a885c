#!/usr/bin/env python3
"""Checks the ptxas log of every kernel: none spills registers to memory, and products of warpgroups overlap.

    tests/kernels/cuda/registers_test.py BUILD_FOLDER

Reads the logs beside the objects of a build with CUDA (SOURCE.cu.log).
"""

import re
import subprocess
import sys
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
# The compiler says so if it lets a warpgroup wait after each of its products.
SERIALIZED = re.compile(r".*\bC75\d\d\b.*wgmma.*")


def kernels(log: str):
    """Yields (mangled name, architecture, bytes of spill loads, registers) of each kernel."""
    name = arch = ""
    loads = 0
    for line in log.splitlines():
        if entry := ENTRY.search(line):
            name, arch = entry.groups()
        elif spills := SPILLS.search(line):
            loads = int(spills.group(2))
        elif used := USED.search(line):
            yield name, arch, loads, int(used.group(1))


def demangle(names: list[str]) -> list[str]:
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [re.sub(r"\(anonymous namespace\)::", "", name).split("(")[0] for name in done.stdout.split("\n")]


def main() -> None:
    logs = sorted(Path(sys.argv[1]).rglob("*.cu.log"))
    found = [kernel for log in logs for kernel in kernels(log.read_text())]
    if not found:
        sys.exit(f"found no kernels in {len(logs)} logs under {sys.argv[1]}: was it built with CUDA?")
    failed = 0
    for log in logs:
        for line in SERIALIZED.findall(log.read_text()):
            failed += 1
            print(f"{log.name}: {line}")
    for name, (_, arch, loads, registers) in zip(demangle([kernel[0] for kernel in found]), found):
        if loads > 0:
            failed += 1
            print(f"{name} for {arch}: {loads} bytes of spill loads ({registers} registers)")
    print(f"{len(found)} kernels in {len(logs)} files, {failed} faults")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
