"""The checks. Each is a function from the files of the tree to its offences; CHECKS lists them."""

import ast
import os
import re

import cmake_checks
import rules
from source import Offence, Scan


def _under(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def home(path):
    """The longest folder of MAY_INCLUDE that holds path."""
    homes = [folder for folder in rules.MAY_INCLUDE if _under(path, folder)]
    return max(homes, key=len, default=None)


def include_direction(files):
    """Folders include what rules.MAY_INCLUDE grants them, nothing else."""
    top_level = {folder.split("/")[0] for folder in rules.MAY_INCLUDE} | {rules.TESTS}
    for file in files:
        if not file.is_cpp or _under(file.path, rules.TESTS):
            continue
        folder = home(file.path)
        for line, included in file.includes():
            if included.split("/")[0] not in top_level:
                continue
            if folder is None:
                yield Offence(file.path, line, "this folder is not in tests/architecture/rules.py")
            elif home(included) not in [folder, *rules.MAY_INCLUDE[folder]]:
                yield Offence(file.path, line, f"{folder} may not include {included}")


def _circle(folder, graph, above=()):
    """The first circle of folders that can be reached from folder, or None."""
    if folder in above:
        return [*above[above.index(folder):], folder]
    found = (_circle(below, graph, (*above, folder)) for below in graph.get(folder, ()))
    return next((circle for circle in found if circle), None)


def include_circles(_):
    """The folders of rules.MAY_INCLUDE form layers: no circle."""
    for folder in rules.MAY_INCLUDE:
        circle = _circle(folder, rules.MAY_INCLUDE)
        if circle and circle[0] == folder == min(circle):
            yield Offence("tests/architecture/rules.py", 1, "a circle: " + " -> ".join(circle))


def library_borders(files):
    """Libraries stay in the folders that rules.LIBRARIES names."""
    for file in files:
        for line, included in file.includes() if file.is_cpp else ():
            for library, (prefixes, folders) in rules.LIBRARIES.items():
                if included.startswith(prefixes) and not any(_under(file.path, f) for f in folders):
                    yield Offence(file.path, line, f"{library} is not for this folder: {included}")


def torch_and_protos(files):
    """No file includes torch and generated protobuf code: the wheel ships old protobuf headers."""
    for file in files:
        found = list(file.includes()) if file.is_cpp else []
        if any(included.startswith(rules.TORCH) for _, included in found):
            for line, included in found:
                if included.endswith(rules.GENERATED):
                    yield Offence(file.path, line, f"torch and {included} in one file")


def conditional_compilation(files):
    """The preprocessor decides in header guards and in kernel dispatch only."""
    for file in files:
        if not file.is_cpp or any(file.path.startswith(p) for p in rules.CONDITIONALS_ALLOWED):
            continue
        guard = "BASTION_" + re.sub(r"[/.]", "_", file.path).upper() + "_"
        for number, line in enumerate(file.lines, 1):
            match = re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b\s*(.*)", line)
            if not match or match.groups() == ("ifndef", guard):
                continue
            condition = match.group(2).strip()
            if condition == "NDEBUG" and any(file.path.startswith(p) for p in rules.NDEBUG_ALLOWED):
                continue
            yield Offence(file.path, number, f"#{match.group(1)} {condition} outside of kernel dispatch")


def header_guards(files):
    """A header's guard is its path."""
    for file in files:
        if not file.path.endswith((".h", ".cuh")):
            continue
        guard = "BASTION_" + re.sub(r"[/.]", "_", file.path).upper() + "_"
        if guard not in file.text:
            yield Offence(file.path, 1, f"no header guard {guard}")


def settings_at_the_edge(files):
    """Environment and flags are read in main.cc."""
    pattern = re.compile(r"\b(secure_getenv|getenv)\s*\(|\bABSL_(DECLARE_)?FLAG\s*\(|\babsl::GetFlag\b")
    for file in files:
        name = file.path.split("/")[-1]
        if not file.is_cpp or name in rules.SETTINGS_ALLOWED or _under(file.path, "tests"):
            continue
        for number, line in enumerate(file.lines, 1):
            if pattern.search(line.split("//")[0]):
                yield Offence(file.path, number, "flags and environment are read in main.cc")


def file_length(files):
    for file in files:
        if file.is_code and len(file.lines) > rules.MAX_FILE_LINES:
            yield Offence(file.path, rules.MAX_FILE_LINES + 1,
                          f"{len(file.lines)} lines, at most {rules.MAX_FILE_LINES}")


def _python_functions(file):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, kinds):
            body = node.end_lineno - node.body[0].lineno + 1
            names = [a.arg for a in node.args.posonlyargs + node.args.args]  # Not keyword-only ones.
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
                yield Offence(file.path, line,
                              f"{name} is {body} lines long, at most {rules.MAX_FUNCTION_LINES}")
            if parameters > rules.MAX_PARAMETERS:
                yield Offence(file.path, line, f"{name} takes {parameters} parameters, at most "
                                               f"{rules.MAX_PARAMETERS}: make it a struct")


def config_size(files):
    for file in files:
        for struct in Scan(file.text).structs if file.is_cpp else ():
            if struct.name.endswith(rules.CONFIG_NAMES) and struct.fields > rules.MAX_CONFIG_FIELDS:
                yield Offence(file.path, struct.line, f"{struct.name} has {struct.fields} fields, "
                                                      f"at most {rules.MAX_CONFIG_FIELDS}")


def open_ends(files):
    """Nothing is left open in the code."""
    pattern = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if file.is_code and pattern.search(line):
                yield Offence(file.path, number, "left open: finish it or write an issue")


_STATEMENT = re.compile(
    r"//\s*(return\b.*;|#\s*include\b[^;]*|(auto|int|const|if|for|while|std::)\b.*[;{]|"
    r"[\w.:]+(->|\.)\w+\(.*\);|\w+\(.*\);|\w[\w.\[\]]* [-+*/]?= .*;|\})$")


def commented_out_code(files):
    """Two comment lines in a row that read like statements, or one that is an #include."""
    for file in files:
        run = 0
        for number, line in enumerate(file.lines, 1):
            text = line.strip()
            statement = file.is_cpp and bool(_STATEMENT.match(text))
            run = run + 1 if statement else 0
            if run == 2 or (statement and "#" in text):
                yield Offence(file.path, number, "commented-out code")


def links(files, exists=os.path.exists):
    """Relative links and code paths in Markdown lead somewhere."""
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    code = re.compile(r"`((?:common|kernels|orchestrator|drafter_service|verifier_service|client|deploy"
                      r"|tests|protos|cmake)/[\w./-]*\w)`")
    for file in files:
        folder = os.path.dirname(file.path)
        for number, line in enumerate(file.lines, 1) if file.path.endswith(".md") else ():
            targets = [os.path.join(folder, t) for t in link.findall(line) if ":" not in t]
            for target in targets + code.findall(line):
                if not exists(os.path.normpath(target)):
                    yield Offence(file.path, number, f"leads nowhere: {target}")


def documentation_length(files):
    """The README can be read in minutes, and a page of docs/ has one purpose."""
    for file in files:
        is_readme = file.path == "README.md"
        words = len(file.text.split())
        if is_readme and words >= rules.README_WORDS:
            yield Offence(file.path, 1, f"{words} words, fewer than {rules.README_WORDS} are allowed")
        most = rules.README_LINES if is_readme else rules.MAX_PAGE_LINES
        is_page = is_readme or (_under(file.path, "docs") and file.path.endswith(".md"))
        if is_page and len(file.lines) > most:
            yield Offence(file.path, most + 1, f"{len(file.lines)} lines, at most {most}")


def required_files(files, exists=os.path.exists):
    """The files that every visitor of a repository looks for."""
    present = {file.path for file in files}
    for path in rules.REQUIRED_FILES:
        if path not in present and not exists(path):
            yield Offence(path, 1, "this file is missing")


_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def _outside_of_code(file):
    """(number, line) of the lines of a Markdown file that are not in a fenced block."""
    fenced = False
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _anchors(file):
    """The anchors that GitHub gives the headings of a Markdown file."""
    found = set()
    for _, line in _outside_of_code(file):
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            times = 0
            while (anchor := f"{slug}-{times}" if times else slug) in found:
                times += 1
            found.add(anchor)
    return found


def anchors(files):
    """The #anchor of a link to a Markdown file is one of its headings."""
    pages = {file.path: file for file in files if file.path.endswith(".md")}
    for file in pages.values():
        for number, line in _outside_of_code(file):
            for target, anchor in _LINK.findall(line):
                path = os.path.normpath(os.path.join(os.path.dirname(file.path), target))
                page = pages.get(path) if target else file
                if anchor and ":" not in target and page and anchor not in _anchors(page):
                    yield Offence(file.path, number, f"no heading for #{anchor} in {page.path}")


CHECKS = [include_direction, include_circles, library_borders, torch_and_protos,
          conditional_compilation, header_guards, settings_at_the_edge, file_length, function_size,
          config_size, open_ends, commented_out_code, links, anchors, documentation_length,
          required_files, cmake_checks.linked_dependencies]
