"""The tables of suite reports, in the form of the papers, as Markdown. They read the figures of suite_figures.py.

TABLES lists them by the names that suites use; docs/experiments.md says which table or figure of a paper each one repeats.
"""

import math
from collections.abc import Callable

from accuracy_tables import reach
from bench_statistics import ratio
from generation_tables import Rows, depths, generation, lengths, load, prompts, same_cell
from report import table

SAME_SIZE = 0.1  # Largest relative difference of the nodes of two trees that the table "topology" compares.


def suite_table(name: str, figures: Rows) -> str:
    """The table `name` of these figures, with a heading for each cell. Empty if there is nothing to show."""
    heading, draw = TABLES[name]
    if draw is None:
        return ""
    if name in WHOLE:
        return draw(figures, {})
    cells: list[dict] = []
    for row in figures:
        if not row["dataset"] and not any(same_cell(row, cell) for cell in cells):
            cells.append(row)
    return "".join(f"\n### {heading}, {_cell_name(figures, cell)}\n\n{draw(figures, cell)}" for cell in cells)


def oracle(figures: Rows, cell: dict) -> dict | None:
    """The fastest policy of a cell with a fixed budget ("fixed:N"), chosen after the measurement. None if there is none."""
    return max(
        (row for row in figures if same_cell(row, cell) and _is_fixed(row)), key=lambda row: row["speedup"], default=None
    )


def latency_table(latency: dict) -> str:
    """The errors of the latency models (BASTION, figure 9a), with a heading. Empty without points."""
    points = latency["points"]
    if not points:
        return ""
    by_context = {context: [p for p in points if p["context"] == context] for context in sorted({p["context"] for p in points})}
    rows = [_error_row(str(context), some) for context, some in by_context.items()]
    return (
        "\n### Latency models\n\n"
        f"Static: T = a·R + b with a = {latency['slope']:.3g}, b = {1e3 * latency['intercept']:.3g} ms.\n\n"
        + table(["context", "points", "RMSE of R, ms", "RMSE of Static, ms", "cut"], [*rows, _error_row("all", points)])
        + "\n"
    )


def _error_row(label: str, points: list[dict]) -> list[str]:
    def rmse(model: str) -> float:
        """In milliseconds."""
        squares = 0.0
        for point in points:
            squares += (point[model] - point["seconds"]) ** 2
        return 1e3 * math.sqrt(squares / len(points))

    bare, fitted = rmse("roofline_seconds"), rmse("static_seconds")
    return [label, str(len(points)), f"{bare:.3f}", f"{fitted:.3f}", f"{100 * (1 - fitted / bare) if bare > 0 else 0:.0f} %"]


# ---- parts of tables ----


def _is_fixed(row: dict) -> bool:
    """Whether the row is a budget of the suite's own drafter. "fixed:60@medusa" is not: it compares drafters."""
    return row["policy"].startswith("fixed:") and "@" not in row["policy"]


def _cell_name(figures: Rows, cell: dict) -> str:
    """The cell as text: "temperature 1, concurrency 2, prompts of 800 tokens"."""
    name = f"temperature {cell['temperature']:g}"
    if cell["concurrency"] > 1:
        name += f", concurrency {cell['concurrency']}"
    if len({row["max_new_tokens"] for row in figures}) > 1:
        name += f", {cell['max_new_tokens']} new tokens"
    return name + (f", prompts of {cell['prompt_tokens']} tokens" if cell["prompt_tokens"] > 0 else "")


def _rows_of(figures: Rows, cell: dict) -> Rows:
    return [row for row in figures if same_cell(row, cell)]


def _datasets(figures: Rows, cell: dict) -> list[dict]:
    """The cell for each of its datasets, in the order of the figures, or the cell itself if it has none."""
    wanted = cell | {"dataset": ""}
    found = dict.fromkeys(row["dataset"] for row in figures if row["dataset"] and same_cell(row | {"dataset": ""}, wanted))
    return [cell | {"dataset": name} for name in found or [""]]


def _speedup(row: dict) -> str:
    """The speedup with its interval if it has one: "4.31× (4.02–4.60)"."""
    if row["speedup"] <= 0:
        return "–"
    interval = row["speedup_95"]
    return f"{row['speedup']:.2f}×" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def _mean(rows: Rows, key: str) -> float:
    result = 0.0
    for row in rows:
        result += row[key] / len(rows)
    return result


def _weighted_mean(rows: Rows, key: str) -> float:
    share, result = 1 / len(rows), 0.0
    for row in rows:
        result += share * row[key]
    return result


# ---- tables of a cell ----


def _dataset_row(name: str, found: list[dict | None]) -> list[list[str]]:
    """The figures of each dataset, then their means. No row if a dataset has none."""
    rows = [row for row in found if row is not None]
    if len(rows) < len(found):
        return []
    line = [name]
    for row in rows:
        line += [_speedup(row) + ("" if name == row["policy"] else f", {row['policy']}"), f"{row['tau']:.2f}"]
    if len(rows) > 1:
        line += [f"{_mean(rows, 'speedup'):.2f}×", f"{_mean(rows, 'tau'):.2f}"]
    return [line]


def _by_dataset(figures: Rows, cell: dict) -> str:
    cells = _datasets(figures, cell)
    head = ["policy"]
    for part in cells:
        head += [part["dataset"] or "all prompts", "τ"]
    head += ["mean", "τ"] if len(cells) > 1 else []
    lines = []
    for first in _rows_of(figures, cell):
        policy = first["policy"]
        if policy != "ar" and not _is_fixed(first):
            found = [next((row for row in _rows_of(figures, part) if row["policy"] == policy), None) for part in cells]
            lines += _dataset_row(policy, found)
    lines += _dataset_row("oracle", [oracle(figures, part) for part in cells])
    return table(head, lines) + "\n"


def _policies(figures: Rows, cell: dict) -> str:
    """A row per policy, without the oracle."""
    rows = [
        [row["policy"], _speedup(row), f"{row['tau']:.2f}", f"{row['nodes']:.1f}", f"{100 * row['acceptance_rate']:.1f} %"]
        for row in _rows_of(figures, cell)
    ]
    return table(["policy", "speedup (95 % interval)", "τ", "nodes", "accepted"], rows) + "\n"


def _budgets(figures: Rows, cell: dict) -> str:
    """With the mean over the datasets of the fastest fixed budget of each."""
    text = _policies(figures, cell)
    found = [oracle(figures, part) for part in _datasets(figures, cell)]
    best = [row for row in found if row is not None]
    if len(best) < len(found):
        return text
    speedup, tau, nodes = (_weighted_mean(best, key) for key in ("speedup", "tau", "nodes"))
    return f"{text}| oracle | {speedup:.2f}× | {tau:.2f} | {nodes:.1f} | |\n"


def _stages(figures: Rows, cell: dict) -> str:
    rows = []
    for row in _rows_of(figures, cell):
        seconds = row["seconds"]
        # T_aux: tree construction, cache update and transport (BASTION, section 2.1).
        aux = seconds["tree"] + seconds["commit"] + seconds["transfer"] + seconds["verify_queue"]
        shown = (seconds["draft"], aux, seconds["verify"], seconds["draft"] + aux + seconds["verify"])
        times = [f"{1e3 * each:.3f}" for each in shown]
        share = f"{100 * ratio(seconds['draft'], shown[-1]):.0f} %"
        rows.append([row["policy"], f"{row['nodes'] + 1:.1f}", f"{row['tau']:.2f}", *times, share])
    return table(["policy", "rows", "τ", "draft ms", "aux ms", "verify ms", "cycle ms", "draft"], rows) + "\n"


def _topology(figures: Rows, cell: dict) -> str:
    """Pairs beam trees with best-first trees of about the same mean size."""
    rows, pairs = _rows_of(figures, cell), ""
    for beam in (row for row in rows if row["policy"].startswith("beam:")):
        for other in filter(_is_fixed, rows):
            difference = other["nodes"] - beam["nodes"]
            if abs(difference) > SAME_SIZE * beam["nodes"]:
                continue
            speed, tau = (100 * (other[key] / beam[key] - 1) for key in ("speedup", "tau"))
            pairs += (
                f"\n{other['policy']} against {beam['policy']}: nodes {100 * difference / beam['nodes']:+.1f} %, "
                f"speed {speed:+.1f} %, τ {tau:+.1f} %.\n"
            )
    return _policies(figures, cell) + (pairs or "\nNo best-first tree has the size of a beam.\n")


def _correlation(figures: Rows, cell: dict) -> str:
    lengths = [(row["policy"], row["expected_length"]) for row in _rows_of(figures, cell)]
    rows = [
        [policy, str(length["cycles"]), f"{length['pearson']:.3f}", f"{length['spearman']:.3f}"]
        for policy, length in lengths
        if length["cycles"] > 0
    ]
    return table(["policy", "cycles", "Pearson", "Spearman"], rows) + "\n"


def _histogram(figures: Rows, cell: dict) -> str:
    found = _rows_of(figures, cell)
    lengths = range(1, max([1, *(length for row in found for length, _ in row["committed_lengths"])]) + 1)
    rows = []
    for row in found:
        counts = dict(row["committed_lengths"])
        cycles = sum(counts.values())
        if cycles > 0 and row["policy"] != "ar":
            shares = [f"{100 * counts.get(length, 0) / cycles:.1f} %" for length in lengths]
            rows.append([row["policy"], f"{row['tau']:.2f}", *shares])
    return table(["policy", "τ", *map(str, lengths)], rows) + "\n"


# By name: the heading of each cell, and the table of a cell. None: not made of figures, see latency_table and
# accuracy_tables.py.
TABLES: dict[str, tuple[str, Callable[[Rows, dict], str] | None]] = {
    "datasets": ("Speedup by dataset", _by_dataset),
    "budgets": ("Budgets", _budgets),
    "stages": ("Stages of a cycle", _stages),
    "topology": ("Shapes of trees", _topology),
    "estimators": ("Latency estimators", _policies),
    "correlation": ("Expected and accepted length", _correlation),
    "histogram": ("Cycles by committed length", _histogram),
    "generation": ("Generation", lambda figures, cell: generation(_rows_of(figures, cell))),
    "depths": ("Nodes by depth, accepted / offered", lambda figures, cell: depths(_rows_of(figures, cell))),
    "prompts": ("", lambda figures, _: prompts(figures)),
    "lengths": ("", lambda figures, _: lengths(figures)),
    "load": ("", lambda figures, _: load(figures)),
    "reach": ("Acceptance by depth, after accepted nodes", lambda figures, cell: reach(_rows_of(figures, cell))),
    "latency": ("", None),
    "blocks": ("", None),
    "ranks": ("", None),
}
# Tables over all cells, with headings of their own.
WHOLE = ("prompts", "lengths", "load")
