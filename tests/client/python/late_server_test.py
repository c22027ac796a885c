#!/usr/bin/env python3
"""A client finds a server that comes after its first attempt. The server is in another process: threads of
a server in this one would keep gRPC going."""

import asyncio
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from bastion_client import AsyncClient, Client, ClientOptions, RetryPolicy
from fake_server import FakeServer

# All attempts are made within 4 seconds, the last one after at least 2.
OPTIONS = ClientOptions(retry=RetryPolicy(initial_backoff=0.25))


def serve_late(address):
    time.sleep(0.3)
    with FakeServer(address=address):
        time.sleep(60)


class LateServerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.address = f"unix:{pathlib.Path(folder.name) / 'server.sock'}"
        server = subprocess.Popen([sys.executable, __file__, self.address])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

    def test_an_answer(self):
        with Client(self.address, OPTIONS) as client:
            self.assertEqual(client.generate("p").text(), "Hello world")

    def test_another_call(self):
        with Client(self.address, OPTIONS) as client:
            self.assertEqual(client.server_info().version, "1.2.3")

    def test_an_answer_for_asyncio(self):
        async def ask():
            async with AsyncClient(self.address, OPTIONS) as client:
                return await client.generate("p").text()

        self.assertEqual(asyncio.run(ask()), "Hello world")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("unix:"):
        serve_late(sys.argv[1])
    else:
        unittest.main()
