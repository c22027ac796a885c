"""Asks the OpenAI API of the services, and makes streamed and whole answers comparable."""

import collections
import http.client
import json

PATIENCE = 300  # Seconds.
LISTS = ("content", "tokens", "token_logprobs", "top_logprobs", "text_offset")


class BrokenAnswer(Exception):
    """An answer that does not have the form of OpenAI's API."""


def check(condition, problem):
    if not condition:
        raise BrokenAnswer(problem)


def append_lists(more, lists):
    """Appends the lists of log-probabilities of a chunk."""
    for name in LISTS:
        if name in (more or {}):
            lists.setdefault(name, []).extend(more[name])


def read_message(message):
    """What a client sees of a message, without the ids of its calls."""
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or []]
    return {"text": message["content"] or "", "reasoning": message.get("reasoning_content", ""), "calls": calls}


def read_choice(choice):
    answer = read_message(choice["message"]) if "message" in choice else {"text": choice["text"]}
    lists = {}
    append_lists(choice["logprobs"], lists)
    check(choice["finish_reason"] in ("stop", "length", "tool_calls"), f"ends with {choice['finish_reason']!r}")
    return {**answer, "finish": choice["finish_reason"], "stop": choice["stop_reason"], "logprobs": lists}


class StreamedChoice:
    """A choice whose chunks arrive one after the other."""

    def __init__(self, is_chat):
        empty = {"text": "", "reasoning": "", "calls": []} if is_chat else {"text": ""}
        self.answer = {**empty, "finish": None, "stop": None, "logprobs": {}}
        self.role = None

    def add_calls(self, calls):
        for call in calls:
            if "id" in call:
                check(call["index"] == len(self.answer["calls"]), "the calls have other indices")
                self.answer["calls"].append([call["function"]["name"], ""])
            self.answer["calls"][call["index"]][1] += call["function"]["arguments"]

    def add(self, chunk):
        check(self.answer["finish"] is None, "a chunk follows the end of its choice")
        if "delta" in chunk:
            self.role = self.role or chunk["delta"].get("role")
            check(self.role == "assistant", "the first delta has no role")
            self.answer["text"] += chunk["delta"].get("content") or ""
            self.answer["reasoning"] += chunk["delta"].get("reasoning_content") or ""
            self.add_calls(chunk["delta"].get("tool_calls", []))
        else:
            self.answer["text"] += chunk["text"]
        append_lists(chunk.get("logprobs"), self.answer["logprobs"])
        self.answer["finish"], self.answer["stop"] = chunk["finish_reason"], chunk.get("stop_reason")


def read_stream(response, is_chat):
    """The choices of a stream, and its usage."""
    choices = collections.defaultdict(lambda: StreamedChoice(is_chat))
    usage, is_done = None, False
    for line in response:
        data = line.decode().rstrip("\r\n")
        if not data:
            continue
        check(data.startswith("data: ") and not is_done, f"a line of the stream is {data!r}")
        is_done = data == "data: [DONE]"
        event = {} if is_done else json.loads(data.removeprefix("data: "))
        check("error" not in event, f"the stream ends with {event.get('error')}")
        usage = event.get("usage") or usage
        for chunk in event.get("choices", []):
            choices[chunk["index"]].add(chunk)
    check(is_done and usage, "the stream has no end")
    check(all(choice.answer["finish"] for choice in choices.values()), "a choice has no end")
    return [choices[i].answer for i in sorted(choices)], usage


def read_usage(usage):
    details = usage.get("completion_tokens_details", {})
    return [usage["prompt_tokens"], usage["completion_tokens"], details.get("reasoning_tokens")]


def ask(port, path, body):
    """{'status', 'choices', 'usage'}, or {'status', 'error'}. Answers are equal if clients see the same,
    streamed or not."""
    is_chat = path == "/v1/chat/completions"
    is_stream = body.get("stream", False)
    if is_stream:
        body = {**body, "stream_options": {"include_usage": True}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            return {"status": response.status, "error": json.load(response)["error"]}
        if is_stream:
            choices, usage = read_stream(response, is_chat)
        else:
            answer = json.load(response)
            choices, usage = [read_choice(choice) for choice in answer["choices"]], answer["usage"]
        return {"status": 200, "choices": choices, "usage": read_usage(usage)}
    finally:
        connection.close()
