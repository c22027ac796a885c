"""Checks that comments, flags and documents avoid the idiom that stopped readers."""

import re

from source import Offence

# Words and phrases that plain American English does without.
_WORDS = re.compile(
    r"\b(who" r"ever|no" r"body|a" r"new|he" r"eds?|st" r"ands)\b"
    r"|\bas they " r"come\b|\bso " r"many\b|\bof " r"which\b|\btakes " r"up\b|\bis " r"had\b"
    r"|\bthe " r"like\b|\bmakes " r"do\b", re.IGNORECASE)
# A comment, a docstring or a flag's help that begins with a fragment.
_FRAGMENT = re.compile(r"(?://+!?<?|#+|\"\"\"|/\*+)\s*O" r"f\b|^\s*\"O" r"f\s|,\s*\"O" r"f\s[^\"]*\"\)")

# Texts that are data: they are not written by the project or must stay as they are.
_DATA = ("deploy/demo_model/target/", "deploy/demo_model/drafter/", "tests/parity/goldens/")


def plain_english(files):
    """No comment, message or page uses the words above or begins with a fragment."""
    for file in files:
        if file.path.startswith(_DATA):
            continue
        for number, line in enumerate(file.lines, 1):
            if found := _WORDS.search(line):
                yield Offence(file.path, number, f"plain English does without '{found.group()}'")
            if file.is_code and _FRAGMENT.search(line):
                yield Offence(file.path, number, "a comment begins with a fragment ('O" "f ...')")
