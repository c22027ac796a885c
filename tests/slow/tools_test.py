#!/usr/bin/env python3
"""Asks the demo's chat model 200 questions that a tool must answer (tool_choice: required, or a function).

takes: 30 minutes

Every call names a tool, and its arguments are JSON that obeys the tool's schema. All policies give the same calls,
streamed or not, one and eight at a time. Downloads the model if it is not there.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from demo_services import ROOT, DemoServices, total
from openai_answers import BrokenAnswer, ask
from random_requests import CHATS, closed

COUNT = 200
MAX_TOKENS = 96
MODEL = ROOT / "build/chat_model"
DRAFTER = ROOT / "deploy/chat_model/drafter"
# Policy, requests at a time, whether answers are streamed.
PASSES = (
    ("ar", 1, False),
    ("ar", 8, True),
    ("default", 1, True),
    ("default", 8, False),
    ("fixed:16", 1, False),
    ("fixed:16", 8, True),
)
LEAST_ENDED = 0.8  # The share of answers that end before MAX_TOKENS.
PLACES = (
    "Paris",
    "Oslo",
    "New York",
    "São Paulo",
    "the North Sea",
    "Kyoto",
    "my home town",
    "Cape Town",
    'Mount "K2"',
    "Zürich",
)
QUESTIONS = (
    "What is the weather in {} tomorrow?",
    "Will it rain in {} during the next 3 days?",
    "Write a mail to bob@example.com about a trip to {}.",
    "Wake me at 7:30, I go to {}.",
    "How far is {} from here, and how long does it take by train?",
    "Add up 12, 30 and 7 for {}.",
    "Find two hotels in {} that cost less than 100 euros.",
    "Which time is it in {}?",
    "Book a table for four in {}.",
    "Remind me of {} in 20 minutes, urgently!",
    "Say something about {}.",
    "Is it warm in {}? Answer in Celsius.",
    "List the museums of {}.",
    "Send my love to all in {}.",
    "Multiply 3 by 4.5, then think of {}.",
    "Call the hotel in {}.",
    'Translate "{}" into French.',
    "Set the alarm for {} to 23:15.",
    "What should I wear in {}?",
    "Compare {} and Rome.",
)
TEXT = {"type": "string", "maxLength": 24}


def is_closed(value, *names):
    return isinstance(value, dict) and sorted(value) == sorted(names)


def is_int(value, least, most):
    return type(value) is int and least <= value <= most


def is_text(value):
    return isinstance(value, str) and len(value) <= 24


def is_search(value):
    if not isinstance(value, dict) or not {"words"} <= value.keys() <= {"words", "most", "where"}:
        return False
    words = value["words"]
    return (
        isinstance(words, list)
        and 1 <= len(words) <= 3
        and all(is_text(word) for word in words)
        and is_int(value.get("most", 1), 1, 20)
        and (value.get("where") is None or (is_closed(value["where"], "city") and is_text(value["where"]["city"])))
    )


# The parameters of a tool, and a check of arguments that shares no code with the server.
TOOLS = {
    "get_weather": (
        closed(place=TEXT, days={"type": "integer", "minimum": 1, "maximum": 7}, unit={"enum": ["celsius", "fahrenheit"]}),
        lambda v: (
            is_closed(v, "place", "days", "unit")
            and is_text(v["place"])
            and is_int(v["days"], 1, 7)
            and v["unit"] in ("celsius", "fahrenheit")
        ),
    ),
    "send_mail": (
        closed(
            to={"type": "string", "pattern": r"^[a-z]{1,10}@[a-z]{1,10}\.(com|org)$"}, subject=TEXT, urgent={"type": "boolean"}
        ),
        lambda v: (
            is_closed(v, "to", "subject", "urgent")
            and isinstance(v["urgent"], bool)
            and re.fullmatch(r"[a-z]{1,10}@[a-z]{1,10}\.(com|org)", v["to"])
            and is_text(v["subject"])
        ),
    ),
    "set_alarm": (
        closed(time={"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}),
        lambda v: is_closed(v, "time") and re.fullmatch("([01][0-9]|2[0-3]):[0-5][0-9]", v["time"]),
    ),
    "calculate": (
        closed(
            operation={"enum": ["add", "multiply"]},
            numbers={
                "type": "array",
                "items": {"type": "integer", "minimum": -999, "maximum": 999},
                "minItems": 2,
                "maxItems": 4,
            },
        ),
        lambda v: (
            is_closed(v, "operation", "numbers")
            and v["operation"] in ("add", "multiply")
            and isinstance(v["numbers"], list)
            and 2 <= len(v["numbers"]) <= 4
            and all(is_int(number, -999, 999) for number in v["numbers"])
        ),
    ),
    "search": (
        {
            "type": "object",
            "required": ["words"],
            "additionalProperties": False,
            "properties": {
                "words": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
                "most": {"type": "integer", "minimum": 1, "maximum": 20},
                "where": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
            },
            "$defs": {"place": closed(city=TEXT)},
        },
        is_search,
    ),
    "get_time": (None, lambda v: v == {}),
}


class ChatServices(DemoServices):
    """The services with the chat model."""

    start_seconds = 600

    def __init__(self, binaries, folder):
        if not any(MODEL.glob("*.gguf")):
            subprocess.run([ROOT / "deploy/local/setup.sh", "--minimal", "--chat-model"], check=True)
        (folder / "target").symlink_to(next(MODEL.glob("*.gguf")))
        (folder / "drafter").symlink_to(DRAFTER)
        super().__init__(binaries, models=folder)


def tool(name):
    parameters = TOOLS[name][0]
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Used to {name.replace('_', ' ')}.",
            **({"parameters": parameters} if parameters else {}),
        },
    }


def request(number):
    """The body of a request. The template of the model shows no tools, so the messages do."""
    question = QUESTIONS[number % len(QUESTIONS)].format(PLACES[number // len(QUESTIONS) % len(PLACES)])
    names = list(TOOLS)
    shown = [tool(name) for name in names[number % 3 :] + names[: number % 3]]
    named = {"type": "function", "function": {"name": names[number % len(names)]}}
    system = f"You answer with calls of these tools: {json.dumps([one['function']['name'] for one in shown])}"
    return {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        "tools": shown,
        "tool_choice": named if number % 5 == 4 else "required",
        "parallel_tool_calls": number % 8 == 0,
        "temperature": (0, 0.7)[number % 2],
        "seed": number,
        "max_tokens": MAX_TOKENS,
    }


def check_answer(body, answer):
    """Raises BrokenAnswer if the answer is not what the request requires. Returns its choice."""
    if answer["status"] != 200:
        raise BrokenAnswer(f"refused: {answer}")
    (choice,) = answer["choices"]
    calls = choice["calls"]
    is_cut = choice["finish"] == "length"
    if not is_cut and (choice["text"] or choice["finish"] != "tool_calls" or not calls):
        raise BrokenAnswer("no call, or more than calls")
    # A call that is cut before the end of its name is content.
    text = choice["text"].strip()
    if not (text.startswith("<tool_call>") or "<tool_call>".startswith(text)):
        raise BrokenAnswer("has content that is no part of a call")
    chosen = body["tool_choice"]
    allowed = list(TOOLS) if chosen == "required" else [chosen["function"]["name"]]
    if any(name not in allowed for name, _ in calls):
        raise BrokenAnswer("calls a tool that is not allowed")
    if len(calls) > 1 and (chosen != "required" or not body["parallel_tool_calls"]):
        raise BrokenAnswer("has several calls")
    for name, arguments in calls[:-1] if is_cut else calls:
        if not TOOLS[name][1](json.loads(arguments)):
            raise BrokenAnswer(f"the arguments of {name} do not obey its schema")
    return choice


class Run:
    """Asks all questions in each pass, and compares the answers with those of the first pass."""

    def __init__(self, port, count):
        self.port = port
        self.bodies = [request(number) for number in range(count)]
        self.expected = {}
        self.called = collections.Counter()
        self.ended = self.failed = 0

    def ask_one(self, number, policy, stream):
        """Returns the tokens of the answer. Prints a request whose answer is wrong."""
        body = {**self.bodies[number], "stream": stream, "speculation": {"policy": policy}}
        answer, problem = {}, None
        try:
            answer = ask(self.port, CHATS, body)
            choice = check_answer(body, answer)
            if self.expected.setdefault(number, answer) != answer:
                problem = f"differs from {json.dumps(self.expected[number])}"
        except (BrokenAnswer, OSError, ValueError, KeyError) as error:
            problem = repr(error)
        if problem:
            self.failed += 1
            print(f"request {number}: {problem}\n  {json.dumps(body)}\n  -> {json.dumps(answer)}", flush=True)
            return 0
        if policy == PASSES[0][0] and not stream:
            self.called.update(name for name, _ in choice["calls"])
            self.ended += choice["finish"] == "tool_calls"
        return answer["usage"][1]

    def __call__(self, policy, concurrency, stream):
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            tokens = sum(pool.map(lambda number: self.ask_one(number, policy, stream), range(len(self.bodies))))
        print(
            f"{policy:9}{concurrency:3} at a time, {'streamed' if stream else 'whole':8}: "
            f"{tokens / (time.monotonic() - began):5.0f} tokens/s",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--out", help="not used: this test writes no files")
    parser.add_argument("--count", type=int, default=COUNT, help=f"questions (default: {COUNT})")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with ChatServices(arguments.bin, pathlib.Path(folder)) as services:
            run = Run(services.http["orchestrator"], arguments.count)
            for policy, concurrency, stream in PASSES:
                run(policy, concurrency, stream)
            accepted = total(services.metrics(), "bastion_spec_accepted_tokens_total")
    print(
        f"{arguments.count} questions, each asked {len(PASSES)} times: {run.ended} answers have ended, "
        f"calls: {dict(run.called)}; {accepted:.0f} accepted tokens"
    )
    if run.failed:
        sys.exit(f"{run.failed} answers are wrong")
    if run.ended < LEAST_ENDED * arguments.count or not accepted:
        sys.exit("too many answers were cut, or no draft token was accepted")
    if arguments.count >= COUNT and len(run.called) < len(TOOLS):
        sys.exit("not all tools were called")


if __name__ == "__main__":
    main()
