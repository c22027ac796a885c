#!/usr/bin/env python3
"""Builds the wheel of client/python and installs it into a fresh virtual environment.

usage: install_wheel.py FOLDER [PACKAGE…]

FOLDER/venv is the environment. It also gets the packages. Nothing is downloaded: setup.sh has fetched the dependencies to
build/wheels. Run it with build/venv/bin/python, which has what builds wheels.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-index")


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            *OPTIONS,
            "--no-build-isolation",
            "--no-deps",
            "--wheel-dir",
            folder,
            ROOT / "client/python",
        ],
        check=True,
    )
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "venv"], check=True)
    subprocess.run(
        [
            folder / "venv/bin/pip",
            "install",
            *OPTIONS,
            "--find-links",
            ROOT / "build/wheels",
            *folder.glob("*.whl"),
            *sys.argv[2:],
        ],
        check=True,
    )


if __name__ == "__main__":
    main()
