"""Runs every check of checks.py over the tree; prints offenders as file:line: what."""

import os
import sys

import checks
import source


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.chdir(root)
    files = source.read_tree(root)
    offences = 0
    for check in checks.CHECKS:
        found = sorted(check(files), key=str)
        offences += len(found)
        for offence in found:
            print(offence)
        print(f"{check.__name__}: {len(found)} offences in {len(files)} files")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
