#!/usr/bin/env python3
"""Checks the machine code of kernels: on sm_90a, products use its matrix instructions and its copies of tiles.

    tests/kernels/cuda/instructions_test.py CUDA_BIN BUILD_FOLDER

CUDA_BIN has cuobjdump and nvdisasm. On other GPUs, the kernels must not contain these instructions.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

OBJECT = "kernels/cuda/product/warpgroup_product.cu.o"
KERNEL = "WarpgroupKernel"
# The products of a warpgroup and the copies of tiles, of two dimensions and of four.
WANTED = ("HGMMA", "UTMALDG.2D", "UTMALDG.4D")


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
    for arch in ("sm_80", "sm_90a"):
        found = {name: code for name, code in kernels(cuda_bin, build / OBJECT, arch).items() if KERNEL in name}
        if not found:
            sys.exit(f"{OBJECT} has no {KERNEL} for {arch}")
        for name, code in found.items():
            for instruction in WANTED:
                if (instruction in code) != (arch == "sm_90a"):
                    failed += 1
                    print(f"{arch}: {name} has {'no' if arch == 'sm_90a' else 'an'} instruction {instruction}")
        print(f"{arch}: {len(found)} kernels")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
