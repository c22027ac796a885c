#!/usr/bin/env python3
"""The dataclasses of the client and the messages of the API match."""

import dataclasses
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import typing
import unittest

from bastion_client._proto import generation_pb2 as api

import bastion_client
from bastion_client import _messages, options, results

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Messages with other names than their dataclasses.
NAMES = {"Entry": "TopLogprob", "Node": "TreeNode", "Source": "SourceTotals", "GetServerInfoResponse": "ServerInfo"}
# The client builds or reads these itself.
OTHERS = {"GenerateRequest", "GenerateResponse", "ListModelsRequest", "ListModelsResponse", "GetServerInfoRequest"}


def messages():
    """The descriptors of all messages of the API, without the entries of maps."""
    found = list(api.DESCRIPTOR.message_types_by_name.values())
    for message in found:
        found.extend(nested for nested in message.nested_types if not nested.GetOptions().map_entry)
    return [message for message in found if message.name not in OTHERS]


def dataclass_of(message):
    name = NAMES.get(message.name, message.name)
    return getattr(results, name, None) or getattr(options, name)


class MessagesTest(unittest.TestCase):
    def test_every_field_of_the_api_has_a_field(self):
        checked = 0
        for message in messages():
            with self.subTest(message=message.name):
                fields = {field.name for field in dataclasses.fields(dataclass_of(message))}
                self.assertEqual(fields, {field.name for field in message.fields})
                checked += 1
        self.assertGreaterEqual(checked, 20)

    def test_every_field_of_a_request_has_an_argument(self):
        arguments = set(typing.get_type_hints(bastion_client.Client.generate))
        fields = {field.name for field in api.GenerateRequest.DESCRIPTOR.fields}
        prompts = {"text", "tokens", "chat"}
        self.assertEqual(fields - prompts, arguments - {"prompt", "timeout", "trace", "return"})

    def test_every_value_of_an_enum_has_a_value(self):
        for kind, enum, prefix in (
            (results.FinishReason, api.FinishReason, "FINISH_REASON_"),
            (results.NodeSource, api.NodeSource, "NODE_SOURCE_"),
            (options.SpeculationMode, api.SpeculationOptions.Mode, "MODE_"),
        ):
            theirs = {name.removeprefix(prefix): number for name, number in enum.items()}
            ours = {value.name: value.value for value in kind}
            self.assertEqual({"UNSPECIFIED": 0, **ours}, theirs)

    def test_a_whole_delta_is_converted(self):
        message = api.Delta(text="a", token_ids=[1, 2], answer=3)
        message.cycles.add(nodes=4, share=0.5, budget_reason="cost").verify.FromNanoseconds(1500)
        message.cycles.add().verified_tree.nodes.add(parent=0, source=api.NODE_SOURCE_TABLE)
        token = message.logprobs.add(token_id=1, logprob=-0.5, bytes=b"\xf0")
        token.top.add(token_id=9, logprob=-0.25, bytes=b"a")
        delta = _messages.parse(results.Delta, message)
        self.assertEqual((delta.text, delta.token_ids, delta.answer), ("a", (1, 2), 3))
        first, second = delta.cycles
        self.assertEqual((first.nodes, first.share, first.budget_reason), (4, 0.5, "cost"))
        self.assertAlmostEqual(first.verify, 1.5e-6)
        self.assertIsNone(first.verified_tree)
        assert second.verified_tree
        self.assertIs(second.verified_tree.nodes[0].source, results.NodeSource.TABLE)
        self.assertEqual(
            delta.logprobs,
            (results.TokenLogprobs(token_id=1, logprob=-0.5, top=(results.TopLogprob(9, -0.25, b"a"),), bytes=b"\xf0"),),
        )

    def test_an_unset_choice_differs_from_an_empty_one(self):
        for message, expected in (
            (api.Finished(), (None, None)),
            (api.Finished(stop_string=""), ("", None)),
            (api.Finished(stop_token_id=0), (None, 0)),
        ):
            finished = _messages.parse(results.Finished, message)
            self.assertEqual((finished.stop_string, finished.stop_token_id), expected)

    def test_totals_are_converted(self):
        message = api.Finished(totals={"budget_reasons": {"cost": 2}})
        totals = _messages.parse(results.Finished, message).totals
        assert totals
        self.assertEqual(totals.budget_reasons, {"cost": 2})

    def test_a_value_of_a_newer_server_counts_as_unspecified(self):
        finished = _messages.parse(results.Finished, api.Finished(reason=99))
        self.assertIs(finished.reason, results.FinishReason.UNSPECIFIED)

    def test_results_are_immutable(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            setattr(options.SamplingParams(), "top_k", 1)

    def test_a_token_is_not_shown(self):
        self.assertNotIn("secret", repr(options.ClientOptions(token="secret")))

    def test_errors_survive_pickling(self):
        error = bastion_client.InvalidArgument("no", request_id="r", retry_after=1.5)
        error.field_violations = (bastion_client.FieldViolation("n", "large"),)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), vars(copy)), (type(error), vars(error)))

    def test_the_version_is_the_project_s(self):
        project = (ROOT / "CMakeLists.txt").read_text()
        version = re.search(r"project\(bastion VERSION (\S+)", project)
        assert version
        self.assertEqual(bastion_client.__version__, version[1])

    def test_stubs_of_the_user_s_own_do_not_clash(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [
                    "protoc",
                    f"--proto_path={ROOT}",
                    f"--python_out={folder}",
                    "protos/bastion/v1/generation.proto",
                    "protos/bastion/v1/error_details.proto",
                ],
                check=True,
            )
            code = "from protos.bastion.v1 import generation_pb2, error_details_pb2\nimport bastion_client"
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)

    def test_contradicting_options_are_refused(self):
        for bad, named in (
            (bastion_client.ClientOptions(tls_cert="a"), "tls_key"),
            (bastion_client.ClientOptions(tls_key="a"), "tls_cert"),
            (bastion_client.ClientOptions(tls_cert="a", tls_key="b"), "tls_ca"),
        ):
            with self.assertRaisesRegex(ValueError, named):
                bastion_client.Client(options=bad)
        with self.assertRaisesRegex(OSError, "/missing"):
            bastion_client.Client(options=bastion_client.ClientOptions(token_file="/missing"))
        with tempfile.NamedTemporaryFile() as file, self.assertRaisesRegex(ValueError, "is empty"):
            bastion_client.Client(options=bastion_client.ClientOptions(token_file=file.name))

    def test_a_host_whose_name_begins_with_unix_is_reached_over_tls(self):
        options = bastion_client.ClientOptions(tls_ca="/missing")
        with self.assertRaisesRegex(OSError, "/missing"):
            bastion_client.Client("unix-gpu1.internal:7070", options)
        bastion_client.Client("unix:///missing/socket", options).close()


if __name__ == "__main__":
    unittest.main()
