#!/usr/bin/env python3
"""Writes a software bill of materials of bastion as CycloneDX JSON.

usage: deploy/sbom.py [--out FILE]

It lists the Debian packages that the build needs (deploy/local/debian-packages.txt) with all packages
that these depend on, the Rust crates of common/hub/rust/Cargo.lock, and the Python packages of
deploy/local/requirements*.txt, each with its version and license. A package that is not installed has
no known version and is listed in the exit message; the exit status is then 1.
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
    text = re.sub(r'#.*', '', path.read_text(encoding='utf-8'))
    return [line.strip() for line in text.splitlines() if line.strip()]


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def component(name, version, purl, licenses):
    entry = {'type': 'library', 'name': name, 'version': version, 'purl': purl, 'bom-ref': purl}
    if licenses:
        entry['licenses'] = [{'license': {'name': name}} for name in licenses]
    return entry


def debian_licenses(package):
    """The license names of a package's copyright file, or the file if it is prose."""
    path = pathlib.Path('/usr/share/doc', package, 'copyright')
    text = path.read_text(encoding='utf-8', errors='replace') if path.exists() else ''
    names = sorted(set(re.findall(r'^License: *(\S.*?) *$', text, re.MULTILINE)))
    return names or [f'see {path}']


def debian_components(missing):
    names = lines_of(ROOT / 'deploy/local/debian-packages.txt')
    closure = output_of('apt-cache', 'depends', '--recurse', '--no-recommends', '--no-suggests',
                        '--no-conflicts', '--no-breaks', '--no-replaces', '--no-enhances', *names)
    closure = {line for line in closure.splitlines() if re.match(r'^[a-z0-9]', line)} | set(names)
    shown = output_of('dpkg-query', '-W', '-f', '${Package}\t${Version}\t${Architecture}\t'
                      '${db:Status-Status}\n')
    installed = {}
    for line in shown.splitlines():
        package, version, architecture, status = line.split('\t')
        if status == 'installed':
            installed[package] = (version, architecture)
    missing.extend(name for name in names if name not in installed)
    for package in sorted(closure & set(installed)):
        version, architecture = installed[package]
        yield component(package, version, f'pkg:deb/debian/{package}@{version}?arch={architecture}',
                        debian_licenses(package))


def crate_components(missing):
    metadata = output_of('cargo', 'metadata', '--format-version', '1', '--locked', '--offline',
                         '--manifest-path', str(ROOT / 'common/hub/rust/Cargo.toml'))
    if not metadata:
        missing.append('the crates of common/hub/rust (cargo metadata failed)')
        return
    for package in json.loads(metadata)['packages']:
        if package['source'] is None:
            continue  # Our own.
        name, version = package['name'], package['version']
        yield component(name, version, f'pkg:cargo/{name}@{version}',
                        [package['license']] if package['license'] else [])


def python_components(missing):
    requirements = set()
    for path in sorted((ROOT / 'deploy/local').glob('requirements*.txt')):
        requirements |= set(re.findall(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)',
                                       path.read_text(encoding='utf-8'), re.MULTILINE))
    python = ROOT / 'build/venv/bin/python'
    script = ('import importlib.metadata as m, json\n'
              'print(json.dumps({d.metadata["Name"].lower().replace("_", "-"): '
              'd.metadata.get("License-Expression") or d.metadata.get("License") or "" '
              'for d in m.distributions()}))')
    shown = output_of(str(python), '-c', script) if python.exists() else ''
    licenses = json.loads(shown or '{}')
    for name, version in sorted(requirements):
        text = licenses.get(name.lower().replace('_', '-'), '')
        yield component(name, version, f'pkg:pypi/{name.lower()}@{version}',
                        [text.splitlines()[0][:120]] if text else [])
    if not requirements:
        missing.append('the Python packages of deploy/local')


def make_sbom():
    missing = []
    components = [*debian_components(missing), *crate_components(missing),
                  *python_components(missing)]
    version = re.search(r'VERSION (\S+)', (ROOT / 'CMakeLists.txt').read_text()).group(1)
    # The same dependencies give the same file.
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        'bomFormat': 'CycloneDX',
        'specVersion': '1.5',
        'serialNumber': f'urn:uuid:{identity}',
        'version': 1,
        'metadata': {'component': {'type': 'application', 'name': 'bastion', 'version': version}},
        'components': components,
    }, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--out', type=pathlib.Path, help='the file; default: standard output')
    arguments = parser.parse_args()
    sbom, missing = make_sbom()
    text = json.dumps(sbom, indent=1) + '\n'
    if arguments.out:
        arguments.out.write_text(text, encoding='utf-8')
        print(f'{len(sbom["components"])} components in {arguments.out}')
    else:
        print(text, end='')
    if missing:
        sys.exit(f'sbom: not complete, install these first: {", ".join(missing)}')


if __name__ == '__main__':
    main()
