"""Tells which tests, jobs and sources of a configured build differ from those that passed before.

usage: tests/changed.py PRESET            prints the names of those that changed, one per line
       tests/changed.py PRESET --targets  reads names of tests, and prints what to build for them
       tests/changed.py PRESET --record   reads names, and records that they passed

For presets asan and tsan, a name is a test. For presets cuda and torch, it is the job (cuda_job). For
preset tidy, it is a source file. What a name reaches is all that its result depends on:
  - the files that ninja's graph builds its programs from, and the services that a test starts;
  - the headers that these files include, and what those include;
  - the commands that compile and link them. So a flag or a new source in a CMakeLists.txt counts;
  - for tests, also the data in tests and the demo models.
tests/passed.txt remembers a hash of these for each name that passed. Commit that file with your change. A
name is changed if the hash differs, whichever file made the difference. Paths count from the root of the
tree, so the hashes are equal in every clone. Needs `cmake --preset PRESET`, but no build.
"""

import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSED = ROOT / "tests/passed.txt"
CODE = (".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hxx")
JOBS = ("cuda", "torch")
# Data that tests read while they run.
DATA = (
    "deploy/demo_model",
    "deploy/demo_model_neox",
    "tests",
    ":!tests/architecture",
    ":!tests/gpu",
    ":!tests/kubernetes",
    ":!tests/slow",
    ":!tests/threaded_tests.txt",
    ":!tests/tsan.supp",
)
# Further data of single tests.
OWN_DATA = {"services_test": ["deploy/demo_drafters"]}
NOT_DATA = (*CODE, ".md", ".py", ".sh", "CMakeLists.txt", "passed.txt")


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Graph:
    """The build statements of one build folder: what ninja makes from what, and how."""

    def __init__(self, build):
        self.build = build
        self._edges: dict[str, tuple[str, list[str]]] = {}  # Output: (the command's hash, inputs).
        self._rules: dict[str, str] = {}
        for name in ("CMakeFiles/rules.ninja", "build.ninja"):
            self._read(build / name)

    def _read(self, file):
        text = file.read_text().replace("$\n", "")
        for block in re.split(r"\n(?=build |rule )", text):
            head, *body = block.split("\n")
            # CMake writes names of .pdb files, which only Windows has, when it configures a folder first.
            variables = "\n".join(line for line in body if line.startswith("  ") and "_PDB = " not in line)
            if head.startswith("rule "):
                self._rules[head[5:]] = variables
            elif match := re.match(r"build (.*?): (\S+)(.*)", head):
                outputs, rule, inputs = match.groups()
                words = [word for word in re.split(r"(?<!\$) +", inputs) if word not in ("", "|", "||")]
                command = self._plain(self._rules.get(rule, rule) + head + variables)
                for output in re.split(r"(?<!\$) +", outputs):
                    if output not in ("", "|"):
                        self._edges[output.replace("${cmake_ninja_workdir}", "")] = (digest(command.encode()), words)

    def _plain(self, text):
        return text.replace(str(ROOT), "").replace("${cmake_ninja_workdir}", "")

    def reach(self, targets):
        """Returns the hashes of all commands behind the targets, and the files of the tree that they read."""
        commands, files, seen, waiting = set(), set(), set(), list(targets)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if edge := self._edges.get(name) or self._edges.get(str(name).removeprefix(f"{self.build}/")):
                commands.add(edge[0])
                waiting += edge[1]
            path = os.path.join(self.build, name)
            # Some of the files that CMake makes, e.g. unity sources, are inputs. Others are outputs of commands.
            if (
                path.startswith(f"{ROOT}/")
                and os.path.isfile(path)
                and (not path.startswith(f"{ROOT}/build/") or (not edge and path.endswith(CODE)))
            ):
                files.add(path)
        return commands, files

    def tests(self):
        """Returns the command of each test, by its name."""
        found = {}
        for file in self.build.rglob("CTestTestfile.cmake"):
            for name, command in re.findall(r"^add_test\(\[?=*\[?([^\s\]]+)\]?=*\]? (.*)\)$", file.read_text(), re.M):
                found[name] = re.findall(r'"([^"]*)"', command)
        return found


@functools.cache
def content(path):
    # Unity sources include the sources by their absolute paths.
    return digest(pathlib.Path(path).read_bytes().replace(str(ROOT).encode(), b""))


@functools.cache
def includes(path, build):
    """Returns the files of the tree that a source file includes. Generated ones follow from their inputs."""
    found = []
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', pathlib.Path(path).read_text(), re.M):
        for folder in (ROOT, os.path.dirname(path), ROOT / "client/cpp/include"):
            candidate = os.path.normpath(os.path.join(folder, name))
            if (
                candidate.startswith(f"{ROOT}/")
                and not candidate.startswith(f"{build}/generated")
                and os.path.isfile(candidate)
            ):
                found.append(candidate)
                break
    return found


def closure(files, build):
    """Returns the files and all that they include."""
    seen, waiting = set(), list(files)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            if path.endswith(CODE):
                waiting += includes(path, build)
    return seen


def hash_of(commands, files, build):
    lines = sorted(commands)
    lines += sorted(f"{os.path.relpath(path, ROOT)} {content(path)}" for path in closure(files, build))
    return digest("\n".join(lines).encode())


@functools.cache
def tracked(*patterns):
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return [str(ROOT / name) for name in names.split("\0") if name and (ROOT / name).is_file()]


def data():
    return [path for path in tracked(*DATA) if not path.endswith(NOT_DATA)]


def targets_of(command, build):
    """Returns what to build for a test: the programs in its command, or all for a script that gets a folder."""
    programs = [word.removeprefix(f"{build}/") for word in command if word.startswith(f"{build}/bin/")]
    return programs or (["all"] if any(word.startswith(str(build)) for word in command) else [])


def states_of_tests(build):
    """Yields (name, hash) of each test."""
    graph = Graph(build)
    for name, command in graph.tests().items():
        targets = targets_of(command, build)
        is_script = not command[0].startswith(f"{build}/")
        files = tracked("*.py", "deploy") if is_script else []
        if name in OWN_DATA:
            files = [*files, *tracked(*OWN_DATA[name])]
        if build.name == "tsan":
            files = [*files, *tracked("tests/tsan.supp")]
        commands, sources = graph.reach(targets)
        arguments = " ".join(command).replace(str(ROOT), "")
        yield name, hash_of({*commands, digest(arguments.encode())}, {*sources, *files, *data()}, build)


def states_of_job(build):
    """Yields (job, hash) of all that the job of preset cuda or torch builds and runs."""
    job = f"{build.name}_job"
    commands, files = Graph(build).reach([job])
    scripts = tracked("tests/gpu", "tests/deploy", "deploy/measure/*.py") if build.name == "cuda" else []
    yield job, hash_of(commands, {*files, *data(), *scripts}, build)


def states_of_sources(build):
    """Yields (source, hash) of each source that clang-tidy reads."""
    graph = Graph(build)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = entry["file"]
        if path.startswith(f"{build}/generated/"):
            continue
        command = digest(entry["command"].replace(str(ROOT), "").encode())
        folder = re.search(r" -o (\S+?\.dir)/", entry["command"])
        if folder is None:
            raise ValueError(f"{build}/compile_commands.json: the command for {path} has no '-o FOLDER.dir/'")
        target = f"cmake_object_order_depends_target_{pathlib.Path(folder[1]).stem}"
        _, generated_from = graph.reach([target])
        yield path.removeprefix(f"{ROOT}/"), hash_of({command}, {path, *generated_from, str(ROOT / ".clang-tidy")}, build)


def states(build):
    if build.name == "tidy":
        return dict(states_of_sources(build))
    return dict(states_of_job(build) if build.name in JOBS else states_of_tests(build))


def recorded():
    """Returns (preset, name, hash) of all that passed."""
    return {tuple(line.split(" ")) for line in PASSED.read_text().splitlines()} if PASSED.exists() else set()


def changed(build, current):
    passed = recorded()
    return [name for name, state in sorted(current.items()) if (build.name, name, state) not in passed]


def record(build, current, names):
    """Records that these names passed, and forgets names that no longer exist."""
    kept = {entry for entry in recorded() if entry[0] != build.name or (entry[1] in current and entry[1] not in names)}
    kept |= {(build.name, name, current[name]) for name in names if name in current}
    PASSED.write_text("".join(" ".join(entry) + "\n" for entry in sorted(kept)))


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    build = ROOT / "build" / sys.argv[1]
    action = sys.argv[2:]
    if action == ["--targets"]:
        tests = Graph(build).tests()
        wanted = {target for name in sys.stdin.read().split() for target in targets_of(tests[name], build)}
        print(*sorted(wanted), sep="\n")
    elif action == ["--record"]:
        record(build, states(build), sys.stdin.read().split())
    else:
        for name in changed(build, states(build)):
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
