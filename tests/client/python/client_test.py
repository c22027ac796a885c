#!/usr/bin/env python3
"""Both clients against a server that does what the test says. Every scenario runs with each."""

import asyncio
import dataclasses
import os
import pathlib
import tempfile
import threading
import time
import unittest
from unittest import mock

import grpc
from bastion_client._proto import generation_pb2, health_pb2

import fake_server as fake
from bastion_client import (
    AsyncClient,
    BastionError,
    Cancelled,
    ChatMessage,
    ChatMessages,
    Client,
    ClientOptions,
    Constraint,
    DeadlineExceeded,
    FieldViolation,
    FinishReason,
    InvalidArgument,
    NotFound,
    OutputOptions,
    PermissionDenied,
    ResourceExhausted,
    RetryPolicy,
    SamplingParams,
    SpeculationMode,
    SpeculationOptions,
    StopConditions,
    TokenIds,
    Unauthenticated,
    Unavailable,
)
from fake_server import FakeServer, delta, error_details, fails, finished, started

FAST = RetryPolicy(initial_backoff=0.01)
ONCE = ClientOptions(retry=RetryPolicy(max_attempts=1))
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Scenarios(unittest.TestCase):
    """A subclass has read(), which reads an answer and returns the text of its deltas and the
    answer, ask(), which calls another method, and text(), which returns the whole text."""

    def read(self, server, **arguments):
        raise NotImplementedError

    def ask(self, server, method):
        raise NotImplementedError

    def text(self, answer, index):
        raise NotImplementedError

    def assert_refused(self, kind, behavior, **arguments):
        """The first attempt fails with exactly this kind of error, and there is no other. Returns
        the error."""
        with FakeServer(behavior) as server, self.assertRaises(kind) as caught:
            self.read(server, **arguments)
        self.assertIs(type(caught.exception), kind)
        self.assertEqual(len(server.calls), 1)
        return caught.exception

    def test_an_answer_is_streamed(self):
        with FakeServer() as server:
            texts, answer = self.read(server)
        self.assertEqual(texts, ["Hello", " world"])
        self.assertEqual(answer.started.request_id, "req-1")
        self.assertEqual(answer.started.prompt_tokens, 3)
        self.assertIs(answer.finished.reason, FinishReason.LENGTH)
        self.assertEqual((answer.finished.seed, answer.finished.usage.completion_tokens), (7, 2))
        self.assertIsNone(answer.finished.stop_string)

    def test_several_answers_are_told_apart(self):
        def two(_):
            yield from (started(), delta("a", 0), delta("b", 1), finished(1), delta("c", 0), finished(0))

        with FakeServer(two) as server:
            texts, answer = self.read(server, n=2)
            self.assertEqual(server.calls[0].request.n, 2)
        self.assertEqual(texts, ["a", "b", "c"])
        self.assertEqual(set(answer.finished_by_answer), {0, 1})
        self.assertEqual([self.text(answer, i) for i in (0, 1)], ["ac", "b"])
        with self.assertRaisesRegex(IndexError, "no answer 2"):
            self.text(answer, 2)

    def test_every_option_is_sent(self):
        with FakeServer() as server:
            self.read(
                server,
                prompt="def f(",
                model="fake",
                n=2,
                priority=20,
                cache_salt="salt",
                request_id="mine",
                constraint=Constraint(regex="a*"),
                sampling=SamplingParams(temperature=0.5, seed=2**64 - 1, logit_bias={5: -1.5}),
                stop=StopConditions(max_tokens=9, stop=["\n"], stop_token_ids=(1, 2)),
                output=OutputOptions(logprobs=0, cycles=True),
                speculation=SpeculationOptions(mode=SpeculationMode.ON, policy="fixed:16"),
            )
        expected = generation_pb2.GenerateRequest(
            text="def f(",
            model="fake",
            n=2,
            priority=20,
            cache_salt="salt",
            request_id="mine",
            constraint={"regex": "a*"},
            sampling={"temperature": 0.5, "seed": 2**64 - 1, "logit_bias": {5: -1.5}},
            stop={"max_tokens": 9, "stop": ["\n"], "stop_token_ids": [1, 2]},
            output={"logprobs": 0, "cycles": True},
            speculation={"mode": "MODE_ON", "policy": "fixed:16"},
        )
        self.assertEqual(server.calls[0].request, expected)

    def test_options_that_are_not_set_are_not_sent(self):
        with FakeServer() as server:
            self.read(server, prompt="p", sampling=SamplingParams())
        self.assertEqual(server.calls[0].request, generation_pb2.GenerateRequest(text="p", sampling={}))

    def test_a_prompt_may_be_tokens(self):
        with FakeServer() as server:
            self.read(server, prompt=TokenIds([3, 4]))
            self.read(server, prompt=TokenIds([]))  # The server refuses it, not the client.
        self.assertEqual(list(server.calls[0].request.tokens.ids), [3, 4])
        self.assertEqual(server.calls[1].request.WhichOneof("prompt"), "tokens")

    def test_a_prompt_may_be_a_conversation(self):
        chat = ChatMessages(
            [ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")], {"enable_thinking": False}, tools_json="[]"
        )
        with FakeServer() as server:
            self.read(server, prompt=chat)
        sent = server.calls[0].request.chat
        self.assertEqual([(m.role, m.content) for m in sent.messages], [("system", "Be brief."), ("user", "Hi")])
        self.assertEqual(dict(sent.template_args), {"enable_thinking": False})
        self.assertEqual(sent.tools_json, "[]")

    def test_an_argument_of_a_wrong_type_is_named(self):
        with FakeServer() as server:
            for arguments, named in (
                ({"prompt": ["a"]}, "prompt is of type list"),
                ({"sampling": SamplingParams(top_k=0.5)}, r"SamplingParams\.top_k"),  # type: ignore[arg-type]  # The wrong type.
                ({"sampling": StopConditions(max_tokens=1)}, r"\.max_tokens"),
                ({"n": -1}, r"GenerateRequest\.n is -1"),
            ):
                with self.assertRaisesRegex(TypeError, named):
                    self.read(server, **arguments)
            self.assertEqual(server.calls, [])

    def test_calls_carry_who_asks(self):
        options = ClientOptions(token="secret", client_id="me")
        with FakeServer() as server:
            self.read(server, options=options)
        metadata = server.calls[0].metadata
        self.assertEqual(metadata["authorization"], "Bearer secret")
        self.assertEqual(metadata["client-id"], "me")
        self.assertNotIn("traceparent", metadata)

    def test_a_trace_context_is_passed_on(self):
        options = ClientOptions(trace=lambda: {"traceparent": TRACEPARENT, "tracestate": "a=1", "baggage": "secret"})
        with FakeServer() as server:
            self.read(server, options=options)
            self.read(server, options=options, trace={"traceparent": TRACEPARENT[:-1] + "0"})
        first, second = (call.metadata for call in server.calls)
        self.assertEqual((first["traceparent"], first["tracestate"]), (TRACEPARENT, "a=1"))
        self.assertNotIn("baggage", first)
        self.assertEqual(second["traceparent"], TRACEPARENT[:-1] + "0")

    def test_every_status_has_its_error(self):
        for kind in (
            InvalidArgument,
            NotFound,
            Unauthenticated,
            PermissionDenied,
            ResourceExhausted,
            Cancelled,
            DeadlineExceeded,
            Unavailable,
        ):
            with self.subTest(kind=kind.__name__):
                error = self.assert_refused(kind, fails(kind.code, "no"), options=ONCE)
                self.assertEqual((error.message, str(error)), ("no", "no"))
                self.assertIsNone(error.retry_after)

    def test_a_status_without_a_class_keeps_its_code(self):
        error = self.assert_refused(BastionError, fails(grpc.StatusCode.DATA_LOSS, "no"))
        self.assertIs(error.code, grpc.StatusCode.DATA_LOSS)

    def test_an_error_names_the_field_and_the_request(self):
        error = self.assert_refused(
            InvalidArgument,
            fails(
                grpc.StatusCode.INVALID_ARGUMENT,
                "n: is 99",
                details=error_details(violations=[("n", "is 99"), ("model", "is long")], request_id="req-9"),
            ),
        )
        self.assertEqual(error.field_violations, (FieldViolation("n", "is 99"), FieldViolation("model", "is long")))
        self.assertEqual(error.request_id, "req-9")

    def test_damaged_details_are_ignored(self):
        error = self.assert_refused(NotFound, fails(grpc.StatusCode.NOT_FOUND, "no", details=b"\x1a\xff"))
        self.assertEqual(error.message, "no")

    def test_a_lost_connection_names_the_request(self):
        error = self.assert_refused(Unavailable, fails(grpc.StatusCode.UNAVAILABLE, after=[started("req-5"), delta("a")]))
        self.assertEqual(error.request_id, "req-5")

    def test_a_call_is_tried_again_before_the_first_token(self):
        unavailable = grpc.StatusCode.UNAVAILABLE
        with FakeServer(fails(unavailable), fails(unavailable, after=[started("lost")])) as server:
            texts, answer = self.read(server, options=ClientOptions(retry=FAST))
        self.assertEqual(texts, ["Hello", " world"])
        self.assertEqual(answer.started.request_id, "req-1")
        self.assertEqual(len(server.calls), 3)
        self.assertEqual(server.calls[0].request, server.calls[2].request)

    def test_a_call_is_not_tried_again_after_the_first_token(self):
        self.assert_refused(
            Unavailable, fails(grpc.StatusCode.UNAVAILABLE, after=[started(), delta("")]), options=ClientOptions(retry=FAST)
        )

    def test_attempts_are_limited(self):
        options = ClientOptions(retry=RetryPolicy(max_attempts=3, initial_backoff=0.01))
        with FakeServer(*[fails(grpc.StatusCode.UNAVAILABLE)] * 9) as server:
            with self.assertRaises(Unavailable):
                self.read(server, options=options)
            self.assertEqual(len(server.calls), 3)

    def test_the_client_waits_for_as_long_as_the_server_asks(self):
        full = fails(grpc.StatusCode.RESOURCE_EXHAUSTED, details=error_details(retry_delay=0.4))
        with FakeServer(full) as server:
            began = time.monotonic()
            texts, _ = self.read(server, options=ClientOptions(retry=FAST))
            self.assertGreaterEqual(time.monotonic() - began, 0.4)
        self.assertEqual(texts, ["Hello", " world"])
        self.assertEqual(len(server.calls), 2)

    def test_what_a_retry_cannot_cure_is_not_tried_again(self):
        self.assert_refused(ResourceExhausted, fails(grpc.StatusCode.RESOURCE_EXHAUSTED))
        self.assert_refused(NotFound, fails(grpc.StatusCode.NOT_FOUND, details=error_details(retry_delay=0)))

    def test_a_pause_beyond_the_timeout_is_not_waited_for(self):
        began = time.monotonic()
        error = self.assert_refused(
            Unavailable, fails(grpc.StatusCode.UNAVAILABLE, details=error_details(retry_delay=30)), timeout=5
        )
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(error.retry_after, 30)

    def test_a_timeout_ends_a_slow_answer(self):
        self.assert_refused(DeadlineExceeded, fake.silent, timeout=1)
        self.assert_refused(DeadlineExceeded, fake.silent, options=ClientOptions(timeout=1))

    def test_the_timeout_includes_all_attempts(self):
        began = time.monotonic()
        with FakeServer(fails(grpc.StatusCode.UNAVAILABLE), fake.silent) as server:
            with self.assertRaises(DeadlineExceeded):
                self.read(server, timeout=2, options=ClientOptions(retry=RetryPolicy(initial_backoff=1.5)))
            self.assertEqual(len(server.calls), 2)
        self.assertLess(time.monotonic() - began, 2.7)

    def read_before_start(self, options):
        """Reads an answer of a server that starts after 2.8 s."""
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix://{folder}/server.sock"
            with self.assertRaises(Unavailable):
                self.read(address, options=ONCE)
            servers: list[FakeServer] = []
            timer = threading.Timer(2.8, lambda: servers.append(FakeServer(address=address).__enter__()))
            timer.start()
            try:
                texts, _ = self.read(address, options=options)
            finally:
                timer.join()
                servers[0].__exit__()
        self.assertEqual(texts, ["Hello", " world"])

    def test_a_client_waits_for_a_server(self):
        self.read_before_start(dataclasses.replace(ONCE, wait_for_ready=True))

    def test_retries_find_a_server_soon_after_its_start(self):
        began = time.monotonic()
        self.read_before_start(ClientOptions(retry=RetryPolicy(max_attempts=100, multiplier=1)))
        # By default, gRPC would not try to connect between 2.6 s and 4.1 s.
        self.assertLess(time.monotonic() - began, 4)

    def test_models_and_the_state_of_the_server_can_be_asked_for(self):
        with FakeServer(fails(grpc.StatusCode.UNAVAILABLE)) as server:
            models = self.ask(server, "list_models")
            info = self.ask(server, "server_info")
        self.assertEqual([(m.name, m.max_context, m.drafter) for m in models], [("fake", 2048, "")])
        self.assertEqual((info.version, info.running_requests), ("1.2.3", 4))

    def test_health_is_asked_for_once(self):
        with FakeServer() as server:
            self.ask(server, "check_health")
            server.health = health_pb2.HealthCheckResponse.NOT_SERVING
            with self.assertRaisesRegex(Unavailable, f"{server.address} is NOT_SERVING"):
                self.ask(server, "check_health")
        began = time.monotonic()
        with self.assertRaises(Unavailable):
            self.ask(server.address, "check_health")
        self.assertLess(time.monotonic() - began, 2)

    def test_unix_sockets_never_use_tls(self):
        with tempfile.TemporaryDirectory() as name:
            authority, _ = fake.make_certificate(pathlib.Path(name), "server")
            with FakeServer(address=f"unix://{name}/server.sock") as server:
                texts, _ = self.read(server, options=dataclasses.replace(ONCE, tls_ca=authority))
        self.assertEqual(texts, ["Hello", " world"])

    def test_tls_with_a_certificate_of_the_client(self):
        with tempfile.TemporaryDirectory() as name:
            certificate, key = fake.make_certificate(pathlib.Path(name), "server")
            own, own_key = fake.make_certificate(pathlib.Path(name), "client")
            token = pathlib.Path(name, "token")
            token.write_text("secret\n")
            credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())], own.read_bytes(), True)
            with FakeServer(credentials=credentials) as server:
                environment = {
                    "BASTION_TLS_CA": str(certificate),
                    "BASTION_TLS_CERT": str(own),
                    "BASTION_TLS_KEY": str(own_key),
                    "BASTION_TOKEN_FILE": str(token),
                }
                with mock.patch.dict(os.environ, environment):
                    texts, _ = self.read(server, options=None)
                for tls_ca in (certificate, own, None):
                    with self.assertRaises(Unavailable):
                        self.read(server, options=dataclasses.replace(ONCE, tls_ca=tls_ca))
            self.assertEqual(texts, ["Hello", " world"])
            self.assertEqual([call.metadata["authorization"] for call in server.calls], ["Bearer secret"])


class SyncClientTest(Scenarios):
    def read(self, server, prompt="p", options=ClientOptions(), **arguments):
        with Client(getattr(server, "address", server), options) as client:
            answer = client.generate(prompt, **arguments)
            return [delta.text for delta in answer], answer

    def ask(self, server, method):
        with Client(getattr(server, "address", server), ClientOptions()) as client:
            return getattr(client, method)()

    def text(self, answer, index):
        return answer.text(index)


class AsyncClientTest(Scenarios):
    def read(self, server, prompt="p", options=ClientOptions(), **arguments):
        async def run():
            async with AsyncClient(getattr(server, "address", server), options) as client:
                answer = client.generate(prompt, **arguments)
                return [delta.text async for delta in answer], answer

        return asyncio.run(run())

    def ask(self, server, method):
        async def run():
            async with AsyncClient(getattr(server, "address", server), ClientOptions()) as client:
                return await getattr(client, method)()

        return asyncio.run(run())

    def text(self, answer, index):
        return asyncio.run(answer.text(index))


del Scenarios  # unittest would run it, too.

if __name__ == "__main__":
    unittest.main()
