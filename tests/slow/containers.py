"""Runs images with runc: read-only, as the user of the image, and without new privileges."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

USER = 10001


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)


def must(*command):
    ran = run(*command)
    if ran.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Image:
    """An image that was unpacked from an OCI archive. umoci needs root."""

    def __init__(self, archive, folder):
        self.folder = pathlib.Path(folder)
        self.bundle = self.folder / "bundle"
        layout = self.folder / "layout"
        layout.mkdir(parents=True)
        must("tar", "-x", "-C", layout, "-f", archive)
        index = json.loads((layout / "index.json").read_text())
        tag = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
        # umoci takes the part after the last colon for the tag.
        index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] = "image"
        (layout / "index.json").write_text(json.dumps(index))
        self.name, _, self.version = tag.rpartition(":")
        must("umoci", "unpack", "--image", f"{layout}:image", self.bundle)
        self.config = self._blob(layout, self._blob(layout, index["manifests"][0])["config"])["config"]
        self.root = self.bundle / "rootfs"

    @staticmethod
    def _blob(layout, descriptor):
        return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text())

    def bytes(self):
        """The sizes of all files."""
        return sum(path.lstat().st_size for path in self.root.rglob("*") if not path.is_symlink())


class Container(contextlib.AbstractContextManager):
    """A running container of an image. It has the network of this host, and `mounts`: pairs of a folder of this
    host and its path in the container; paths of folders whose names end in ":ro" are read-only."""

    def __init__(self, image, name, arguments, mounts=(), entrypoint=None):
        self.name = name
        self.folder = tempfile.TemporaryDirectory(prefix="bastion-container.")
        self.log_file = pathlib.Path(self.folder.name, "log")
        bundle = pathlib.Path(self.folder.name)
        spec = json.loads((image.bundle / "config.json").read_text())
        process = spec["process"]
        process["terminal"] = False
        process["args"] = [*(entrypoint or image.config["Entrypoint"]), *arguments]
        process["noNewPrivileges"] = True
        process["capabilities"] = {}
        spec["root"] = {"path": str(image.root), "readonly": True}
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] not in ("network", "cgroup")]
        spec["linux"].pop("resources", None)
        for source, target in mounts:
            path, _, mode = target.partition(":")
            spec["mounts"].append(
                {"source": str(source), "destination": path, "type": "bind", "options": ["rbind", mode or "rw"]}
            )
        (bundle / "config.json").write_text(json.dumps(spec))
        self.started = time.monotonic()
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                ["runc", "run", "--bundle", bundle, name], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def log(self):
        return self.log_file.read_text(errors="replace")

    def terminate(self):
        """Sends SIGTERM to the container's first process."""
        must("runc", "kill", self.name, "TERM")

    def wait(self, timeout=60):
        return self.process.wait(timeout=timeout)

    def execute(self, *command):
        """Runs a program in the container."""
        return run("runc", "exec", self.name, *command)

    def __exit__(self, *_):
        if self.process.poll() is None:
            run("runc", "kill", self.name, "KILL")
            self.process.wait(timeout=20)
        run("runc", "delete", "--force", self.name)
        self.folder.cleanup()


def private_folder(parent, name):
    """A folder that only the user of the images may enter."""
    folder = pathlib.Path(parent, name)
    folder.mkdir(mode=0o700)
    shutil.chown(folder, USER, USER)
    return folder
