#!/usr/bin/env python3
"""Checks the machine code of kernels: on sm_90a, warpgroups use its matrix instructions and its copies of tiles.

    tests/kernels/cuda/instructions_test.py CUDA_BIN BUILD_FOLDER

CUDA_BIN has cuobjdump and nvdisasm. On other GPUs, the kernels must not contain these instructions.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# Kernels of an object, and their instructions: the products of a warpgroup, the copies of tiles of two dimensions and
# of four, and the exchange of registers.
WANTED = {
    ("kernels/cuda/product/warpgroup_product.cu.o", "WarpgroupKernel"): ("HGMMA", "UTMALDG.2D", "UTMALDG.4D"),
    ("kernels/cuda/attention/attention_warpgroup.cu.o", "WarpgroupPrefixKernel"): (
        "HGMMA",
        "UTMALDG.2D",
        "USETMAXREG",
    ),
}


def kernels(cuda_bin: str, object_file: Path, arch: str) -> dict[str, str]:
    """The machine code of each kernel of an object, by mangled name."""
    done = subprocess.run(
        [f"{cuda_bin}/cuobjdump", "-sass", "-arch", arch, object_file],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{cuda_bin}:{os.environ['PATH']}"},
    )
    parts = re.split(r"Function : (\S+)", done.stdout)
    return dict(zip(parts[1::2], parts[2::2]))


def main() -> None:
    cuda_bin, build = sys.argv[1], Path(sys.argv[2])
    failed = 0
    for (source, kernel), wanted in WANTED.items():
        for arch in ("sm_80", "sm_90a"):
            found = {name: code for name, code in kernels(cuda_bin, build / source, arch).items() if kernel in name}
            if not found:
                sys.exit(f"{source} has no {kernel} for {arch}")
            for name, code in found.items():
                for instruction in wanted:
                    if (instruction in code) != (arch == "sm_90a"):
                        failed += 1
                        print(f"{arch}: {name} has {'no' if arch == 'sm_90a' else 'an'} instruction {instruction}")
            print(f"{arch}: {len(found)} kernels {kernel}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
