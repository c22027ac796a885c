"""Maps the indices of a small model to those of a larger model, and grows matrices with these maps. inflate.py explains why.

A map has an entry for each row or column of the larger matrix: the source's index, FREE, or QUIET.
    FREE column     random in every row, because it is only ever multiplied by zeros
    QUIET column    zero in every row
    other columns   the source's value in rows with a source, random in FREE rows, zero in QUIET rows
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoint_io import CheckpointError, Entry, SafetensorsFile, array_entry, from_floats, to_floats

FREE, QUIET = -1, -2
PIECE_BYTES = 1 << 25


@dataclass(frozen=True)
class Maps:
    """The maps of one model. `queries`, `keys`, `values`: rows of the projections. `head`: dims of one head."""

    hidden: np.ndarray
    head: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    units: np.ndarray
    vocabulary: np.ndarray


def first(count: int, size: int) -> np.ndarray:
    """0, 1, … count − 1, then FREE."""
    return np.where(np.arange(size) < count, np.arange(size), FREE)


def spread(count: int, size: int) -> list[int]:
    """Ascending indices of `count` layers, evenly spread over `size`."""
    return [index * size // count for index in range(count)]


def head_map(old: int, new: int) -> np.ndarray:
    """Maps rotary pair (j, j + old/2) to pair j·new/old. The dims in between are QUIET."""
    if new % old:
        raise CheckpointError(f"head_dim is {new}; it must be a multiple of the source's {old}")
    places = np.full(new, QUIET)
    places[:: new // old] = np.arange(old)
    return places


def rows_of_heads(sources: list[int], head: np.ndarray, old_dim: int) -> np.ndarray:
    """Rows of a projection whose heads copy the source's heads `sources`. A head may be FREE."""
    rows = [
        np.where(head >= 0, head + source * old_dim, QUIET) if source >= 0 else np.full(len(head), FREE) for source in sources
    ]
    return np.concatenate(rows)


def place_heads(config: dict, query_heads: int, kv_heads: int) -> tuple[list[int], list[int]]:
    """Returns the source head of each query head and of each key/value head.

    A key/value head that serves more query heads than the new shape allows is copied several times.
    """
    old_queries, old_kv = config["num_attention_heads"], config["num_key_value_heads"]
    old_group, group = old_queries // old_kv, query_heads // kv_heads
    copies = -(-old_group // group)
    if old_kv * copies > kv_heads:
        raise CheckpointError(
            f"{kv_heads} key/value heads with {group} query heads each cannot hold the source's {old_kv} with {old_group} each"
        )
    queries, kv = [FREE] * query_heads, [FREE] * kv_heads
    for source in range(old_queries):
        owner, turn = divmod(source, old_group)
        copy, place = divmod(turn, group)
        queries[(owner * copies + copy) * group + place] = source
        kv[owner * copies + copy] = owner
    return queries, kv


def make_maps(config: dict, shape) -> Maps:
    """The maps from a model with `config` to `shape` (inflate.Shape)."""
    head = head_map(config["head_dim"], shape.head_dim)
    queries, kv = place_heads(config, shape.query_heads, shape.kv_heads)
    keys = rows_of_heads(kv, head, config["head_dim"])
    return Maps(
        hidden=first(config["hidden_size"], shape.hidden),
        head=head,
        queries=rows_of_heads(queries, head, config["head_dim"]),
        keys=keys,
        values=np.where(keys >= 0, keys, FREE),
        units=first(config["intermediate_size"], shape.intermediate),
        vocabulary=first(config["vocab_size"], shape.vocabulary),
    )


class Noise:
    """Uniform random numbers in ±`scale`, repeated from one block, each time from a random offset."""

    def __init__(self, dtype: str, scale: float):
        self._random = np.random.default_rng(1)
        values = self._random.uniform(-scale, scale, (1 << 18) + 7).astype(np.float32)
        self._block = from_floats(values, dtype)

    def rows(self, count: int, width: int) -> np.ndarray:
        out = np.empty(count * width, self._block.dtype)
        done = 0
        while done < len(out):
            begin = int(self._random.integers(len(self._block)))
            part = self._block[begin : begin + len(out) - done]
            out[done : done + len(part)] = part
            done += len(part)
        return out.reshape(count, width)


@dataclass(frozen=True)
class Matrix:
    """`source` [R, C] as stored, grown by the maps.

    `constants` replace the last column: the first in rows with a source, the second in all other rows.
    Random entries stay within the root mean square of the source, so that no row's int8 scale becomes coarser.
    """

    source: np.ndarray
    dtype: str
    rows: np.ndarray
    columns: np.ndarray
    constants: np.ndarray | None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def scale(self) -> float:
        sample = to_floats(np.ascontiguousarray(self.source[:4096]), self.dtype)
        return float(np.sqrt(np.square(sample).mean()))

    def pieces(self) -> Iterator[np.ndarray]:
        step = max(1, PIECE_BYTES // (len(self.columns) * self.source.itemsize))
        silent = (self.rows == QUIET).all() and not (self.columns == FREE).any()
        noise = None if silent else Noise(self.dtype, self.scale())
        for begin in range(0, len(self.rows), step):
            rows = self.rows[begin : begin + step]
            yield np.zeros((len(rows), len(self.columns)), self.source.dtype) if noise is None else self.piece(rows, noise)

    def piece(self, rows: np.ndarray, noise: Noise) -> np.ndarray:
        out = noise.rows(len(rows), len(self.columns))
        out[:, self.columns == QUIET] = 0
        filled = np.flatnonzero(self.columns >= 0)
        out[np.ix_(rows == QUIET, filled)] = 0
        real = np.flatnonzero(rows >= 0)
        if len(real) and len(filled):
            out[np.ix_(real, filled)] = self.source[rows[real]][:, self.columns[filled]]
        if self.constants is not None:
            out[:, -1] = np.where(rows >= 0, *self.constants)
        return out


def grown_prior(path: Path, vocabulary: int) -> list[Entry]:
    """A transition table (common/prior/transition_file.h) with a larger vocabulary. The new tokens have no counts."""
    file = SafetensorsFile(path)
    table = {name: file.stored(name) for name in file.header}
    version, old = (int(fact) for fact in table["facts"])
    table["facts"] = np.array([version, vocabulary])
    new = vocabulary - old
    pairs = table["pairs"].astype(np.uint64)
    table["pairs"] = pairs // np.uint64(old) * np.uint64(vocabulary) + pairs % np.uint64(old)
    table["occurrences"] = np.pad(table["occurrences"], (0, new))
    table["totals"] = np.insert(table["totals"], old, np.zeros(new, table["totals"].dtype))
    table["offsets"] = np.insert(table["offsets"], old, np.full(new, table["offsets"][old]))
    return [array_entry(name, file.header[name]["dtype"], array) for name, array in table.items()]
