"""Checks that every CMake target lists the targets whose headers it includes."""

import dataclasses
import fnmatch
import os
import re

import rules
from source import Finding

_CALL = re.compile(r"\bbastion_(?:library|binary|cuda_library)\s*\(([^()]*)\)")
# The SDK's library, in plain CMake, because other projects read and build it.
_PLAIN = re.compile(r"\badd_library\s*\((\w+)\s+STATIC\s([^()]*)\)")
_LINK = r"\btarget_link_libraries\s*\({}\s+PUBLIC\s([^()]*)\)"
_SET = re.compile(r"\bset\s*\((\w+)\s+([^()]*)\)")
_GLOB = re.compile(r"\bfile\s*\(GLOB (\w+) RELATIVE \${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ([^()]*)\)")
_REMOVE = re.compile(r"\blist\s*\(REMOVE_ITEM (\w+)\s([^()]*)\)")


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    cmake: str  # Path of the CMakeLists.txt that declares it.
    line: int
    sources: tuple  # Paths from the root.
    deps: frozenset


def _sections(words):
    """The words after each of NAME, SRCS, DEPS and OPTIONS."""
    found: dict[str | None, list[str]] = {}
    key = None
    for word in words:
        if word in ("NAME", "SRCS", "DEPS", "OPTIONS"):
            key = word
        else:
            found.setdefault(key, []).append(word)
    return found


def _variables(text, folder, paths):
    """The lists of words that the text of a CMakeLists.txt in `folder` sets, also those of the files that it globs."""
    variables = {name: value.split() for name, value in _SET.findall(text)}
    inside = [os.path.relpath(path, folder) for path in paths if path.startswith(folder + "/")]
    for name, patterns in _GLOB.findall(text):
        variables[name] = [
            path
            for pattern in patterns.split()
            for path in inside
            if path.count("/") == pattern.count("/") and fnmatch.fnmatch(path, pattern)
        ]
    for name, removed in _REMOVE.findall(text):
        variables[name] = [path for path in variables[name] if path not in removed.split()]
    return variables


def targets_of(file, paths):
    """The targets that a CMakeLists.txt declares in a tree of `paths`."""
    text = re.sub(r"#[^\n]*", "", file.text)
    folder = os.path.dirname(file.path)
    variables = _variables(text, folder, paths)
    for call in _CALL.finditer(text):
        words: list[str] = []
        for word in call.group(1).split():
            variable = re.fullmatch(r"\$\{(\w+)\}", word)
            words += variables.get(variable.group(1), []) if variable else [word]
        sections = _sections(words)
        sources = tuple(os.path.join(folder, s) for s in sections.get("SRCS", ()))
        yield Target(
            sections["NAME"][0], file.path, text.count("\n", 0, call.start()) + 1, sources, frozenset(sections.get("DEPS", ()))
        )
    for call in _PLAIN.finditer(text):
        name = call[1]
        deps = " ".join(re.findall(_LINK.format(name), text))
        yield Target(
            name,
            file.path,
            text.count("\n", 0, call.start()) + 1,
            tuple(os.path.join(folder, s) for s in call[2].split()),
            frozenset(deps.split()),
        )


def _owners(targets):
    """Two maps: from a header's path to the targets that implement it, and from a folder to its targets."""
    headers: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for target in targets:
        for source in target.sources:
            headers.setdefault(os.path.splitext(source)[0] + ".h", set()).add(target.name)
            folders.setdefault(os.path.dirname(source), set()).add(target.name)
    return headers, folders


def _library_of(included):
    """A set with the target of a generated or third-party header, or None for other headers."""
    prefixes = [p for p in rules.HEADER_TARGETS if included.startswith(p)]
    return {rules.HEADER_TARGETS[max(prefixes, key=len)]} if prefixes else None


def _parts(target, by_path):
    """The files of a target: its sources, and the headers with the same names."""
    for source in target.sources:
        for path in (source, os.path.splitext(source)[0] + ".h"):
            if path in by_path:
                yield by_path[path]


def linked_dependencies(files):
    """A target's DEPS name the target of every header that its files include."""
    cmake = [f for f in files if f.path.endswith("CMakeLists.txt") and not f.path.startswith("tests/")]
    targets = [target for file in cmake for target in targets_of(file, [f.path for f in files])]
    headers, folders = _owners(targets)
    by_path = {file.path: file for file in files}
    for target in targets:
        missing: dict[str, str] = {}
        for file in _parts(target, by_path):
            for _, included in file.includes():
                owners = headers.get(included) or _library_of(included)
                if owners is None and not included.startswith(os.path.dirname(target.cmake) + "/"):
                    owners = folders.get(os.path.dirname(included))
                if owners and target.name not in owners and not _listed(owners, target.deps):
                    missing.setdefault(" or ".join(sorted(owners)), included)
        for owner, included in sorted(missing.items()):
            yield Finding(target.cmake, target.line, f"{target.name} includes {included} but does not list {owner}")


def _listed(owners, deps):
    """True if deps name one of owners. kernels_device is an alias of the two CUDA libraries."""
    aliases = {"kernels_device"} if {"kernels_cuda", "kernels_cuda_emulated"} & owners else set()
    return bool((owners | aliases) & deps)
