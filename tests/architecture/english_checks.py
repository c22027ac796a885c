"""Checks that comments, messages, flags and documents avoid phrases that readers had to read twice."""

import pathlib
import re

from source import Finding

_LINES = (pathlib.Path(__file__).parent / "avoided_words.txt").read_text(encoding="utf-8").splitlines()
AVOIDED = [line for line in _LINES if line and not line.startswith("#")]
_WORDS = re.compile(rf"\b({'|'.join(AVOIDED)})\b", re.IGNORECASE)
# A comment, a docstring or a flag's help text that begins with "Of".
_FRAGMENT = re.compile(r"(?://+!?<?|#+|\"\"\"|/\*+)\s*O" r"f\b|^\s*\"O" r"f\s|,\s*\"O" r"f\s[^\"]*\"\)")

# Data files, which this project did not write or must not change.
_DATA = (
    "deploy/demo_model/target/",
    "deploy/demo_model/drafter/",
    "deploy/demo_drafters/autoregressive/",
    "deploy/demo_drafters/eagle3/",
    "deploy/demo_drafters/specblock/",
    "deploy/demo_model_neox/target/",
    "deploy/demo_model_neox/drafter/",
    "tests/parity/goldens/",
)


def plain_english(files):
    """No text uses the phrases in avoided_words.txt, and no comment begins with the fragment above."""
    for file in files:
        if file.path.startswith(_DATA):
            continue
        for number, line in enumerate(file.lines, 1):
            if found := _WORDS.search(line):
                yield Finding(file.path, number, f"avoid '{found.group()}'; say it in plain English")
            if file.is_code and _FRAGMENT.search(line):
                yield Finding(file.path, number, "a comment begins with a fragment ('Of ...')")
