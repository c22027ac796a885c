#!/usr/bin/env python3
"""Prints a trace from a file of the OpenTelemetry Collector as a tree.

usage: deploy/telemetry/show_trace.py FILE [--trace ID] [--cycles N]
  FILE         lines of JSON from the Collector's file exporter
  --trace ID   the trace to print. Default: the last one with a call
  --cycles N   prints the N cycles with the most spans below them, in order, and leaves out the
               others. Default: 3. 0: all

Each line is a span: its name, its service, when it began, how long it took, and a bar of that time.
"""

import argparse
import collections
import json
import sys

BAR = 40  # Columns.


class Span:
    def __init__(self, service, span):
        self.service = service
        self.name = span["name"]
        self.trace = span["traceId"]
        self.id = span["spanId"]
        self.parent = span.get("parentSpanId", "")
        self.start = int(span["startTimeUnixNano"])
        self.end = int(span["endTimeUnixNano"])
        self.links = [link["traceId"] for link in span.get("links", [])]
        self.attributes = {a["key"]: next(iter(a["value"].values()), None) for a in span.get("attributes", [])}

    @property
    def milliseconds(self):
        return (self.end - self.start) / 1e6


def read_spans(lines):
    """The spans of all complete lines. The Collector may be writing the last one."""
    spans = []
    for line in lines:
        try:
            export = json.loads(line)
        except json.JSONDecodeError:
            continue
        for resource in export.get("resourceSpans", []):
            attributes = {a["key"]: a["value"] for a in resource["resource"].get("attributes", [])}
            service = attributes.get("service.name", {}).get("stringValue", "?")
            for scope in resource["scopeSpans"]:
                spans += [Span(service, span) for span in scope["spans"]]
    return spans


def call_of(spans, trace=None):
    """The span of the last call, or of the call in `trace`. None if there is none."""
    calls = [s for s in spans if s.name.startswith("text_completion") and trace in (None, s.trace)]
    return max(calls, key=lambda s: s.start, default=None)


def children_by_parent(spans):
    children = collections.defaultdict(list)
    for span in sorted(spans, key=lambda s: s.start):
        children[span.parent].append(span)
    return children


def bar(span, root):
    whole = max(1, root.end - root.start)
    begin = round(BAR * (span.start - root.start) / whole)
    length = max(1, round(BAR * (span.end - span.start) / whole))
    begin = min(max(begin, 0), BAR - 1)
    return " " * begin + "█" * min(length, BAR - begin)


def print_tree(root, children, cycles, out=sys.stdout):
    left_out = collections.Counter()

    def visit(span, prefix, branch):
        label = prefix + branch + span.name
        start = (span.start - root.start) / 1e6
        print(
            f"{label:<34.34}  {span.service.removeprefix('bastion-'):<12.12} {start:9.2f} ms "
            f"{span.milliseconds:9.2f} ms  {bar(span, root)}",
            file=out,
        )
        below = children[span.id]
        if cycles > 0:
            keep = set()
            for name in ("cycle", "send"):
                alike = sorted((s for s in below if s.name == name), key=lambda s: -len(children[s.id]))
                keep.update(alike[:cycles])
                left_out[name] += len(alike[cycles:])
            below = [s for s in below if s.name not in ("cycle", "send") or s in keep]
        deeper = prefix + {"": "", "├── ": "│   ", "└── ": "    "}[branch]
        for i, child in enumerate(below):
            visit(child, deeper, "└── " if i + 1 == len(below) else "├── ")

    print(f"{'span':<34}  {'service':<12} {'began at':>12} {'duration':>12}", file=out)
    visit(root, "", "")
    for name, count in left_out.items():
        if count > 0:
            print(f'… and {count} more spans "{name}" with what is below them', file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--trace")
    parser.add_argument("--cycles", type=int, default=3)
    arguments = parser.parse_args()
    try:
        with open(arguments.file, encoding="utf-8") as file:
            spans = read_spans(file)
    except OSError as error:
        sys.exit(f"show_trace.py: {error}")
    root = call_of(spans, arguments.trace)
    if root is None:
        sys.exit(
            f"show_trace.py: {arguments.file} has no call"
            + (f" in trace {arguments.trace}" if arguments.trace else "")
            + ". Spans arrive a few seconds after the answer"
        )
    own = [s for s in spans if s.trace == root.trace]
    services = sorted({s.service for s in own})
    print(f"trace {root.trace}: {len(own)} spans of {len(services)} services ({', '.join(services)})")
    print_tree(root, children_by_parent(own), arguments.cycles)


if __name__ == "__main__":
    main()
