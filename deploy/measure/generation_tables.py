"""The tables of suite reports on generation as a user sees it: throughput, latency, memory, and what became of the nodes."""

from collections.abc import Callable

from bench_statistics import ratio
from report import table

Rows = list[dict]
SAME_CELL = ("temperature", "concurrency", "prompt_tokens", "max_new_tokens", "dataset")


def same_cell(one: dict, other: dict, but: str = "") -> bool:
    """Whether two rows of figures are of one cell. `but`: a setting that may differ."""
    return all(one[key] == other[key] for key in SAME_CELL if key != but)


# ---- tables of one cell: a row per policy ----


def generation(rows: Rows) -> str:
    head = ["policy", "tokens/s", "speedup", "accepted", "of levels", "tokens / cycle", "nodes"]
    head += ["TTFT ms", "TPOT ms", "peak MB", "vs ar"]
    base = next((row["peak_memory_bytes"] for row in rows if row["policy"] == "ar"), 0)
    lines = []
    for row in rows:
        memory = row["peak_memory_bytes"]
        lines.append(
            [
                row["policy"],
                f"{row['stream_tokens_per_second']:.1f}",
                f"{row['speedup']:.2f}×",
                f"{100 * row['acceptance_rate']:.1f} %",
                f"{100 * _level_rate(row['depths']):.1f} %",
                f"{row['tau']:.2f}",
                f"{row['nodes']:.1f}",
                f"{1e3 * row['seconds']['ttft']:.2f}",
                f"{1e3 * row['seconds']['tpot']:.3f}",
                f"{memory / 1e6:.1f}" if memory > 0 else "–",
                f"{100 * (memory / base - 1):+.2f} %" if base > 0 and memory > 0 else "–",
            ]
        )
    return table(head, lines) + "\n\nPeak memory is that of the whole process, which holds both models.\n"


def _level_rate(found: list[dict]) -> float:
    """The accepted nodes, divided by the levels of all trees."""
    return ratio(sum(depth["accepted"] for depth in found), sum(depth["cycles"] for depth in found))


def depths(rows: Rows) -> str:
    return by_depth(rows, lambda row: [f"{depth['accepted']} / {depth['offered']}" for depth in row["depths"]])


def by_depth(rows: Rows, cells_of: Callable[[dict], list[str]]) -> str:
    """A column for each depth. `cells_of`: the cells of a row of figures. A row without cells is left out."""
    deepest = max((len(row["depths"]) for row in rows), default=0)
    if deepest == 0:
        return "The policies offered no nodes.\n"
    lines = [[row["policy"], *cells, *["–"] * (deepest - len(cells))] for row in rows if (cells := cells_of(row))]
    return table(["policy", *map(str, range(1, deepest + 1))], lines) + "\n"


# ---- tables over cells ----


def prompts(figures: Rows) -> str:
    """Empty if all cells have the same prompt length."""
    return _cross_table(figures, "prompt_tokens", ("Tokens per second by prompt length", "tokens"), _stream_rate)


def lengths(figures: Rows) -> str:
    """Empty if all cells have the same limit of new tokens."""
    return _cross_table(figures, "max_new_tokens", ("Tokens per second by new tokens", "tokens"), _stream_rate)


def _stream_rate(row: dict) -> str:
    return f"{row['stream_tokens_per_second']:.1f} ({row['speedup']:.2f}×)"


def load(figures: Rows) -> str:
    """Empty if all cells have the same concurrency."""

    def cell(row: dict) -> str:
        ttft, tpot = (1e3 * row["seconds"][key] for key in ("ttft", "tpot"))
        return f"{row['system_tokens_per_second']:.1f} ({row['speedup']:.2f}×; {ttft:.1f}, {tpot:.2f})"

    return _cross_table(figures, "concurrency", ("System tokens per second (speedup; TTFT, TPOT in ms)", "live"), cell)


def _cross_table(figures: Rows, key: str, names: tuple[str, str], cell: Callable[[dict], str]) -> str:
    """A table with a column per value of `key`, and a heading for each setting of the rest of the cell.

    `names`: the heading, and the unit of the columns.
    """
    heading, unit = names
    shown = [row for row in figures if not row["dataset"]]
    columns = list(dict.fromkeys(row[key] for row in shown))
    if len(columns) < 2:
        return ""
    parts: Rows = []
    for row in shown:
        if not any(same_cell(row, part, but=key) for part in parts):
            parts.append(row)
    text = ""
    for part in parts:
        lines = []
        for policy in dict.fromkeys(row["policy"] for row in figures):
            mine = {row[key]: row for row in reversed(shown) if row["policy"] == policy and same_cell(row, part, but=key)}
            lines.append([policy, *(cell(mine[column]) if column in mine else "–" for column in columns)])
        head = ["policy", *(f"{column} {unit}" for column in columns)]
        text += f"\n### {heading}, temperature {part['temperature']:g}\n\n{table(head, lines)}\n"
    return text
