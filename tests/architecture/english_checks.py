"""Checks that comments, messages, flags and documents avoid phrases that readers had to read twice."""

import re

from source import Finding

# Words and phrases to avoid.
_WORDS = re.compile(
    r"\b(who" r"ever|no" r"body|a" r"new|he" r"eds?|st" r"ands)\b"
    r"|\bas they " r"come\b|\bso " r"many\b|\bof " r"which\b|\btakes " r"up\b|\bis " r"had\b"
    r"|\bthe " r"like\b|\bmakes " r"do\b", re.IGNORECASE)
# A comment, a docstring or a flag's help text that begins with "Of".
_FRAGMENT = re.compile(r"(?://+!?<?|#+|\"\"\"|/\*+)\s*O" r"f\b|^\s*\"O" r"f\s|,\s*\"O" r"f\s[^\"]*\"\)")

# Data files, which this project did not write or must not change.
_DATA = ("deploy/demo_model/target/", "deploy/demo_model/drafter/", "deploy/demo_model_neox/target/",
         "deploy/demo_model_neox/drafter/", "tests/parity/goldens/")


def plain_english(files):
    """No text uses the phrases above, and no comment begins with the fragment above."""
    for file in files:
        if file.path.startswith(_DATA):
            continue
        for number, line in enumerate(file.lines, 1):
            if found := _WORDS.search(line):
                yield Finding(file.path, number, f"avoid '{found.group()}'; say it in plain English")
            if file.is_code and _FRAGMENT.search(line):
                yield Finding(file.path, number, "a comment begins with a fragment ('O" "f ...')")
