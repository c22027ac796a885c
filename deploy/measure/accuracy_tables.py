"""Tables of how often drafters are right: by block and position, by rank, and by depth of a tree (SpecBlock, figure 5, table 3).

The counts come from drafter_service/replay/block_accuracy.h.
"""

from bench_statistics import ratio
from generation_tables import Rows, by_depth
from report import table

BUCKETS = ("rank 1", "ranks 2 to 4", "ranks 5 to 10", "beyond 10")


def reach(rows: Rows) -> str:
    """The share of the cycles with a node at depth k that accepted one there, of those that accepted one at k - 1."""
    return by_depth(rows, lambda row: [f"{share:.3f}" for share in reached_shares(row)])


def reached_shares(row: dict, least: int = 1) -> list[float]:
    """α_k by depth, from 1, as far as `least` cycles came."""
    return [ratio(depth["accepted"], depth["reached"]) for depth in row["depths"] if depth["reached"] >= least]


def accuracy_table(name: str, accuracies: list[dict]) -> str:
    """The table "blocks" or "ranks", with a heading. Empty without counts."""
    text = "".join(_DRAW[name](found) for found in accuracies)
    return f"\n### {_HEADINGS[name]}\n{text}" if text else ""


def drafter_label(found: dict) -> str:
    return found["drafter"] or "the suite's drafter"


def _blocks(found: dict) -> str:
    if not found["blocks"]:
        return ""
    positions = max(map(len, found["blocks"]))
    lines = []
    for number, block in enumerate(found["blocks"]):
        cells = [f"{ratio(right, tried):.3f} of {tried}" for tried, right in block if tried > 0]
        lines.append([str(number + 1), *cells, *["–"] * (positions - len(cells))])
    return f"\n{drafter_label(found)}:\n\n" + table(["block", *map(str, range(1, positions + 1))], lines) + "\n"


def _ranks(found: dict) -> str:
    """Rows: the bucket of the target's token. Precision and recall: those of the rank head for this bucket."""
    counts = found["buckets"]
    total = sum(map(sum, counts))
    if total == 0:
        return ""
    lines = []
    for bucket, name in enumerate(BUCKETS):
        true, predicted, both = sum(counts[bucket]), sum(row[bucket] for row in counts), counts[bucket][bucket]
        precision, recall = ratio(both, predicted), ratio(both, true)
        f1 = ratio(2 * precision * recall, precision + recall)
        lines.append([name, f"{100 * true / total:.1f} %", f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}"])
    head = ["target's token", "share", "precision", "recall", "F1"]
    return f"\n{drafter_label(found)}, {total} positions:\n\n" + table(head, lines) + "\n"


_HEADINGS = {"blocks": "Accuracy by block and position", "ranks": "Rank head"}
_DRAW = {"blocks": _blocks, "ranks": _ranks}
