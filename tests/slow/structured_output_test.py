#!/usr/bin/env python3
"""Asks the services for 1,000 structured answers over HTTP, and checks every document.

200 prompts for each of 5 JSON schemas, with two policies, one and eight at a time. All answers to a
request must be equal. Prints the rates of constrained decoding.

takes: 10 minutes
"""

import argparse
import concurrent.futures
import json
import statistics
import sys
import time
import urllib.request

from demo_services import PROMPTS, DemoServices

PROMPT_COUNT = 200
MAX_TOKENS = 300
SHORT = {"type": "string", "maxLength": 16}


def closed(properties):
    """An object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def is_closed(value, *names):
    return isinstance(value, dict) and sorted(value) == sorted(names)


def is_int(value, least, most):
    return type(value) is int and least <= value <= most


def is_short(value):
    return isinstance(value, str) and len(value) <= 16


# The schema, and a check of it that shares no code with the server.
SCHEMAS = {
    "person": (
        closed({"name": SHORT, "age": {"type": "integer", "minimum": 0, "maximum": 150}}),
        lambda v: is_closed(v, "name", "age") and is_short(v["name"]) and is_int(v["age"], 0, 150),
    ),
    "colors": (
        {"type": "array", "items": {"enum": ["red", "green", "dark blue"]}, "maxItems": 5},
        lambda v: isinstance(v, list) and len(v) <= 5 and all(c in ("red", "green", "dark blue") for c in v),
    ),
    "table": (
        closed(
            {
                "rows": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 3,
                    "items": closed({"ok": {"type": "boolean"}, "note": SHORT}),
                }
            }
        ),
        lambda v: (
            is_closed(v, "rows")
            and 1 <= len(v["rows"]) <= 3
            and all(is_closed(r, "ok", "note") and isinstance(r["ok"], bool) and is_short(r["note"]) for r in v["rows"])
        ),
    ),
    "shape": (
        {
            "oneOf": [
                closed({"kind": {"const": "circle"}, "radius": {"type": "integer", "minimum": 1, "maximum": 999}}),
                closed({"kind": {"const": "text"}, "value": SHORT}),
            ]
        },
        lambda v: (
            (is_closed(v, "kind", "radius") and v["kind"] == "circle" and is_int(v["radius"], 1, 999))
            or (is_closed(v, "kind", "value") and v["kind"] == "text" and is_short(v["value"]))
        ),
    ),
    "tree": (
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": closed(
                    {
                        "leaf": {"type": "boolean"},
                        "next": {"anyOf": [{"type": "null"}, closed({"leaf": {"type": "boolean"}, "next": {"type": "null"}})]},
                    }
                )
            },
        },
        lambda v: (
            is_closed(v, "leaf", "next")
            and isinstance(v["leaf"], bool)
            and (v["next"] is None or is_closed(v["next"], "leaf", "next"))
        ),
    ),
}


def prompts():
    """PROMPT_COUNT different prompts: the demo prompts, cut at different places."""
    with open(PROMPTS, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    return [texts[i % len(texts)][: 40 + 7 * (i // len(texts))] for i in range(PROMPT_COUNT)]


def ask(port, number, prompt, schema, policy):
    """The text of the answer, its tokens, and the seconds that it took."""
    body = {
        "prompt": prompt,
        "max_tokens": MAX_TOKENS,
        "temperature": number % 2,
        "seed": number,
        "speculation": {"policy": policy},
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
    choice = answer["choices"][0]
    if choice["finish_reason"] != "stop":
        raise RuntimeError(f"prompt {number}: the answer does not end: {choice['text']!r}")
    return choice["text"], answer["usage"]["completion_tokens"], time.monotonic() - began


def ask_all(port, name, policy, concurrency):
    """The texts of all prompts, and the tokens per second of all together."""
    schema, is_valid = SCHEMAS[name]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        answers = list(pool.map(lambda item: ask(port, item[0], item[1], schema, policy), enumerate(prompts())))
    spent = time.monotonic() - began
    for text, _, _ in answers:
        if not is_valid(json.loads(text)):
            raise RuntimeError(f"{name}: not valid: {text}")
    return [text for text, _, _ in answers], sum(tokens for _, tokens, _ in answers) / spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--out", help="not used: this test writes no files")
    arguments = parser.parse_args()
    ratios = {1: [], 8: []}
    with DemoServices(arguments.bin) as services:
        port = services.http["orchestrator"]
        for name in SCHEMAS:
            expected = None
            for concurrency in (1, 8):
                rates = {}
                for policy in ("ar", "default"):
                    texts, rates[policy] = ask_all(port, name, policy, concurrency)
                    expected = expected or texts
                    if texts != expected:
                        sys.exit(f"{name}: the texts of {policy}, {concurrency} at a time, differ")
                ratios[concurrency].append(rates["default"] / rates["ar"])
                print(
                    f"{name:8}{concurrency:3} at a time: {rates['ar']:7.0f} tokens/s without speculation, "
                    f"{rates['default']:7.0f} with default ({ratios[concurrency][-1]:.2f}x)",
                    flush=True,
                )
    for concurrency, values in ratios.items():
        print(f"{concurrency} at a time: default is {statistics.median(values):.2f}x (median)")
    print(f"{len(SCHEMAS) * PROMPT_COUNT} documents, each asked for 4 times: all valid, all equal")


if __name__ == "__main__":
    main()
