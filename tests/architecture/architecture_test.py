"""Runs every check in checks.CHECKS on the tree and prints the findings as file:line: message."""

import os
import sys

import checks
import source


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.chdir(root)
    files = source.read_tree(root)
    total = 0
    for check in checks.CHECKS:
        found = sorted(check(files), key=str)
        total += len(found)
        for finding in found:
            print(finding)
        print(f"{check.__name__}: {len(found)} findings in {len(files)} files")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
