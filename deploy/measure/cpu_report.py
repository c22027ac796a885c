"""The bars of the CPU figures, and the report: figures.json, figures.md and two plots."""

from pathlib import Path

import plots
import report
from bars import Bar, Verdict, judge

QUIET = 0.05  # Maximum share of CPU time that other programs may use. Above it, a run is unreliable.
AMX, NO_AMX = "AMX", "no AMX"

BARS = [
    Bar("machine.decode", "plain step of the inflated pair: share of the measured read bandwidth", 0.85, "%"),
    Bar(
        "machine.rows16", "verify of 16 rows, relative to one row, inflated pair, with AMX", 1.15, "×", at_most=True, needs=AMX
    ),
    Bar("machine.rows32", "verify of 32 rows, relative to one row, inflated pair, with AMX", 1.5, "×", at_most=True, needs=AMX),
    Bar("machine.rows64", "verify of 64 rows, relative to one row, inflated pair, with AMX", 1.7, "×", at_most=True, needs=AMX),
    Bar(
        "machine.rows4",
        "verify of 4 rows, relative to one row, inflated pair, without AMX",
        1.2,
        "×",
        at_most=True,
        needs=NO_AMX,
    ),
    Bar(
        "machine.rows8",
        "verify of 8 rows, relative to one row, inflated pair, without AMX",
        2.0,
        "×",
        at_most=True,
        needs=NO_AMX,
    ),
    Bar("inflated.adaptive_amx", "`adaptive`, relative to plain decoding, inflated pair, with AMX", 2.0, "×", needs=AMX),
    Bar("inflated.adaptive", "`adaptive`, relative to plain decoding, inflated pair, without AMX", 1.3, "×", needs=NO_AMX),
    Bar("inflated.share", "every policy's share of τ·T_AR/(T_verify+T_draft), inflated pair", 0.85, "%"),
    Bar("demo.share", "every policy's share of τ·T_AR/(T_verify+T_draft), demo pair", 0.85, "%"),
    Bar("demo.host", "host's share of a cycle (tree, commit, transfer), demo pair", 0.05, "%", at_most=True),
    Bar("llama.demo", "plain decoding, relative to llama.cpp in bf16, demo pair", 1.0, "×"),
    Bar("llama.inflated", "plain decoding, relative to llama.cpp in bf16, inflated pair", 1.2, "×"),
    Bar(
        "llama.speculative_demo",
        "best policy, relative to llama.cpp's plain decoding, demo pair, with AMX",
        1.5,
        "×",
        needs=AMX,
    ),
    Bar(
        "llama.speculative", "best policy, relative to llama.cpp's plain decoding, inflated pair, with AMX", 1.5, "×", needs=AMX
    ),
    Bar("ddtree.best", "best policy in process, relative to DDTree's published code at its best budget, demo pair", 8.0, "×"),
    Bar("services.inline_adaptive", "tokens/s through services over gRPC, relative to in process, `adaptive`", 0.8, "%"),
    Bar("services.inline_default", "tokens/s through services over gRPC, relative to in process, `default`", 0.8, "%"),
    Bar(
        "services.shared_adaptive", "tokens/s through services over shared memory, relative to in process, `adaptive`", 0.8, "%"
    ),
    Bar("services.shared_default", "tokens/s through services over shared memory, relative to in process, `default`", 0.8, "%"),
    Bar("transport.shared", "a cycle's messages over shared memory, without compute: largest p50", 120, "µs", at_most=True),
    Bar("transport.inline", "a cycle's messages over gRPC, without compute: largest p50", 400, "µs", at_most=True),
    Bar("startup.seconds", "start of three services until SERVING, demo pair, median", 3.0, "s", at_most=True),
    Bar("counts.failed", "counts of a cycle above their limits", 0, "", at_most=True),
]
LIMITS = {bar.key: bar.limit for bar in BARS}


def judge_bar(bar: Bar, sections: dict, amx: bool) -> Verdict:
    """`sections`: those of figures.json, by name."""
    here = AMX if amx else NO_AMX
    excluded = f"this CPU has {here}" if bar.needs not in ("", here) else ""
    section = sections.get(bar.key.split(".")[0])
    if section is None:
        return judge(bar, None, excluded=excluded, absent="not run: its section was not chosen")
    absent = section["why"] or "not run: see its section"
    return judge(bar, section["measured"].get(bar.key), excluded=excluded, absent=absent)


def judge_all(sections: dict, amx: bool) -> list[Verdict]:
    return [judge_bar(bar, sections, amx) for bar in BARS]


def all_met(sections: dict, amx: bool) -> bool:
    """Whether every judged bar was met and no section failed."""
    missed = any(verdict.outcome == "missed" for verdict in judge_all(sections, amx))
    return not missed and not any(section["why"].startswith("failed") for section in sections.values())


def circumstances(section: dict) -> str:
    """When and how long the section ran, and how much CPU time other programs used."""
    others = f"other programs used {100 * section['others']:.0f} % of the CPUs"
    if section["others"] > QUIET and not section["why"]:
        others += ": **the machine was busy; run this section again**"
    return f"{'short' if section['quick'] else 'full'} run of {section['when']}, {section['seconds']:.0f} s; {others}."


def section_texts(sections: dict, titles: dict[str, str]) -> list[str]:
    """The Markdown of every section that ran, in the order of `titles`."""
    parts = []
    for name, title in titles.items():
        section = sections.get(name)
        if section is not None:
            parts += [f"## {title}", f"`{name}`: {circumstances(section)}", section["why"], section["text"]]
    return parts


def ratio_panels(sections: dict) -> list[plots.BarPanel]:
    """A panel for each engine that bastion is compared with. The dashed line is the required ratio."""
    panels = []

    def add(title: str, ratios: dict[str, float] | None, limit: float) -> None:
        if ratios:
            labels = {name: f"{ratio:.2f}×" for name, ratio in ratios.items()}
            title = f"tokens/s relative to {title} (dashed: required, {limit:g}×)"
            panels.append(plots.BarPanel(title, ratios, labels, baseline=1.0, limit=limit))

    for pair in ("demo", "inflated"):
        add(
            f"llama.cpp's plain decoding in bf16, {pair} pair",
            sections.get("llama", {}).get("numbers", {}).get(pair),
            LIMITS[f"llama.{pair}"],
        )
    add(
        "DDTree's code at its best budget, demo pair",
        sections.get("ddtree", {}).get("numbers", {}).get("ratios"),
        LIMITS["ddtree.best"],
    )
    return panels


def verify_series(sections: dict) -> dict[str, dict[int, float]]:
    """For the plot: verify time by rows, relative to one row, for each pair."""
    numbers = sections.get("machine", {}).get("numbers", {})
    return {
        f"{pair} pair": {int(rows): value for rows, value in numbers[pair].items()}
        for pair in ("inflated", "demo")
        if pair in numbers
    }


def draw(figures: dict, folder: Path) -> list[Path]:
    sections, here = figures["sections"], AMX if figures["amx"] else NO_AMX
    limits = {
        int(bar.key.removeprefix("machine.rows")): bar.limit
        for bar in BARS
        if bar.key.startswith("machine.rows") and bar.needs == here
    }
    return plots.save(
        {
            "ratios": plots.bar_chart(ratio_panels(sections)),
            "verify": plots.verify_chart(verify_series(sections), limits, f"at most, inflated pair, CPU with {here}"),
        },
        folder,
        figures["device"],
    )


def write(figures: dict, titles: dict[str, str], folder: Path) -> list[Verdict]:
    """Writes figures.json, figures.md and the plots. `titles`: the title of each section, in the order of the report."""
    verdicts = judge_all(figures["sections"], figures["amx"])
    paragraphs = report.page(
        "Figures", [figures["settings"]], verdicts, draw(figures, folder), section_texts(figures["sections"], titles)
    )
    report.write(folder, "figures", {**figures, "bars": [verdict.as_json() for verdict in verdicts]}, paragraphs)
    return verdicts
