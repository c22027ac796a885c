"""The checks. A check takes the files of the tree and yields findings. CHECKS lists all checks."""

import ast
import glob
import os
import re

import cmake_checks
import english_checks
import rules
from source import Finding, Scan

_SETTING = re.compile(r"\b(secure_getenv|getenv)\s*\(|\bABSL_(DECLARE_)?FLAG\s*\(|\babsl::GetFlag\b")


def _under(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def home(path):
    """The longest folder in MAY_INCLUDE that contains path, or None."""
    homes = [folder for folder in rules.MAY_INCLUDE if _under(path, folder)]
    return max(homes, key=len, default=None)


def include_direction(files):
    """A folder includes only headers of folders that rules.MAY_INCLUDE lists for it."""
    top_level = {folder.split("/")[0] for folder in rules.MAY_INCLUDE} | {rules.TESTS}
    for file in files:
        if not file.is_cpp or _under(file.path, rules.TESTS):
            continue
        folder = home(file.path)
        for line, included in file.includes():
            if included.split("/")[0] not in top_level:
                continue
            if folder is None:
                yield Finding(file.path, line, "tests/architecture/rules.py does not list this folder")
            elif home(included) not in [folder, *rules.MAY_INCLUDE[folder]]:
                yield Finding(file.path, line, f"{folder} may not include {included}")


def _used_permissions(files):
    """The permissions of rules.py that some file needs: (name of the list, entry)."""
    for file in files:
        folder = home(file.path) if file.is_cpp else None
        for _, included in file.includes() if file.is_cpp else ():
            yield f"MAY_INCLUDE[{folder}]", home(included)
            for library, (prefixes, folders) in rules.LIBRARIES.items():
                if included.startswith(prefixes):
                    yield from ((library, f) for f in folders if _under(file.path, f))
        for _, _, condition in _conditionals(file) if file.is_cpp else ():
            name = "NDEBUG_ALLOWED" if condition == "NDEBUG" else "CONDITIONALS_ALLOWED"
            yield from ((name, p) for p in getattr(rules, name) if file.path.startswith(p))
        if file.is_cpp and _SETTING.search(file.text):
            yield "SETTINGS_ALLOWED", file.path.split("/")[-1]


def unused_permissions(files):
    """Every permission in rules.py is used. Otherwise a file could use it for something else, unnoticed."""
    granted = [(f"MAY_INCLUDE[{folder}]", other) for folder, others in rules.MAY_INCLUDE.items() for other in others]
    granted += [(library, folder) for library, (_, folders) in rules.LIBRARIES.items() for folder in folders]
    for name in ("CONDITIONALS_ALLOWED", "NDEBUG_ALLOWED", "SETTINGS_ALLOWED"):
        granted += [(name, entry) for entry in getattr(rules, name)]
    used = set(_used_permissions(files))
    for name, entry in granted:
        if (name, entry) not in used:
            yield Finding("tests/architecture/rules.py", 1, f"no file uses the permission {entry} of {name}")


def _cycle(folder, graph, above=()):
    """The first cycle of folders that is reachable from folder, or None."""
    if folder in above:
        return [*above[above.index(folder) :], folder]
    found = (_cycle(below, graph, (*above, folder)) for below in graph.get(folder, ()))
    return next((cycle for cycle in found if cycle), None)


def include_cycles(_):
    """The folders in rules.MAY_INCLUDE form layers, without cycles."""
    for folder in rules.MAY_INCLUDE:
        cycle = _cycle(folder, rules.MAY_INCLUDE)
        if cycle and cycle[0] == folder == min(cycle):
            yield Finding("tests/architecture/rules.py", 1, "include cycle: " + " -> ".join(cycle))


def restricted_libraries(files):
    """Only the folders that rules.LIBRARIES lists for a library include it."""
    for file in files:
        for line, included in file.includes() if file.is_cpp else ():
            for library, (prefixes, folders) in rules.LIBRARIES.items():
                if included.startswith(prefixes) and not any(_under(file.path, f) for f in folders):
                    yield Finding(file.path, line, f"this folder may not include {library}: {included}")


def torch_and_protos(files):
    """No file includes both torch and generated protobuf code: the wheel ships old protobuf headers."""
    for file in files:
        found = list(file.includes()) if file.is_cpp else []
        if any(included.startswith(rules.TORCH) for _, included in found):
            for line, included in found:
                if included.endswith(rules.GENERATED):
                    yield Finding(file.path, line, f"a file may not include both torch and {included}")


def _conditionals(file):
    """Yields (line, directive, condition) of the preprocessor conditionals but the header guard."""
    guard = "BASTION_" + re.sub(r"[/.]", "_", file.path).upper() + "_"
    for number, line in enumerate(file.lines, 1):
        match = re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b\s*(.*)", line)
        if match and match.groups() != ("ifndef", guard):
            yield number, match.group(1), match.group(2).strip()


def conditional_compilation(files):
    """Only header guards and kernel dispatch use preprocessor conditionals."""
    for file in files:
        if not file.is_cpp or any(file.path.startswith(p) for p in rules.CONDITIONALS_ALLOWED):
            continue
        for number, kind, condition in _conditionals(file):
            if condition != "NDEBUG" or not any(file.path.startswith(p) for p in rules.NDEBUG_ALLOWED):
                yield Finding(file.path, number, f"#{kind} {condition} outside kernel dispatch")


def header_guards(files):
    """The name of a header guard is derived from the path."""
    for file in files:
        if not file.path.endswith((".h", ".cuh")):
            continue
        guard = "BASTION_" + re.sub(r"[/.]", "_", file.path).upper() + "_"
        if guard not in file.text:
            yield Finding(file.path, 1, f"no header guard {guard}")


def flags_and_environment(files):
    """Only the files in rules.SETTINGS_ALLOWED read flags and the environment."""
    for file in files:
        name = file.path.split("/")[-1]
        if not file.is_cpp or name in rules.SETTINGS_ALLOWED or _under(file.path, "tests"):
            continue
        for number, line in enumerate(file.lines, 1):
            if _SETTING.search(line.split("//")[0]):
                yield Finding(
                    file.path, number, "this file may not read flags and the environment (SETTINGS_ALLOWED in rules.py)"
                )


def file_length(files):
    for file in files:
        if file.is_code and len(file.lines) > rules.MAX_FILE_LINES:
            yield Finding(file.path, rules.MAX_FILE_LINES + 1, f"{len(file.lines)} lines, at most {rules.MAX_FILE_LINES}")


def _python_functions(file):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, kinds):
            assert node.end_lineno is not None  # ast.parse sets it.
            body = node.end_lineno - node.body[0].lineno + 1
            names = [a.arg for a in node.args.posonlyargs + node.args.args]  # Keyword-only arguments do not count.
            yield node.name, node.lineno, len([n for n in names if n not in ("self", "cls")]), body


def function_size(files):
    for file in files:
        found = []
        if file.is_cpp:
            found = [(f.name, f.line, f.parameters, f.body_lines) for f in Scan(file.text).functions]
        elif file.path.endswith(".py"):
            found = _python_functions(file)
        for name, line, parameters, body in found:
            if body > rules.MAX_FUNCTION_LINES:
                yield Finding(file.path, line, f"{name} is {body} lines long, at most {rules.MAX_FUNCTION_LINES}")
            if parameters > rules.MAX_PARAMETERS:
                yield Finding(
                    file.path, line, f"{name} has {parameters} parameters, at most {rules.MAX_PARAMETERS}: pass a struct"
                )


def unseen_functions(files):
    """The scan sees every function that is defined outside of its class, so that the size checks do."""
    for file in files:
        for line, name in Scan(file.text).unseen() if file.is_cpp else ():
            yield Finding(file.path, line, f"the scan of source.py does not see {name}: mend the scan")


def config_size(files):
    for file in files:
        for struct in Scan(file.text).structs if file.is_cpp else ():
            if struct.name.endswith(rules.CONFIG_NAMES) and struct.fields > rules.MAX_CONFIG_FIELDS:
                yield Finding(
                    file.path, struct.line, f"{struct.name} has {struct.fields} fields, at most {rules.MAX_CONFIG_FIELDS}"
                )


def open_tasks(files):
    """No open-task markers in the code."""
    pattern = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if file.is_code and pattern.search(line):
                yield Finding(file.path, number, "an open task: finish it or file an issue")


_STATEMENT = re.compile(
    r"//\s*(return\b.*;|#\s*include\b[^;]*|(auto|int|const|if|for|while|std::)\b.*[;{]|"
    r"[\w.:]+(->|\.)\w+\(.*\);|\w+\(.*\);|\w[\w.\[\]]* [-+*/]?= .*;|\})$"
)


def commented_out_code(files):
    """No comment is an #include, and no two successive comment lines read like statements."""
    for file in files:
        run = 0
        for number, line in enumerate(file.lines, 1):
            text = line.strip()
            statement = file.is_cpp and bool(_STATEMENT.match(text))
            run = run + 1 if statement else 0
            if run == 2 or (statement and "#" in text):
                yield Finding(file.path, number, "commented-out code")


def links(files, exists=os.path.exists):
    """The targets of relative links and code paths in Markdown exist."""
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    rooms = "|".join({re.escape(file.path.split("/")[0]) for file in files if "/" in file.path})
    code = re.compile(rf"`((?:{rooms})/[\w./-]*\w)`")
    for file in files:
        folder = os.path.dirname(file.path)
        for number, line in enumerate(file.lines, 1) if file.path.endswith(".md") else ():
            targets = [os.path.join(folder, t) for t in link.findall(line) if ":" not in t]
            for target in targets + code.findall(line):
                if not exists(os.path.normpath(target)):
                    yield Finding(file.path, number, f"link to a missing file: {target}")


def documentation_length(files):
    """Limits the length of README.md and of the pages in docs/."""
    for file in files:
        is_readme = file.path == "README.md"
        words = len(file.text.split())
        if is_readme and words >= rules.README_WORDS:
            yield Finding(file.path, 1, f"{words} words; must be fewer than {rules.README_WORDS}")
        limit = rules.README_LINES if is_readme else rules.MAX_PAGE_LINES
        is_page = is_readme or (_under(file.path, "docs") and file.path.endswith(".md"))
        if is_page and len(file.lines) > limit:
            yield Finding(file.path, limit + 1, f"{len(file.lines)} lines, at most {limit}")


def required_files(files, exists=os.path.exists):
    """The files in rules.REQUIRED_FILES exist."""
    present = {file.path for file in files}
    for path in rules.REQUIRED_FILES:
        if path not in present and not exists(path):
            yield Finding(path, 1, "this file is missing")


_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def _lines_outside_code(file):
    """Yields (number, line) for the lines of a Markdown file outside fenced code blocks."""
    fenced = False
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _anchors(file):
    """The anchors that GitHub generates for the headings of a Markdown file."""
    found = set()
    for _, line in _lines_outside_code(file):
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            times = 0
            while (anchor := f"{slug}-{times}" if times else slug) in found:
                times += 1
            found.add(anchor)
    return found


def anchors(files):
    """The #anchor of a link to a Markdown file is the anchor of one of its headings."""
    pages = {file.path: file for file in files if file.path.endswith(".md")}
    for file in pages.values():
        for number, line in _lines_outside_code(file):
            for target, anchor in _LINK.findall(line):
                path = os.path.normpath(os.path.join(os.path.dirname(file.path), target))
                page = pages.get(path) if target else file
                if anchor and ":" not in target and page and anchor not in _anchors(page):
                    yield Finding(file.path, number, f"no heading for #{anchor} in {page.path}")


def watched_paths(files, exists=lambda path: bool(glob.glob(path))):
    """Every path in a line "watches: PATH…" of a slow test exists. Otherwise a renamed file is not watched."""
    for file in files:
        if not re.fullmatch(r"tests/slow/\w+_test\.py", file.path):
            continue
        for number, line in enumerate(file.lines, 1):
            for path in line.split()[1:] if line.startswith("watches: ") else ():
                if not exists(path):
                    yield Finding(file.path, number, f"watches {path}, which does not exist")


CHECKS = [
    include_direction,
    include_cycles,
    unused_permissions,
    restricted_libraries,
    torch_and_protos,
    conditional_compilation,
    header_guards,
    flags_and_environment,
    file_length,
    function_size,
    unseen_functions,
    config_size,
    open_tasks,
    commented_out_code,
    links,
    anchors,
    documentation_length,
    required_files,
    watched_paths,
    cmake_checks.linked_dependencies,
    english_checks.plain_english,
]
