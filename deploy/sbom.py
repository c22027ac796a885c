#!/usr/bin/env python3
"""Writes a software bill of materials of bastion as CycloneDX JSON.

usage: deploy/sbom.py [--root DIR | --licenses] [--out FILE]

It lists the Debian packages that the build needs (deploy/local/debian-packages.txt) with all packages
that these depend on, the Rust crates of common/hub/rust/Cargo.lock, and the Python packages of
deploy/local/requirements*.txt, each with its version and license. A package that is not installed has
no known version and is listed in the exit message; the exit status is then 1.

--licenses writes license texts instead: those of all that is inside the programs, not in a library of its own.
--root lists what is in an image instead: DIR is a folder of deploy/docker/make_roots.sh. It has the Debian
packages of var/lib/dpkg/status.d, the crates, and the Python packages of the libraries in usr/lib/bastion.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]


def lines_of(path):
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    return [line.strip() for line in text.splitlines() if line.strip()]


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def component(name, version, purl, licenses):
    entry = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
    if licenses:
        entry["licenses"] = [{"license": {"name": name}} for name in licenses]
    return entry


def debian_licenses(package):
    """The license names of a package's copyright file, or the file if it is prose."""
    path = pathlib.Path("/usr/share/doc", package, "copyright")
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    names = sorted(set(re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE)))
    return names or [f"see {path}"]


def needed_packages(names):
    """The packages and all that they depend on."""
    closure = output_of(
        "apt-cache",
        "depends",
        "--recurse",
        "--no-recommends",
        "--no-suggests",
        "--no-conflicts",
        "--no-breaks",
        "--no-replaces",
        "--no-enhances",
        *names,
    )
    return {line for line in closure.splitlines() if re.match(r"^[a-z0-9]", line)} | set(names)


def debian_components(missing, root):
    if root:
        names = closure = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    else:
        names = lines_of(ROOT / "deploy/local/debian-packages.txt")
        closure = needed_packages(names)
    shown = output_of("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n")
    installed = {}
    for line in shown.splitlines():
        package, version, architecture, status = line.split("\t")
        if status == "installed":
            installed[package] = (version, architecture)
    missing.extend(name for name in names if name not in installed)
    for package in sorted(closure & set(installed)):
        version, architecture = installed[package]
        yield component(package, version, f"pkg:deb/debian/{package}@{version}?arch={architecture}", debian_licenses(package))


def crates(missing, *flags):
    metadata = output_of(
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        *flags,
        "--manifest-path",
        str(ROOT / "common/hub/rust/Cargo.toml"),
    )
    if not metadata:
        missing.append("the crates of common/hub/rust (cargo metadata failed)")
        return []
    return [package for package in json.loads(metadata)["packages"] if package["source"]]  # Not our own.


def crate_components(missing):
    for package in crates(missing):
        name, version = package["name"], package["version"]
        yield component(name, version, f"pkg:cargo/{name}@{version}", [package["license"]] if package["license"] else [])


# The packages of the libraries that a CUDA build installs, by the beginning of the library's name.
LIBRARY_PACKAGES = {"libcudart": "nvidia-cuda-runtime", "libcublasLt": "nvidia-cublas"}


def python_components(missing, root):
    requirements = set()
    for path in sorted((ROOT / "deploy/local").glob("requirements*.txt")):
        requirements |= set(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    if not requirements:
        missing.append("the Python packages of deploy/local")
    if root:
        files = {path.name.split(".")[0] for path in (root / "usr/lib/bastion").glob("*")}
        packages = {LIBRARY_PACKAGES[name] for name in files}
        requirements = {(name, version) for name, version in requirements if name in packages}
    python = ROOT / "build/venv/bin/python"
    script = (
        "import importlib.metadata as m, json\n"
        'print(json.dumps({d.metadata["Name"].lower().replace("_", "-"): '
        'd.metadata.get("License-Expression") or d.metadata.get("License") or "" '
        "for d in m.distributions()}))"
    )
    shown = output_of(str(python), "-c", script) if python.exists() else ""
    licenses = json.loads(shown or "{}")
    for name, version in sorted(requirements):
        text = licenses.get(name.lower().replace("_", "-"), "")
        yield component(name, version, f"pkg:pypi/{name.lower()}@{version}", [text.splitlines()[0][:120]] if text else [])


# Debian packages without a library: their code is in the programs. Boost's license asks for no notice there.
HEADER_ONLY = ("nlohmann-json3-dev",)


def license_texts():
    """All license texts, each after the names of what it is for, and what is missing."""
    missing, names = [], {}
    for package in crates(missing, "--filter-platform", "x86_64-unknown-linux-gnu"):
        folder = pathlib.Path(package["manifest_path"]).parent
        for path in sorted(folder.iterdir()):
            if re.match("(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE)", path.name, re.IGNORECASE) and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                names.setdefault(text, []).append(f"{package['name']} {package['version']}")
    for package in HEADER_ONLY:
        path = pathlib.Path("/usr/share/doc", package, "copyright")
        if path.exists():
            names.setdefault(path.read_text(encoding="utf-8").strip(), []).append(package)
        else:
            missing.append(package)
    parts = [f"{', '.join(users)}\n{'=' * 80}\n{text}\n" for text, users in names.items()]
    return "\n".join(parts), missing


def make_sbom(root=None):
    missing = []
    components = [*debian_components(missing, root), *crate_components(missing), *python_components(missing, root)]
    version = re.search(r"project\(bastion VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    # The same dependencies give the same file.
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "bastion", "version": version}},
        "components": components,
    }, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, help="the root file system of an image")
    parser.add_argument("--licenses", action="store_true", help="write license texts")
    parser.add_argument("--out", type=pathlib.Path, help="the file; default: standard output")
    arguments = parser.parse_args()
    if arguments.licenses:
        text, missing = license_texts()
    else:
        sbom, missing = make_sbom(arguments.root)
        text = json.dumps(sbom, indent=1) + "\n"
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
        print(f"{arguments.out}: {len(text)} bytes")
    else:
        print(text, end="")
    if missing:
        sys.exit(f"sbom: not complete, install these first: {', '.join(missing)}")


if __name__ == "__main__":
    main()
