"""Reads and writes the tensors of Hugging Face folders (config.json and safetensors files) with numpy alone.

A tensor is kept as the file stores it: BF16 as uint16 (its bits), F16 and F32 as numpy's floats. Tensors are written in
pieces, so a checkpoint can be larger than main memory.
"""

import errno
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STORED_AS = {
    "BF16": np.uint16,
    "F16": np.float16,
    "F32": np.float32,
    "I64": np.int64,
    "I32": np.int32,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
}


class CheckpointError(Exception):
    """A folder cannot be used. The text says why, and what the user can change."""


def to_floats(array: np.ndarray, dtype: str) -> np.ndarray:
    """Converts an array stored as `dtype` to float32."""
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def from_floats(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds `values` to nearest and stores them as `dtype`."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    if dtype != "BF16":
        return values.astype(STORED_AS[dtype])
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class SafetensorsFile:
    """One file, memory-mapped: a tensor is read when it is used."""

    def __init__(self, path: Path):
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                self.header = json.loads(file.read(size))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: cannot be read as a safetensors file: {error}") from error
        self.header.pop("__metadata__", None)
        self._bytes = np.memmap(path, np.uint8, mode="r", offset=8 + size)

    def stored(self, name: str) -> np.ndarray:
        """The tensor as the file stores it."""
        entry = self.header[name]
        if entry["dtype"] not in STORED_AS:
            raise CheckpointError(f"tensor '{name}' has dtype {entry['dtype']}; supported: {', '.join(STORED_AS)}")
        begin, end = entry["data_offsets"]
        return self._bytes[begin:end].view(STORED_AS[entry["dtype"]]).reshape(entry["shape"])


class Checkpoint:
    """A model's folder: `config`, and the tensors by name, from one file or from several with an index."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            self.config = json.loads((folder / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder}: cannot read config.json: {error}") from error
        index = folder / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if index.exists() and not (folder / names[0]).exists():
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        files = [SafetensorsFile(folder / name) for name in names]
        self._home = {name: file for file in files for name in file.header}

    def names(self) -> list[str]:
        return list(self._home)

    def _file(self, name: str) -> SafetensorsFile:
        if name not in self._home:
            raise CheckpointError(f"{self.folder}: there is no tensor '{name}'")
        return self._home[name]

    def stored(self, name: str) -> np.ndarray:
        return self._file(name).stored(name)

    def dtype(self, name: str) -> str:
        return self._file(name).header[name]["dtype"]

    def floats(self, name: str) -> np.ndarray:
        return to_floats(self.stored(name), self.dtype(name))


@dataclass(frozen=True)
class Entry:
    """A tensor to write. `pieces` yields its elements in order, stored as `dtype`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterable[np.ndarray]]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * np.dtype(STORED_AS[self.dtype]).itemsize


def array_entry(name: str, dtype: str, array: np.ndarray) -> Entry:
    """An entry for an array in memory."""
    return Entry(name, dtype, array.shape, lambda: [array.astype(STORED_AS[dtype], copy=False)])


def _header(entries: list[Entry]) -> bytes:
    table: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for entry in entries:
        table[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [begin, begin + entry.size]}
        begin += entry.size
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_safetensors(path: Path, entries: list[Entry], label: str) -> None:
    """Writes the entries and shows the progress. The widest types come first, so that all tensors are aligned."""
    entries = sorted(entries, key=lambda entry: -np.dtype(STORED_AS[entry.dtype]).itemsize)
    total, done = sum(entry.size for entry in entries), 0
    free = shutil.disk_usage(path.parent).free
    if total > free:
        raise CheckpointError(f"{path}: needs {total / 1e9:.1f} GB, but the disk has only {free / 1e9:.1f} GB free")
    try:
        with path.open("wb") as file:
            file.write(_header(entries))
            for entry in entries:
                begin = done
                for piece in entry.pieces():
                    file.write(np.ascontiguousarray(piece).data)
                    done += piece.nbytes
                    _show(label, done, total)
                assert done - begin == entry.size, entry.name
    except OSError as error:
        path.unlink(missing_ok=True)
        why = "the disk is full" if error.errno == errno.ENOSPC else error
        raise CheckpointError(f"{path}: {why}") from error


def _show(label: str, done: int, total: int) -> None:
    if not sys.stderr.isatty() and done < total:
        return
    width = 30
    bar = "#" * (width * done // total)
    end = "\n" if done == total else ""
    print(f"\r{label} [{bar:<{width}}] {done / 1e9:.2f} of {total / 1e9:.2f} GB", end=end, file=sys.stderr, flush=True)
