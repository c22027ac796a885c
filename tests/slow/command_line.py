"""What the tests of this folder do before they run: read the command line of tests/slow.sh, and build."""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those that cmake --install installs.
PROGRAMS = [
    "bastion-orchestrator",
    "bastion-verifier",
    "bastion-drafter",
    "bastionctl",
    "bastion-bench",
    "bastion-doctor",
    "bastion-train",
    "bastion-verify-exactness",
]


def parse_arguments():
    """The folders --bin (programs) and --out (logs and pictures). Leaves the other arguments to unittest.main()."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    arguments, sys.argv[1:] = parser.parse_known_args()
    return arguments


def build_programs(preset, *programs):
    """Builds `programs` into build/PRESET/bin. Ends this process if that fails; the build has said why."""
    built = subprocess.run([ROOT / "deploy/local/build.sh", preset, *programs], check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)


def build_chart_tools():
    """Builds helm, kube-score and a reader of Compose files, and returns their folder."""
    built = subprocess.run([ROOT / "tests/kubernetes/build_tools.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(built.stdout.strip())
