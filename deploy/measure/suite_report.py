"""The report of a suite: results.json and report.md, from the measurements of bastion-bench.

A report has one panel for each machine and pair of models. Merging reports joins their panels.
"""

import json
from pathlib import Path

from accuracy_tables import accuracy_table
from suite_figures import suite_figures
from suite_tables import latency_table, suite_table

PANEL = ("device", "target", "drafter", "mode", "same_texts", "figures", "latency")


class NotASuite(Exception):
    """The results are not those of a suite, or do not fit the others. The text says why."""


def results(measurements: dict) -> dict:
    """The content of results.json, with one panel."""
    set_limits(measurements["suite"], measurements["runs"])
    panel = {key: measurements[key] for key in ("device", "target", "drafter", "mode", "same_texts", "latency")}
    panel |= {key: measurements[key] for key in ("left_out", "accuracies")}
    panel |= {"figures": suite_figures(measurements), "runs": _runs(measurements)}
    return {"suite": measurements["suite"], "panels": [panel]}


def markdown(results: dict) -> str:
    """The content of report.md: the suite, what the paper reports, and for each panel its tables."""
    suite = results["suite"]
    text = f"# {suite['name']}: {suite['title']}\n"
    if suite["paper"]:
        text += f"\n{suite['paper']} reports:\n\n"
    text += "".join(f"- {statement}\n" for statement in suite["reported"])
    if suite["policies"]:
        text += (
            f"\nAt most {', '.join(map(str, suite['max_new_tokens']))} new tokens. Warm-up prompts per policy: {suite['warmup']}. "
            f"Rounds: {suite['rounds']}. Seeds: {len(suite['seeds'])}.\n"
        )
    return text + "".join(_panel_markdown(suite, panel) for panel in results["panels"])


def merge(folders: list[Path]) -> dict:
    """Joins the reports in `folders` to one, in this order. NotASuite if two are of different suites or of the same machine."""
    merged: dict = {}
    seen: set[tuple[str, str, str]] = set()
    for folder in folders:
        found = _read(folder / "results.json")
        merged = merged or {"suite": found["suite"], "panels": []}
        name, first = found["suite"]["name"], merged["suite"]["name"]
        if name != first:
            raise NotASuite(f"{folder} has the suite {name}, but {folders[0]} has {first}; merge reports of one suite")
        for panel in found["panels"]:
            key = panel["device"], panel["target"], panel["drafter"]
            if key in seen:
                raise NotASuite(
                    f"{folder} has the same device and models as an earlier folder: {panel['device']}; leave one of them out"
                )
            seen.add(key)
            merged["panels"].append(panel)
    return merged


def _read(file: Path) -> dict:
    if not file.exists():
        raise NotASuite(f"{file}: cannot read the file; name a folder that a suite wrote")
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise NotASuite(f"{file}: not the results of a suite ({error})") from error
    panels = found.get("panels") if isinstance(found, dict) else None
    if not panels or "name" not in found.get("suite", {}) or not all(key in panel for panel in panels for key in PANEL):
        raise NotASuite(f"{file}: not the results of a suite (it lacks the suite or the figures of a panel)")
    set_limits(found["suite"], [row for panel in panels for row in panel["figures"]])
    return found


def set_limits(suite: dict, rows: list[dict]) -> None:
    """Files of release 0.2 have one limit of new tokens, in the suite alone. Adds it to the rows."""
    limit = suite["max_new_tokens"]
    if isinstance(limit, int):
        suite["max_new_tokens"] = [limit]
        for row in rows:
            row["max_new_tokens"] = limit


def _panel_markdown(suite: dict, panel: dict) -> str:
    text = f"\n## {panel['device']}, target {panel['target']}, drafter {panel['drafter']}, {panel['mode']}\n"
    # Files of release 0.2 have neither.
    left_out, accuracies = panel.get("left_out", []), panel.get("accuracies", [])
    text += "".join(f"\n{sentence}.\n" for sentence in left_out)
    text += "".join(suite_table(name, panel["figures"]) for name in suite["tables"]) + latency_table(panel["latency"])
    text += "".join(accuracy_table(name, accuracies) for name in ("blocks", "ranks") if name in suite["tables"])
    if not panel["figures"]:
        return text
    same = "Every policy generated the same tokens." if panel["same_texts"] else "**Outputs differ between policies.**"
    return f"{text}\n{same}\n"


def _runs(measurements: dict) -> list[dict]:
    """The measurements request by request, for readers. Reports do not use them."""
    return [
        {key: run[key] for key in ("temperature", "seed", "prompt_tokens", "max_new_tokens")}
        | {
            "concurrency": level["concurrency"],
            "policy": arm["policy"],
            "requests": [
                _request(request, measurements["datasets"][request["id"]])
                for one in arm["rounds"]
                for request in one["requests"]
            ],
        }
        for run in measurements["runs"]
        for level in run["levels"]
        for arm in level["arms"]
    ]


def _request(request: dict, dataset: str) -> dict:
    return {key: request[key] for key in ("id", "output_token_ids", "seconds", "prefill_seconds")} | {
        "dataset": dataset,
        "committed_lengths": request["cycles"]["committed"],
        "nodes_per_cycle": request["cycles"]["nodes"],
        "ttft_seconds": request["deltas"][0][0] - request["arrived"] if request["deltas"] else 0,
    }
