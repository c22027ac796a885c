"""Writes reports: a JSON file for programs and a Markdown page for people. The CPU figures and the GPU run use it."""

import json
from pathlib import Path

from bars import Verdict
from program_output import HOST_STAGES


def table(head: list[str], rows: list[list[str]], text_columns: tuple[int, ...] = (0,)) -> str:
    """A Markdown table. Columns in `text_columns` align left, all others right."""
    rule = "|".join("---" if column in text_columns else "--:" for column in range(len(head)))
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def bars_table(verdicts: list[Verdict]) -> str:
    rows = [
        [
            verdict.bar.what,
            verdict.bar.required,
            verdict.measured,
            "**missed**" if verdict.outcome == "missed" else verdict.outcome,
        ]
        for verdict in verdicts
    ]
    return table(["bar", "required", "measured", "verdict"], rows, text_columns=(0, 3))


def policies_table(rows: list[dict]) -> str:
    """`rows`: from program_output.policies()."""
    head = [
        "policy",
        "tokens/s",
        "vs ar",
        "share of ideal",
        "τ",
        "nodes",
        "draft ms",
        "verify ms",
        "host ms",
        "host share",
        "verify prediction error",
        "different texts",
    ]
    return table(
        head,
        [
            [
                row["policy"],
                number(row["rate"], 1),
                number(row["speedup"], 2, "×"),
                f"{percent(row['share'])} of {number(row['ideal'], 2, '×')}",
                number(row["tau"]),
                number(row["nodes"], 1),
                number(row["draft"], 3),
                number(row["verify"], 3),
                number(sum(row[stage] for stage in HOST_STAGES), 3),
                percent(row["host"]),
                percent(row["prediction_error"]),
                f"{row['differing']} of {row['prompts']}",
            ]
            for row in rows
        ],
    )


def page(title: str, intro: list[str], verdicts: list[Verdict], plots: list[Path], sections: list[str]) -> list[str]:
    """The paragraphs of a report: the bars and the plots come before the sections."""
    pictures = [f"![{path.stem}]({path.name})" for path in plots]
    return [f"# {title}", *intro, bars_table(verdicts), *pictures, *sections]


def write(folder: Path, name: str, numbers: dict, paragraphs: list[str]) -> None:
    """Writes folder/NAME.json and folder/NAME.md."""
    (folder / f"{name}.json").write_text(json.dumps(numbers, indent=1) + "\n")
    (folder / f"{name}.md").write_text("\n\n".join(part for part in paragraphs if part) + "\n")
