"""Builds the wheel from a checkout of bastion: takes the project's version, and generates
bastion_client._proto from the public protos.

Needs protoc and grpc_python_plugin, Debian's packages protobuf-compiler and
protobuf-compiler-grpc, and grpc-proto. Modules that a newer protoc generates may need a newer
protobuf than pyproject.toml states.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOS = (
    ROOT / "protos/bastion/v1/generation.proto",
    ROOT / "protos/bastion/v1/error_details.proto",
    pathlib.Path("/usr/share/grpc-proto/grpc/health/v1/health.proto"),
)
FOLDER = "bastion_client/_proto"
# Protobuf accepts only one definition of a name in a process. So the messages get names of their
# own, and other modules that were generated from the same protos do not clash with these. The
# names of messages are not sent, those of services are: they stay.
PREFIX = "bastion_client."


def program(name):
    path = shutil.which(name)
    if path is None:
        raise SystemExit(f"setup.py: no {name} on PATH; install protobuf-compiler and protobuf-compiler-grpc")
    return path


def generate(target):
    """Writes the package bastion_client._proto below `target`."""
    (target / FOLDER).mkdir(parents=True, exist_ok=True)
    (target / FOLDER / "__init__.py").write_text("")
    with tempfile.TemporaryDirectory() as source:
        copies = []
        for proto in PROTOS:
            copies.append(pathlib.Path(source, FOLDER, proto.name))
            copies[-1].parent.mkdir(parents=True, exist_ok=True)
            copies[-1].write_text(re.sub(r"^package ", f"package {PREFIX}", proto.read_text(), flags=re.MULTILINE))
        subprocess.run(
            [
                program("protoc"),
                f"--proto_path={source}",
                f"--python_out={target}",
                f"--pyi_out={target}",
                f"--grpc_python_out={target}",
                f"--plugin=protoc-gen-grpc_python={program('grpc_python_plugin')}",
                *copies,
            ],
            check=True,
        )
    for stub in (target / FOLDER).glob("*_pb2_grpc.py"):
        stub.write_text(re.sub(rf"(['/]){re.escape(PREFIX)}", r"\1", stub.read_text()))


class BuildWithProtos(build_py):
    def run(self):
        super().run()
        generate(pathlib.Path(self.build_lib))


def project_version() -> str:
    match = re.search(r"^project\(bastion VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit(f"setup.py: {ROOT}/CMakeLists.txt has no line that starts with 'project(bastion VERSION'")
    return match.group(1)


# Builds leave nothing in the source tree.
with tempfile.TemporaryDirectory() as scratch:
    setup(
        version=project_version(),
        cmdclass={"build_py": BuildWithProtos},
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
