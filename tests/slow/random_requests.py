"""Random requests of OpenAI's API, with all of its parameters and bastion's own. A seed repeats them."""

import json
import random

from demo_services import PROMPTS

COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
# Shows tools and calls as Hermes' templates do. enable_thinking: the answer begins in the reasoning. Not
# defined: it may begin with reasoning.
CHAT_TEMPLATE = """\
{%- if tools %}{{ tools | tojson }}
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{{ call.function | tojson }}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking is defined %}<think>
{% if not enable_thinking %}
</think>

{% endif %}{% endif %}"""


def closed(**properties):
    """The schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SHORT = {"type": "string", "maxLength": 8}
SCHEMAS = [
    closed(ok={"type": "boolean"}),
    closed(name=SHORT, age={"type": "integer", "minimum": 0, "maximum": 150}),
    {"type": "array", "items": {"enum": ["red", "green", "dark blue", "café 🚀"]}, "maxItems": 4},
    {"anyOf": [{"type": "null"}, closed(a={"type": "array", "items": {"type": "integer"}, "maxItems": 3})]},
    {"type": "object"},
]
PARAMETERS = {
    "weather": closed(place={"enum": ["Oslo", "São Paulo"]}, days={"enum": [1, 2, 3]}),
    "mail": closed(to=SHORT, urgent={"type": "boolean"}),
    "time": None,
    "search": {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": SHORT, "maxItems": 2},
            "limit": {"type": "integer", "minimum": 1, "maximum": 9},
        },
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Oslo", "days": 2}}\n</tool_call>'
# Texts that readers of reasoning and calls take apart. The model would not write them by itself.
CHAT_TEXTS = [
    r"<think>\n[a-z ]{1,12}\n</think>\n\n[a-z]{1,8}( [a-z]{1,8}){0,2}\.",
    r"[a-z ]{0,20}</think>\n{0,2}[A-Z][a-z ]{1,12}",
    r'(<think>[a-z]{2,5}</think>)?<tool_call>\n\{"name": "(weather|time|none)", "arguments": \{"days": [0-9]\}\}'
    r"\n</tool_call>",
    r'[a-z]{1,5}: <tool_call>\{"name": "mail", "arguments": \{"to": "[a-zé]{1,4}"\}\}</tool_call>( <tool[a-z ]{1,6})?',
    r'\{"name": "(time|other)", "arguments": \{\}\}[ a-z]{0,5}',
    r'\{"name": "other", "arguments": <tool_call>\{"name": "time", "arguments": \{\}\}</tool_call>\}',
    r"<(think|thin|tool_cal)[a-z ]{1,9}>",
]
# The end-of-sequence token as a stop string. Few answers would have it otherwise.
SPECIAL_STOP = {"stop": "<|endoftext|>", "ignore_eos": True, "logit_bias": {"0": 6}}
INVALID = [
    {"temperature": -1},
    {"top_p": 2},
    {"n": 0},
    {"max_tokens": 0},
    {"presence_penalty": 5},
    {"logit_bias": {"x": 1}},
    {"stop": [""]},
    {"stop": ["a<|im_end|>"]},
    {"stop_token_ids": [10**6]},
    {"no_such_parameter": 1},
    {"response_format": {"type": "xml"}},
    {
        "structured_outputs": {
            "regex": "(",
        }
    },
    {"min_tokens": 10**6},
    {"model": "other"},
    {"speculation": {"max_tree_nodes": -1}},
    {"repetition_penalty": 0},
]


def prompts():
    with open(PROMPTS, encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


class Generator:
    """Makes one request. The same seed makes the same one."""

    texts = prompts()

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_in(self, count):
        return self.random.random() < 1 / count

    def pick(self, *choices):
        return self.random.choice(choices)

    def text(self):
        start = self.random.randrange(40)
        return self.pick(*self.texts)[start : start + self.random.randrange(1, 120)]

    def some(self, share, parameters):
        """Each of the parameters with a probability of `share`."""
        return {name: value for name, value in parameters.items() if self.random.random() < share}

    def request(self):
        """The path and the body, without `stream` and the policy."""
        path = self.pick(COMPLETIONS, CHATS)
        body = {
            "seed": self.pick(0, 7, self.random.randrange(2**63), 2**64 - 1, -3),
            **self.sampling(),
            **self.ending(),
            **self.other(),
        }
        body.update(self.completion() if path == COMPLETIONS else self.chat())
        if "structured_outputs" in body or "response_format" in body or "tool_choice" in body:
            body.pop("ignore_eos", None)
            body.pop("min_tokens", None)
        elif self.one_in(30):
            body.update(SPECIAL_STOP)
        if self.one_in(16):
            body.update(self.pick(*INVALID))
        return path, body

    def sampling(self):
        draw = self.random.uniform
        biased = {str(self.pick(0, 3, 35, self.random.randrange(4096))): round(draw(-8, 8), 2) for _ in range(3)}
        return {
            "temperature": self.pick(0, 0, 1e-6, 0.3, 0.7, 0.7, 1, 1, 1.5, None),
            **self.some(
                0.2,
                {
                    "top_p": self.pick(0, 0.3, 0.9, 0.95, 1),
                    "top_k": self.pick(-1, 0, 1, 5, 40, 5000),
                    "min_p": self.pick(0, 0.02, 0.2, 1),
                    "presence_penalty": round(draw(-2, 2), 2),
                    "frequency_penalty": round(draw(-2, 2), 2),
                    "repetition_penalty": self.pick(0.7, 1, 1.1, 1.5, 4),
                    "logit_bias": biased,
                },
            ),
        }

    def ending(self):
        texts = [
            "\n",
            " ",
            "\n\n",
            "self",
            "e",
            ")",
            "()",
            " = ",
            "return",
            "}",
            '"',
            "é",
            "🚀",
            "</think>",
            "in",
            "an unlikely stop string, which no answer has",
            "<|im_end|>",
            "<|endoftext|>",
        ]
        return self.some(
            0.15,
            {
                "stop": self.pick(self.pick(*texts), self.random.sample(texts, self.random.randrange(1, 17))),
                "stop_token_ids": [self.random.randrange(8, 600) for _ in range(self.random.randrange(1, 40))],
                "min_tokens": self.pick(0, 1),
                "ignore_eos": self.pick(True, False),
            },
        )

    def other(self):
        """What changes no text, and the number of answers."""
        speculation = self.some(0.1, {"max_tree_nodes": self.pick(0, 1, 3, 12, 200), "latency_target_ms": 50})
        return {
            **({"speculation": speculation} if speculation else {}),
            **self.some(
                0.1,
                {
                    "n": self.pick(1, 2, 3),
                    "user": self.pick("a", "b"),
                    "metadata": {"a": "b"},
                    "cache_salt": "salt",
                    "response_format": {"type": "text"},
                    "model": "target",
                },
            ),
        }

    def completion(self):
        prompt = self.pick(
            self.text(),
            self.text(),
            [self.text(), self.text()],
            [self.random.randrange(4096) for _ in range(self.random.randrange(1, 30))],
        )
        return {
            "prompt": prompt,
            "max_tokens": self.pick(None, self.random.randrange(1, 40)),
            **self.some(0.2, {"logprobs": self.pick(0, 1, 4)}),
            **self.some(0.1, {"echo": False, "suffix": ""}),
            **(self.constraint() if self.one_in(5) else {}),
        }

    def chat(self):
        """A chat. Its constraint is that of a format, or makes a text that looks like reasoning or a call."""
        size = self.pick("max_tokens", "max_completion_tokens")
        body = {"messages": self.messages(), size: self.random.randrange(1, 64)}
        if self.one_in(5):
            body.update({"logprobs": True, "top_logprobs": self.pick(0, 3)})
        if self.one_in(2):
            body["chat_template_kwargs"] = {"enable_thinking": self.pick(True, False)}
        kind = self.pick("plain", "constrained", "tools", "calls", "pieces", "pieces")
        if kind != "plain":
            body[size] += 48
        if kind == "constrained":
            body.update(self.constraint())
        if kind in ("tools", "calls"):
            body.update(self.tools(is_required=kind == "calls"))
        if kind == "pieces":
            body.update(self.tools(is_required=False))
            body.pop("response_format", None)
            body["structured_outputs"] = {"regex": self.pick(*CHAT_TEXTS)}
        return body

    def messages(self):
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"place": "Oslo", "days": 2}'},
        }
        turns = [
            [],
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": self.text()}],
            [
                {"role": "user", "content": CALL.replace("<tool_call>", "")},
                {"role": "assistant", "content": None, "reasoning_content": self.text(), "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": '{"sky": "grey"}'},
            ],
        ]
        first = [{"role": self.pick("system", "developer"), "content": self.text()}] if self.one_in(4) else []
        content = self.pick(self.text(), [{"type": "text", "text": self.text()}])
        return [*first, *self.pick(*turns), {"role": "user", "content": content}]

    def tools(self, is_required):
        names = self.random.sample(list(PARAMETERS), self.random.randrange(1, 5))
        tools = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": f"The {name}.",
                    **({"parameters": PARAMETERS[name]} if PARAMETERS[name] else {}),
                },
            }
            for name in names
        ]
        named = {"type": "function", "function": {"name": self.pick(*names)}}
        body = {
            "tools": tools,
            "tool_choice": self.pick("required", named) if is_required else self.pick("auto", "auto", "auto", "none", None),
        }
        if self.one_in(3):
            body["parallel_tool_calls"] = self.pick(True, False)
        if not is_required and self.one_in(3):
            body["response_format"] = {"type": "json_object"}
        return body

    def constraint(self):
        schema = self.pick(*SCHEMAS)
        return self.pick(
            {"response_format": {"type": "json_object"}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}},
            {"structured_outputs": {"json": schema}},
            {"structured_outputs": {"regex": self.pick(r"[a-z]{1,20}\.", r"(\d{1,3}\.){3}\d{1,3}", r"é{1,4}|(ab?)+c")}},
            {"structured_outputs": {"grammar": 'start: item ("," item)*\nitem: /[a-f]+/ | "(" start ")"'}},
            {"structured_outputs": {"choice": ["yes", "yes and no", "naïve", "def f(self):", "tab\t\x7f"]}},
        )
