"""Reads the files of the tree, and finds functions and structs in C++ files."""

import collections
import dataclasses
import os
import re

import rules


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}"


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    line: int
    parameters: int
    body_lines: int  # 0 for a declaration.


@dataclasses.dataclass(frozen=True)
class Struct:
    name: str
    line: int
    fields: int


class File:
    """One file: its path from the root with forward slashes, and its text."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()

    @property
    def is_cpp(self):
        return self.path.endswith((".h", ".cc", ".cu", ".cuh"))

    @property
    def is_code(self):
        return self.path.endswith(rules.CODE_SUFFIXES) or self.path.endswith("CMakeLists.txt")

    def includes(self):
        """Yields (line, path) of every #include. Paths of this project begin at its root."""
        for number, line in enumerate(self.lines, 1):
            if match := re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line):
                path = match.group(1)
                prefixes = [prefix for prefix in rules.INCLUDE_ROOTS if path.startswith(prefix)]
                yield number, rules.INCLUDE_ROOTS.get(max(prefixes, key=len, default=""), "") + path


def read_tree(root):
    """Every text file below root that belongs to the project."""
    files = []
    for folder, names, leaves in os.walk(root):
        names[:] = sorted(n for n in names if n not in rules.SKIPPED_FOLDERS)
        for leaf in sorted(leaves):
            full = os.path.join(folder, leaf)
            path = os.path.relpath(full, root).replace(os.sep, "/")
            if leaf.endswith((*rules.CODE_SUFFIXES, ".md", "CMakeLists.txt")):
                with open(full, encoding="utf-8") as file:
                    files.append(File(path, file.read()))
    return files


_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)


def skeleton(text):
    """Removes comments, literals and preprocessor lines from C++. Line numbers do not change."""

    def blank(match):
        piece = match.group(0)
        filler = '""' if piece[0] in "\"'R" else ""
        return filler + "\n" * piece.count("\n")

    return _NOISE.sub(blank, re.sub(r"(?<=\d)'(?=\d)", "", text))


def _matching(text, at, opening, closing):
    depth = 0
    for i in range(at, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def _split(text):
    """Splits text at commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and text[i - 1 : i + 1] != "->":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


_CALLABLE = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+|\w[\w:]*)|~?[A-Za-z_]\w*)\s*$")
_NO_FUNCTION = re.compile(r"^\s*(using|typedef|static_assert|friend\s+class|return)\b|^[^(]*=")


def _callable(head):
    """The name and the number of parameters if head is the head of a function, else None."""
    head = re.sub(r"\[\[.*?\]\]|\b__\w+__\s*\([^()]*\)", "", head)  # Removes __launch_bounds__(128).
    if _NO_FUNCTION.search(re.sub(r"operator\s*\S+", "operator", head)):
        return None
    depth = 0
    for at, char in enumerate(head):
        if char == "<" and "operator" not in head[max(0, at - 9) : at + 1]:
            depth += 1
        elif char == ">" and head[at - 1] != "-":
            depth -= 1
        elif char == "(" and depth <= 0:
            if head[:at].rstrip().endswith("operator"):
                continue
            match = _CALLABLE.search(head[:at])
            if not match or re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", match.group(1)):  # A macro.
                return None
            inside = head[at + 1 : _matching(head, at, "(", ")")]
            return match.group(1), 0 if inside.strip() == "void" else len(_split(inside))
    return None


_CONTAINER = re.compile(
    r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b[^(]*$", re.DOTALL
)
_INITIALIZER = re.compile(r"\)[^{};]*(?<!:):(?!:).*[\w>]\s*$", re.DOTALL)


# The head of a function's definition outside of its class. It begins in the first column.
_MEMBER = re.compile(
    r"^(?:[A-Za-z_][^\n;={}()]*[\s*&])?(?:\w+(?:<[^\n;(){}]*>)?::)+(~?(?!operator\b)\w+)\((?=[^;]*?\)[^;()]*\{)", re.MULTILINE
)


class Scan:
    """Finds the functions and structs of a C++ file by matching braces.

    It supports only the constructs that this project uses.
    """

    def __init__(self, text):
        self._text = skeleton(text)
        self.functions = []
        self.structs = []
        self._scope(0, len(self._text))

    def unseen(self):
        """Yields (line, name) of the definitions of the form Type::Name( that are not in functions.

        A braced construct that the scan does not support may hide all that follows it.
        """
        seen = collections.Counter(f.name for f in self.functions if f.body_lines > 0)
        for match in _MEMBER.finditer(self._text):
            name = match.group(1)
            seen[name] -= 1
            if seen[name] < 0:
                yield self._line(match.start(1)), name

    def _line(self, at):
        return self._text.count("\n", 0, at) + 1

    def _scope(self, start, stop):
        """Scans the declarations of a namespace or class. Returns the number of data members."""
        head, at, data = start, start, 0
        while at < stop:
            char = self._text[at]
            if char == ";":
                data += self._declaration(self._text[head:at], head)
                head = at + 1
            elif char == "{":
                end = _matching(self._text, at, "{", "}")
                if self._block(head, at, end):
                    head = end + 1
                at = end
            elif char == "(":  # Braces in here are those of an argument or a lambda.
                at = _matching(self._text, at, "(", ")")
            elif char == ":" and re.search(r"\b(public|private|protected)\s*$", self._text[head:at]):
                head = at + 1
            at += 1
        return data

    def _declaration(self, text, at):
        found = _callable(text)
        if found:
            self.functions.append(Function(found[0], self._line(at + _indent(text)), found[1], 0))
        skip = r"\s*$|\s*(using|typedef|static_assert|friend|template|struct|class|enum)\b|.*\boperator\b"
        is_data = not found and not re.match(skip, text) and "static" not in text.split("=")[0]
        return len(_split(text.split("=")[0])) if is_data and "(" not in text.split("=")[0] else 0

    def _block(self, head, at, end):
        """Scans one pair of braces. Returns True if it ends a declaration."""
        text = self._text[head:at]
        line = self._line(head + _indent(text))
        if _CONTAINER.match(text):
            data = self._scope(at + 1, end)
            if name := re.search(r"\b(?:struct|class)\s+(\w+)", text):
                self.structs.append(Struct(name.group(1), line, data))
            return True
        if _INITIALIZER.search(text):
            return False
        if found := _callable(text):
            lines = self._text.count("\n", at, end) - 1
            self.functions.append(Function(found[0], line, found[1], max(lines, 1)))
            return True
        return False


def _indent(text):
    return len(text) - len(text.lstrip())
