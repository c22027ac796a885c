"""The report of a comparison: results.json and report.md, from the measurements of bastion-bench.

docs/measuring.md describes the report. A request's cycles are columns with one value per cycle (README.md).
"""

from collections import Counter

from bench_statistics import pearson, ratio, spearman, total
from load_figures import Targets, level_name
from load_report import level_tables, levels_json
from report import table

STAGES = ("draft", "tree", "verify_queue", "verify", "commit", "audit", "transfer")
PRIORS = ("", "+prior:table", "+prior:request", "+prior")
# Part of the bare roofline's error that Static removes, in the BASTION paper.
PAPER_CUT_LOW, PAPER_CUT_HIGH = 0.87, 0.92
# Why a tree was cut, by the reason of its budget. Other reasons are no cut.
CUTS = {
    "rows": "by the rows of the forward (--max_rows)",
    "share": "to the request's share of the forward's rows (--max_rows, --concurrency)",
    "server_limit": "by --max_tree_nodes of the server",
    "request_limit": "by max_tree_nodes of the request",
}


def results(measurements: dict) -> dict:
    """The content of results.json."""
    levels, targets = measurements["levels"], _targets(measurements)
    policies = _policies(measurements)
    texts = measurements["texts"]
    more = {"concurrency": levels[0].get("concurrency"), "mode": measurements["mode"]}
    return {
        **{key: measurements[key] for key in ("device", "target", "drafter", "latency_model")},
        "settings": measurements["settings"] | more,
        "levels": levels_json(levels, targets),
        "outputs": {key: texts[key] for key in ("compared", "different")},
        "policies": [_policy_json(policy, policies) for policy in policies],
        "warnings": cut_warnings(levels),
    }


def tables(measurements: dict) -> str:
    """What the report says without its heading and verdict: the levels, the policies, the models, and warnings."""
    levels, policies = measurements["levels"], _policies(measurements)
    text = level_tables(levels, _targets(measurements))
    text += f"\n### One stream, {level_name(levels[0])}\n\n"
    text += f"Rates of a request exclude its prefill. Milliseconds are means per cycle.\n\n{policies_table(policies)}"
    text += length_fit_table(policies)
    if measurements["latency_model"]:
        text += latency_model_table(measurements["latency_model"])
    return text + "".join(f"\n**Warning:** {warning}.\n" for warning in cut_warnings(levels))


def markdown(measurements: dict) -> str:
    """The content of report.md."""
    settings, problem = measurements["settings"], measurements["texts"]["problem"]
    heading = (
        f"# bastion-bench\n\n{measurements['device']}, target {measurements['target']}, "
        f"drafter {measurements['drafter']}, {measurements['mode']}, temperature {settings['temperature']:g}, "
        f"seed {settings['seed']}, at most {settings['max_new_tokens']} new tokens.\n"
    )
    verdict = f"\n**Outputs differ:** {problem}\n" if problem else "\nEvery policy generated the same tokens.\n"
    ablation = ablation_table(measurements)
    return heading + tables(measurements) + verdict + (f"\n{ablation}" if ablation else "")


def _targets(measurements: dict) -> Targets:
    return Targets(**{name: value for name, value in measurements["latency_targets"].items() if value is not None})


# ---- policies ----


def _policies(measurements: dict) -> list[dict]:
    """The requests of the first level, by policy, in all rounds."""
    return [
        {"policy": arm["policy"], "requests": [request for run in arm["rounds"] for request in run["requests"]]}
        for arm in measurements["levels"][0]["arms"]
    ]


def _column(policy: dict, name: str) -> list:
    """The values of all cycles."""
    return [value for request in policy["requests"] for value in request["cycles"][name]]


def _rate(policy: dict) -> float:
    """Decoded tokens per second, prefill excluded."""
    tokens = sum(len(request["output_token_ids"]) for request in policy["requests"])
    return ratio(tokens, total(request["seconds"] for request in policy["requests"]))


def _tau(policy: dict) -> float:
    """The mean committed length of a cycle."""
    lengths = _column(policy, "committed")
    return ratio(sum(lengths), len(lengths))


def _speedup(policy: dict, policies: list[dict]) -> float:
    """The rate divided by that of `ar`. 0 if `ar` did not run."""
    return next((_rate(policy) / _rate(other) for other in policies if other["policy"] == "ar" and _rate(other) > 0), 0.0)


def _prediction_error(policy: dict) -> float:
    """Median of |predicted − measured| / measured verify time. 0 without cycles."""
    pairs = zip(_column(policy, "predicted_verify"), _column(policy, "verify"))
    errors = sorted(abs(predicted - measured) / measured for predicted, measured in pairs if measured > 0)
    return errors[len(errors) // 2] if errors else 0.0


def _shares(cycles: dict) -> list[float]:
    """The request's share of each cycle, by rows: 1 if it was alone."""
    return [(nodes + 1) / rows if rows > 0 else 1.0 for nodes, rows in zip(cycles["nodes"], cycles["rows"])]


def stage_seconds(requests: list[dict]) -> dict[str, float]:
    """By stage, the sum over all cycles. The requests of a cycle share its times, so this is the time that passed."""
    return {
        stage: total(
            share * seconds
            for request in requests
            for share, seconds in zip(_shares(request["cycles"]), request["cycles"][stage])
        )
        for stage in STAGES
    }


def policies_table(policies: list[dict]) -> str:
    shown = ("draft", "tree", "verify", "commit", "transfer")
    head = ["policy", "tokens/s", "vs ar", "τ", "nodes", *(f"{stage} ms" for stage in shown), "verify prediction error"]
    rows = []
    for policy in policies:
        sums = stage_seconds(policy["requests"])
        shares = total(share for request in policy["requests"] for share in _shares(request["cycles"]))
        nodes = _column(policy, "nodes")
        milliseconds = 1e3 / shares if shares > 0 else 0.0
        rows.append(
            [
                policy["policy"],
                f"{_rate(policy):.1f}",
                f"{_speedup(policy, policies):.2f}×",
                f"{_tau(policy):.2f}",
                f"{ratio(sum(nodes), len(nodes)):.1f}",
                *(f"{sums[stage] * milliseconds:.3f}" for stage in shown),
                f"{100 * _prediction_error(policy):.1f} %",
            ]
        )
    return table(head, rows) + "\n"


def ablation_table(measurements: dict) -> str:
    """τ and speed by kind of counts of the transition prior: a line for each policy that ran with and without a prior.

    Empty if there is no such policy.
    """
    policies = _policies(measurements)
    by_name = {policy["policy"]: policy for policy in reversed(policies)}
    rows = []
    for base in (policy["policy"] for policy in policies):
        if base in measurements["policies_with_prior"]:
            continue
        found = [by_name.get(base + prior) for prior in PRIORS]
        if sum(policy is not None for policy in found) > 1:
            rows.append([base, *(f"{_tau(ran):.2f}, {_speedup(ran, policies):.2f}×" if ran else "–" for ran in found)])
    return table(["τ, speed vs ar", "no prior", "table", "request", "both"], rows) + "\n" if rows else ""


def _policy_json(policy: dict, policies: list[dict]) -> dict:
    return {
        "policy": policy["policy"],
        "tokens_per_second": _rate(policy),
        "tau": _tau(policy),
        "speedup_vs_ar": _speedup(policy, policies),
        "verify_prediction_error_median": _prediction_error(policy),
        "verify_trace": [
            list(cycle) for cycle in zip(*(_column(policy, name) for name in ("rows", "predicted_verify", "verify")))
        ],
        "expected_length_fit": length_fit(policy),
        "prompts": [_prompt_json(request) for request in policy["requests"]],
    }


def _prompt_json(request: dict) -> dict:
    cycles = request["cycles"]
    return {key: request[key] for key in ("id", "output_token_ids", "seconds", "prefill_seconds")} | {
        "committed_lengths": cycles["committed"],
        "nodes_per_cycle": cycles["nodes"],
        "accepted_nodes": cycles["accepted"],
        "expected_lengths": cycles["expected_length"],
        "contexts": cycles["context"],
        "budget_reasons": cycles["reason"],
        "stage_seconds": stage_seconds([request]),
    }


# ---- the models behind the policies ----


def lengths(requests: list[dict]) -> list[tuple[float, int]]:
    """Expected (Â) and accepted nodes of each tree, both without the root. Cycles without nodes say nothing."""
    return [
        (expected - 1, accepted)
        for request in requests
        for expected, accepted, nodes in zip(*(request["cycles"][name] for name in ("expected_length", "accepted", "nodes")))
        if nodes > 0
    ]


def length_fit(policy: dict) -> dict | None:
    """How the expected length of a tree relates to its accepted nodes. None if the policy verified no trees."""
    pairs = lengths(policy["requests"])
    if not pairs:
        return None
    return {
        "cycles": len(pairs),
        "mean_expected": total(expected for expected, _ in pairs) / len(pairs),
        "mean_accepted": sum(accepted for _, accepted in pairs) / len(pairs),
        "pearson": pearson(pairs),
        "spearman": spearman(pairs),
    }


def length_fit_table(policies: list[dict]) -> str:
    """Empty if no policy verified trees."""
    rows = [
        [name, str(fit["cycles"]), *(f"{fit[key]:.2f}" for key in ("mean_expected", "mean_accepted", "pearson", "spearman"))]
        for name, fit in ((policy["policy"], length_fit(policy)) for policy in policies)
        if fit
    ]
    if not rows:
        return ""
    return (
        "\n### Expected and accepted nodes\n\n"
        "Â is the sum of a tree's path probabilities, without the root. The paper (BASTION, figure 6) reports 0.79 to 0.82 and "
        "0.72 to 0.80 for the chain.\n\n"
        + table(["policy", "trees", "mean Â", "mean accepted", "Pearson", "Spearman"], rows)
        + "\n"
    )


def latency_model_table(model: dict) -> str:
    """The errors of the paper's latency models, beside the paper's figure."""
    points = model["calibration"]["calibration"]  # [rows, context, seconds, round trip, interpolated, experts]
    measured = sum(not point[4] for point in points)
    contexts = ", ".join(str(context) for context in sorted({point[1] for point in points}))
    line, errors = model["static"], model["rmse_seconds"]
    intercept = f"{'-' if line['intercept_seconds'] < 0 else '+'} {1e3 * abs(line['intercept_seconds']):.3f} ms"
    rows = [
        ["bare roofline R", f"{1e3 * errors['roofline']:.3f}"],
        [f"best multiple, {model['roofline_scale']:.3f}·R", f"{1e3 * errors['scaled_roofline']:.3f}"],
        [f"Static, {line['slope']:.3f}·R {intercept}", f"{1e3 * errors['static']:.3f}"],
    ]
    return (
        "\n### Latency model of BASTION\n\n"
        f"{measured} measured points: 1 to {max(point[0] for point in points)} rows after {contexts} cached tokens.\n\n"
        f"{table(['prediction', 'RMSE ms'], rows)}\n\n"
        f"Static removes {100 * model['rmse_cut']:.0f} % of the error of the bare roofline "
        f"(the paper: {100 * PAPER_CUT_LOW:.0f} to {100 * PAPER_CUT_HIGH:.0f} %).\n"
    )


def cut_warnings(levels: list[dict]) -> list[str]:
    """A sentence for each policy, level and limit that cut trees. The tokens that a request has left are no such limit."""
    warnings = []
    for level in levels:
        for arm in level["arms"]:
            reasons = [reason for run in arm["rounds"] for request in run["requests"] for reason in request["cycles"]["reason"]]
            for reason, count in sorted(Counter(reasons).items()):
                if reason in CUTS:
                    where = f"{arm['policy']} at {level_name(level)}"
                    warnings.append(f"{where}: {count} of {len(reasons)} trees were cut {CUTS[reason]}")
    return warnings
