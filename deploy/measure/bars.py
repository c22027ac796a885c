"""Bars: limits that measured figures must meet, and verdicts. The CPU figures and the GPU run share them."""

from dataclasses import dataclass

FORMATS = {
    "%": lambda value: f"{100 * value:.1f} %",
    "×": lambda value: f"{value:.2f}×",
    "µs": lambda value: f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} µs",
    "s": lambda value: f"{value:.1f} s",
    "tokens/s": lambda value: f"{value:.0f} tokens/s",
    "": lambda value: f"{value:g}",
}


@dataclass(frozen=True)
class Bar:
    """One requirement on one figure.

    `key` names the figure. In the CPU figures it begins with the name of a section.
    `needs` names a condition, such as "AMX". The bar is judged only where the condition holds.
    """

    key: str
    what: str
    limit: float
    unit: str  # A key of FORMATS; "" for a count.
    at_most: bool = False  # Whether `limit` is the largest value allowed. Default: the smallest.
    needs: str = ""

    @property
    def required(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {FORMATS[self.unit](self.limit)}"

    def is_met(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Verdict:
    """A bar, its measured value, and the outcome: "met", "missed", or why the bar was not judged."""

    bar: Bar
    value: float | None
    note: str
    outcome: str

    @property
    def measured(self) -> str:
        if self.value is None:
            return "–"
        return FORMATS[self.bar.unit](self.value) + (f" ({self.note})" if self.note else "")

    def as_json(self) -> dict:
        return {
            "key": self.bar.key,
            "what": self.bar.what,
            "required": self.bar.required,
            "value": self.value,
            "note": self.note,
            "measured": self.measured,
            "verdict": self.outcome,
        }


def measured(value: float, note: str = "") -> dict:
    """The figure for one bar, in the form of the JSON files."""
    return {"value": value, "note": note}


def judge(bar: Bar, found: dict | None, *, excluded: str = "", absent: str = "not run") -> Verdict:
    """Compares `found` (from measured()) with the bar.

    `excluded`: why the bar does not apply to this machine. Empty: it applies.
    `absent`: the outcome to report when nothing was measured.
    """
    value, note = (found["value"], found["note"]) if found else (None, "")
    if excluded:
        return Verdict(bar, value, note, f"not judged: {excluded}")
    if value is None:
        return Verdict(bar, None, "", absent)
    return Verdict(bar, value, note, "met" if bar.is_met(value) else "missed")
