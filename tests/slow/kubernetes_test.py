#!/usr/bin/env python3
"""Tests the Helm chart with a real control plane of Kubernetes (tests/kubernetes/run.sh).

watches: deploy/helm tests/kubernetes
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.parse_args()
    sys.exit(subprocess.run([ROOT / "tests/kubernetes/run.sh"], check=False).returncode)
