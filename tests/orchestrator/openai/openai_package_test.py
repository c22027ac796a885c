"""Tests the OpenAI-compatible API of the services with the official `openai` package, and with requests as
`vllm bench serve` sends them."""

import argparse
import asyncio
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

import openai

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "slow"))
from demo_services import MODELS, DemoServices, total  # noqa: E402

PROMPT = "def f("
MESSAGES = [{"role": "user", "content": "Write a function"}]
# The demo target has none.
CHAT_TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}\n{% endfor %}assistant:"
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"The {name} of a place.",
            "strict": True,
            "parameters": {
                "type": "object",
                "required": ["place", "days"],
                "additionalProperties": False,
                "properties": {
                    "place": {"enum": ["Oslo", "Rome"]},
                    "days": {"enum": [1, 2, 3]},
                    "kinds": {"type": "array", "items": {"$ref": "#/$defs/kind"}, "maxItems": 2},
                },
                "$defs": {"kind": {"enum": ["a", "b"]}},
            },
        },
    }
    for name in ("weather", "time")
]
MALFORMED: list[dict[str, Any]] = [
    {"temperature": -1},
    {"temperature": "hot"},
    {"temperature": 1e9},
    {"top_p": -0.1},
    {"top_p": 2},
    {"n": 0},
    {"n": 1000},
    {"max_tokens": 0},
    {"max_tokens": "many"},
    {"presence_penalty": 5},
    {"frequency_penalty": -5},
    {"logit_bias": {"dog": 1}},
    {"logit_bias": {"1": 1000}},
    {"seed": "x"},
    {"stop": [""]},
    {"stop": ["x"] * 17},
    {"stream": "yes"},
    {"logprobs": 1000},
    {"echo": True},
    {"best_of": 3},
    {"prompt": ["one", 2]},
    {"prompt": []},
    {"prompt": ""},
    {"response_format": {"type": "xml"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "strang"}}}},
    {"speculation": {"policy": "no-such-policy"}},
    {"no_such_parameter": 1},
]


def models_with_template(folder):
    """Links to the demo models, and a chat template."""
    shutil.copytree(MODELS / "target", folder / "target", copy_function=os.symlink)
    (folder / "target" / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "drafter").symlink_to(MODELS / "drafter")
    return folder


class OpenAiPackageTest(unittest.TestCase):
    binaries: str
    services: DemoServices
    url: str
    client: openai.OpenAI

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.services = DemoServices(cls.binaries, models=models_with_template(pathlib.Path(folder)))
        cls.enterClassContext(cls.services)
        cls.url = f"http://127.0.0.1:{cls.services.http['orchestrator']}/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key="unused", max_retries=0)

    def complete(self, **parameters):
        parameters = {"model": "target", "prompt": PROMPT, "max_tokens": 24, "temperature": 0, **parameters}
        return self.client.completions.create(**parameters)

    def test_the_text_is_that_of_the_grpc_api(self):
        answer = self.complete()
        over_grpc = self.services.ctl("generate", "--prompt", PROMPT, "--max_new_tokens", "24", "--stats=false")
        self.assertEqual(over_grpc.returncode, 0, over_grpc.stderr)
        self.assertEqual(answer.choices[0].text, over_grpc.stdout.removesuffix("\n"))
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 24)
        self.assertTrue(answer._request_id)

    def test_several_prompts_have_the_texts_of_single_ones(self):
        prompts = [PROMPT, "Once", [5, 6, 7]]
        together = self.complete(prompt=prompts)
        alone = [self.complete(prompt=prompt).choices[0].text for prompt in prompts]
        self.assertEqual([choice.text for choice in together.choices], alone)

    def test_a_completion_streams(self):
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        self.assertEqual(text, self.complete().choices[0].text)
        self.assertGreater(len(chunks), 2)
        self.assertEqual(chunks[-1].usage.completion_tokens, 24)

    def test_a_chat_streams(self):
        parameters = {"model": "target", "messages": MESSAGES, "max_completion_tokens": 16, "seed": 3, "temperature": 0.7}
        whole = self.client.chat.completions.create(**parameters)
        text = whole.choices[0].message.content
        self.assertTrue(text)
        pieces, role = [], None
        for chunk in self.client.chat.completions.create(stream=True, **parameters):
            role = role or chunk.choices[0].delta.role
            pieces.append(chunk.choices[0].delta.content or "")
        self.assertEqual(role, "assistant")
        self.assertEqual("".join(pieces), text)

    def test_the_package_accumulates_a_stream(self):
        choices = ["yes", "perhaps"]
        with self.client.chat.completions.stream(
            model="target", messages=MESSAGES, max_completion_tokens=32, extra_body={"structured_outputs": {"choice": choices}}
        ) as stream:
            for _ in stream:
                pass
            self.assertIn(stream.get_final_completion().choices[0].message.content, choices)

    def test_logprobs_are_typed(self):
        answer = self.client.chat.completions.create(
            model="target", messages=MESSAGES, temperature=0, max_tokens=4, logprobs=True, top_logprobs=3
        )
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 4)
        self.assertEqual(content[0].token, content[0].top_logprobs[0].token)
        answer = self.complete(logprobs=2, max_tokens=4)
        self.assertEqual(len(answer.choices[0].logprobs.token_logprobs), 4)

    def test_log_probabilities_follow_from_bytes(self):
        text = "\U0001f469\u200d\U0001f467 \u6f22\u5b57 \u00e9"
        constraint = {"extra_body": {"structured_outputs": {"choice": [text]}}}
        choice = self.complete(max_tokens=100, logprobs=1, **constraint).choices[0]
        self.assertEqual(choice.text, text)
        offsets = choice.logprobs.text_offset
        self.assertEqual(offsets, sorted(offsets))
        self.assertLess(offsets[-1], len(text))
        for name, top in zip(choice.logprobs.tokens, choice.logprobs.top_logprobs):
            self.assertIn(name, top)
        chat = self.client.chat.completions.create(
            model="target", messages=MESSAGES, max_tokens=100, logprobs=True, **constraint
        )
        content = chat.choices[0].logprobs.content
        self.assertEqual(bytes(byte for token in content for byte in token.bytes).decode(), text)

    def test_a_special_token_is_a_stop_string(self):
        choice = self.complete(max_tokens=6, logit_bias={"3": 100}, stop=["<|im_end|>"]).choices[0]
        self.assertEqual((choice.text, choice.finish_reason), ("", "stop"))
        self.assertEqual(choice.model_extra["stop_reason"], "<|im_end|>")

    def test_a_choice_may_have_control_characters(self):
        text = "a\x7fb\tc"
        answer = self.complete(extra_body={"structured_outputs": {"choice": [text]}})
        self.assertEqual(answer.choices[0].text, text)

    def test_top_p_of_zero_is_greedy(self):
        self.assertEqual(self.complete(top_p=0, temperature=0.7).choices[0].text, self.complete().choices[0].text)

    def test_a_schema_is_obeyed(self):
        schema = {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
            "additionalProperties": False,
        }
        answer = self.client.chat.completions.create(
            model="target",
            messages=MESSAGES,
            max_tokens=64,
            response_format={"type": "json_schema", "json_schema": {"name": "ok", "schema": schema}},
        )
        self.assertIsInstance(json.loads(answer.choices[0].message.content)["ok"], bool)
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def call_tools(self, stream, messages, **parameters):
        """A message of the assistant that calls tools, and why it ended."""
        answer = self.client.chat.completions.create(
            model="target",
            messages=messages,
            tools=TOOLS,
            max_tokens=400,
            seed=5,
            stream=stream,
            **{"tool_choice": "required", "parallel_tool_calls": False, "temperature": 0.8, **parameters},
        )
        if not stream:
            choice = answer.choices[0]
            return choice.message.model_dump(exclude_none=True, include={"role", "tool_calls"}), choice.finish_reason
        message: dict[str, Any] = {"tool_calls": []}
        reason = None
        for chunk in answer:
            choice = chunk.choices[0]
            message["role"] = choice.delta.role or message["role"]
            for call in choice.delta.tool_calls or []:
                if call.id:
                    self.assertEqual(call.index, len(message["tool_calls"]))
                    message["tool_calls"].append(
                        {"id": call.id, "type": call.type, "function": {"name": call.function.name, "arguments": ""}}
                    )
                message["tool_calls"][call.index]["function"]["arguments"] += call.function.arguments or ""
            reason = choice.finish_reason or reason
        return message, reason

    def tool_loop(self, stream, **parameters):
        """The calls of two turns."""
        messages, calls = list(MESSAGES), []
        for _ in range(2):
            message, reason = self.call_tools(stream, messages, **parameters)
            self.assertEqual(reason, "tool_calls")
            self.assertTrue(message["tool_calls"])
            messages.append(message)
            for call in message["tool_calls"]:
                function = call["function"]
                self.assertIn(function["name"], ("weather", "time"))
                self.assertLessEqual({"place", "days"}, json.loads(function["arguments"]).keys())
                calls.append((function["name"], function["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "grey"}'})
        return calls

    def test_two_turns_call_tools_streamed_or_not(self):
        whole = self.tool_loop(stream=False)
        self.assertEqual(self.tool_loop(stream=True), whole)
        for policy in ("ar", "fixed:8", "beam:2x3"):
            self.assertEqual(self.tool_loop(stream=True, extra_body={"speculation": {"policy": policy}}), whole)

    def test_a_named_tool_is_called_once(self):
        choice = {"type": "function", "function": {"name": "time"}}
        message, reason = self.call_tools(False, MESSAGES, tool_choice=choice)
        self.assertEqual([call["function"]["name"] for call in message["tool_calls"]], ["time"])
        self.assertEqual(reason, "tool_calls")
        message, _ = self.call_tools(True, MESSAGES)
        self.assertEqual(len(message["tool_calls"]), 1)

    def test_a_call_that_is_cut_keeps_its_part(self):
        answer = self.client.chat.completions.create(
            model="target", messages=MESSAGES, tools=TOOLS, max_tokens=24, tool_choice="required", temperature=0
        )
        self.assertEqual(answer.choices[0].finish_reason, "length")
        answer = self.client.chat.completions.create(
            model="target", messages=MESSAGES, tools=TOOLS, max_tokens=8, tool_choice="none", temperature=0
        )
        self.assertIsNone(answer.choices[0].message.tool_calls)
        self.assertTrue(answer.choices[0].message.content)

    def test_malformed_requests_raise_typed_errors(self):
        self.assertGreaterEqual(len(MALFORMED), 20)
        for parameters in MALFORMED:
            with self.subTest(parameters):
                known = {key: parameters[key] for key in parameters if key == "prompt"}
                extra = {key: parameters[key] for key in parameters if key != "prompt"}
                with self.assertRaises(openai.BadRequestError) as raised:
                    self.complete(**known, extra_body=extra)
                self.assertEqual(raised.exception.type, "invalid_request_error")
                name = next(iter(parameters))
                self.assertTrue(raised.exception.param.startswith(name), raised.exception.param)
        with self.assertRaises(openai.NotFoundError):
            self.complete(model="other")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="target", input="a")

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["target"])
        self.assertEqual(self.client.models.retrieve("target").id, "target")

    def test_closing_a_stream_cancels_the_request(self):
        stream = self.complete(max_tokens=1500, stream=True)
        next(iter(stream))
        stream.close()
        deadline = time.monotonic() + 10
        while self.running():
            self.assertLess(time.monotonic(), deadline, "the request still runs")
            time.sleep(0.02)

    def running(self):
        return total(self.services.metrics(), "bastion_requests_running")

    def test_requests_run_concurrently(self):
        async def ask_all():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="unused") as client:
                return await asyncio.gather(
                    *(client.completions.create(model="target", prompt=PROMPT, max_tokens=24, temperature=0) for _ in range(12))
                )

        texts = {answer.choices[0].text for answer in asyncio.run(ask_all())}
        self.assertEqual(texts, {self.complete().choices[0].text})

    def test_requests_of_vllm_bench_serve_are_answered(self):
        bodies = {
            "completions": {
                "model": "target",
                "prompt": PROMPT,
                "repetition_penalty": 1.0,
                "max_tokens": 16,
                "temperature": 0.0,
                "logprobs": None,
                "stream": True,
                "ignore_eos": True,
                "stream_options": {"include_usage": True},
            },
            "chat/completions": {
                "model": "target",
                "max_completion_tokens": 16,
                "stream": True,
                "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}],
                "stream_options": {"include_usage": True},
                "temperature": 0.0,
                "ignore_eos": True,
            },
        }
        for path, body in bodies.items():
            with self.subTest(path):
                request = urllib.request.Request(
                    f"{self.url}/{path}",
                    json.dumps(body).encode(),
                    {"Content-Type": "application/json", "Authorization": "Bearer unused"},
                )
                with urllib.request.urlopen(request, timeout=60) as response:
                    events = response.read().decode().split("\n\n")
                self.assertEqual(events[-2:], ["data: [DONE]", ""])
                usage = json.loads(events[-3].removeprefix("data: "))["usage"]
                self.assertEqual(usage["completion_tokens"], 16)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the programs")
    options, rest = parser.parse_known_args()
    OpenAiPackageTest.binaries = options.bin
    unittest.main(argv=sys.argv[:1] + rest)
