#!/usr/bin/env python3
"""Writes dashboard.json, the Grafana dashboard of the services.

usage: deploy/grafana/make_dashboard.py [--check]
  --check   writes nothing; fails if dashboard.json differs from what this program would write

Needs only Python's standard library. Import dashboard.json in Grafana (Dashboards, New, Import) and
choose a Prometheus data source. The metrics are those of docs/metrics.md.
"""

import json
import pathlib
import sys
from dataclasses import dataclass

FILE = pathlib.Path(__file__).with_name("dashboard.json")
SOURCE = {"type": "prometheus", "uid": "${source}"}
MODEL = 'model_name=~"$model"'
WIDTH, HEIGHT = 8, 8  # The size of a panel. Grafana's grid has 24 columns.


@dataclass
class Panel:
    title: str
    description: str
    unit: str  # Grafana's name of a unit.
    queries: list  # Pairs of an expression in PromQL and the legend of its series.
    stacked: bool = False


def rate(metric, labels=""):
    """The increase per second of a counter, all instances together."""
    return f"rate({metric}{{{MODEL}{',' + labels if labels else ''}}}[$__rate_interval])"


def total(metric, labels=""):
    return f"sum({rate(metric, labels)})"


def quantile(q, histogram, labels=""):
    return f"histogram_quantile({q}, sum by (le) ({rate(histogram + '_bucket', labels)}))"


def quantiles(histogram):
    return [(quantile(q, histogram), f"p{round(100 * q)}") for q in (0.5, 0.9, 0.99)]


def mean(histogram):
    return f"{total(histogram + '_sum')} / {total(histogram + '_count')}"


def gauge(metric):
    return f"sum({metric}{{{MODEL}}})"


ROWS = [
    (
        "Is it faster?",
        [
            Panel(
                "Speedup over plain decoding",
                "Estimated time of plain decoding for the same tokens, divided by the time of decoding. "
                "Above 1: speculation pays. Prompts are left out.",
                "x",
                [(f"{total('bastion_plain_decode_seconds_total')} / {total('bastion_decode_seconds_total')}", "speedup")],
            ),
            Panel(
                "Tokens per second",
                "Output of all requests, and prompt tokens that were computed.",
                "short",
                [(total("bastion_generation_tokens_total"), "output"), (total("bastion_prefill_tokens_total"), "prompts")],
            ),
            Panel(
                "Tokens per cycle and request",
                "Mean committed length: the accepted nodes and the target's own token.",
                "short",
                [
                    (f"1 + {mean('bastion_spec_acceptance_length')}", "committed length"),
                    (mean("bastion_spec_tree_nodes"), "nodes of a tree"),
                ],
            ),
        ],
    ),
    (
        "What do users see?",
        [
            Panel(
                "Time to first token",
                "From arrival to the first output.",
                "s",
                quantiles("bastion_time_to_first_token_seconds"),
            ),
            Panel(
                "Time between tokens",
                "Time between two outputs of a request, divided among the tokens of the later one.",
                "s",
                quantiles("bastion_inter_token_latency_seconds"),
            ),
            Panel("Duration of requests", "From arrival to the end.", "s", quantiles("bastion_e2e_request_latency_seconds")),
            Panel(
                "Requests",
                "Admitted, in the queue, and waiting for a client that does not read.",
                "short",
                [
                    (gauge("bastion_requests_running"), "running"),
                    (gauge("bastion_requests_waiting"), "waiting"),
                    (gauge("bastion_requests_parked"), "parked"),
                ],
                stacked=True,
            ),
            Panel(
                "Ended requests per second",
                "By gRPC status. Refused calls count too.",
                "reqps",
                [(f"sum by (code) ({rate('bastion_requests_total')})", "{{code}}")],
                stacked=True,
            ),
            Panel("Time in the queue", "From arrival to admission.", "s", quantiles("bastion_request_queue_time_seconds")),
        ],
    ),
    (
        "Where does the time go?",
        [
            Panel(
                "Stages of a cycle",
                "Mean duration of each stage. They sum to the cycle.",
                "s",
                [
                    (
                        f"sum by (phase) ({rate('bastion_cycle_phase_duration_seconds_sum')}) / scalar("
                        f"{total('bastion_cycle_duration_seconds_count')})",
                        "{{phase}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Parts of a verify call",
                "Seconds per second that the verifier spends.",
                "percentunit",
                [(f"sum by (phase) ({rate('bastion_verifier_phase_duration_seconds_sum')})", "{{phase}}")],
                stacked=True,
            ),
            Panel(
                "Parts of a draft",
                "Seconds per second that the drafter spends.",
                "percentunit",
                [(f"sum by (phase) ({rate('bastion_drafter_phase_duration_seconds_sum')})", "{{phase}}")],
                stacked=True,
            ),
        ],
    ),
    (
        "Why these trees?",
        [
            Panel(
                "Cycles per second by mode",
                "Drafted, with nodes of the prior alone (draft_free), plain, "
                "plain without planning (resting), and prompts alone.",
                "short",
                [(f"sum by (mode) ({rate('bastion_cycles_total')})", "{{mode}}")],
                stacked=True,
            ),
            Panel(
                "Why trees ended",
                "Share of the trees by the reason for their size (docs/policies.md).",
                "percentunit",
                [
                    (
                        f"sum by (reason) ({rate('bastion_spec_budget_reasons_total')}) / scalar("
                        f"{total('bastion_spec_budget_reasons_total')})",
                        "{{reason}}",
                    )
                ],
                stacked=True,
            ),
            Panel(
                "Acceptance by depth",
                "Accepted nodes at each depth, per tree.",
                "percentunit",
                [
                    (
                        f"sum by (position) ({rate('bastion_spec_accepted_tokens_per_position_total')}) / "
                        f"scalar({total('bastion_spec_tree_nodes_count')})",
                        "depth {{position}}",
                    )
                ],
            ),
            Panel(
                "Verified nodes per second",
                "Accepted nodes save a cycle. The others are wasted.",
                "short",
                [
                    (total("bastion_spec_accepted_tokens_total"), "accepted"),
                    (total("bastion_spec_wasted_tokens_total"), "wasted"),
                ],
                stacked=True,
            ),
            Panel(
                "Predicted against measured verify time",
                "Sum of the predictions divided by the sum of the measurements, and the median error of one prediction.",
                "percentunit",
                [
                    (
                        f"{total('bastion_verify_predicted_seconds_total')} / {total('bastion_verify_measured_seconds_total')}",
                        "predicted / measured",
                    ),
                    (quantile(0.5, "bastion_verify_prediction_error_ratio"), "median error"),
                ],
            ),
            Panel(
                "Calibration error of acceptance",
                "Mean difference between the predicted and the observed acceptance, since the start.",
                "percentunit",
                [(f"avg(bastion_acceptance_calibration_error{{{MODEL}}})", "error")],
            ),
        ],
    ),
    (
        "Memory, transport and faults",
        [
            Panel(
                "KV cache",
                "Used part of the verifier's cache. Cached prefixes count as free.",
                "percentunit",
                [(f"max(bastion_kv_cache_usage_ratio{{{MODEL}}})", "used")],
            ),
            Panel(
                "Reused prompt tokens",
                "Part of the prompt tokens that an earlier request had computed.",
                "percentunit",
                [(f"{total('bastion_prefix_cache_hits_total')} / {total('bastion_prompt_tokens_total')}", "reused")],
            ),
            Panel(
                "Transport",
                "Bytes of messages and tensors between the services.",
                "Bps",
                [(f"sum by (peer, carrier) ({rate('bastion_transport_bytes_total')})", "{{peer}}, {{carrier}}")],
                stacked=True,
            ),
            Panel(
                "Connections",
                "1: connected.",
                "short",
                [
                    (f"min(bastion_verifier_connected{{{MODEL}}})", "verifier"),
                    (f"min(bastion_drafter_connected{{{MODEL}}})", "drafter"),
                ],
            ),
            Panel(
                "Faults per second",
                "Each should be zero.",
                "short",
                [
                    (total("bastion_draft_failures_total"), "failed drafts"),
                    (total("bastion_preemptions_total"), "preemptions"),
                    (total("bastion_transport_fallbacks_total"), "transport fallbacks"),
                    (total("bastion_verifier_calls_total", 'outcome="error"'), "failed verify calls"),
                    (total("bastion_drafter_calls_total", 'outcome="error"'), "failed draft calls"),
                ],
            ),
            Panel(
                "Audit",
                "Tokens that were decoded again, and those that differed. The second must be 0.",
                "short",
                [(gauge("bastion_audited_tokens"), "audited"), (gauge("bastion_audit_mismatches"), "mismatches")],
            ),
        ],
    ),
]


def panel_json(panel, number, x, y):
    fill = 60 if panel.stacked else 10
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {
                    "drawStyle": "line",
                    "lineWidth": 1,
                    "fillOpacity": fill,
                    "showPoints": "never",
                    "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(panel.queries)
        ],
    }


def dashboard():
    panels, number, y = [], 1, 0
    for title, row in ROWS:
        panels.append(
            {
                "id": number,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                "panels": [],
            }
        )
        number, y = number + 1, y + 1
        for i, panel in enumerate(row):
            panels.append(panel_json(panel, number, i % 3 * WIDTH, y + i // 3 * HEIGHT))
            number += 1
        y += -(-len(row) // 3) * HEIGHT
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "model",
            "label": "Model",
            "type": "query",
            "datasource": SOURCE,
            "refresh": 2,
            "query": {"query": "label_values(bastion_build_info, model_name)", "refId": "model"},
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]
    return {
        "title": "bastion",
        "uid": "bastion",
        "tags": ["bastion"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "templating": {"list": variables},
        "panels": panels,
    }


def main():
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    text = json.dumps(dashboard(), indent=1) + "\n"
    if not arguments:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE.name} is not what make_dashboard.py writes; run deploy/grafana/make_dashboard.py")


if __name__ == "__main__":
    main()
