#!/usr/bin/env python3
"""How answers are canceled: the server notices, and readers get the promised errors."""

import asyncio
import threading
import unittest

import grpc

import fake_server as fake
from bastion_client import AsyncClient, Cancelled, Client, ClientOptions
from fake_server import FakeServer, error_details, fails

SECONDS = 5  # Until the server must have noticed.
BUSY = fails(grpc.StatusCode.UNAVAILABLE, details=error_details(retry_delay=60))


class CancelTest(unittest.TestCase):
    """A fake server, and a check whether its first call has ended."""

    def serve(self, *behaviors):
        server = FakeServer(*behaviors)
        self.addCleanup(server.__exit__)
        return server.__enter__()

    def after_a_call(self, server, act):
        """Calls act() in another thread when a call has arrived."""
        thread = threading.Thread(target=lambda: (server.await_call(), act()))
        thread.start()
        self.addCleanup(thread.join)

    def assert_ended(self, server):
        self.assertEqual(len(server.calls), 1)
        self.assertTrue(server.calls[0].ended.wait(SECONDS), "the server did not notice")

    async def assert_ends(self, server):
        await asyncio.get_running_loop().run_in_executor(None, self.assert_ended, server)

    async def begin(self, server, client):
        """A task that reads an answer whose call has arrived, and the answer."""
        answer = client.generate("p")
        reading = asyncio.ensure_future(answer.text())
        await asyncio.get_running_loop().run_in_executor(None, server.await_call)
        return reading, answer


class SyncCancelTest(CancelTest):
    def connect(self, *behaviors):
        server = self.serve(*behaviors)
        client = Client(server.address, ClientOptions())
        self.addCleanup(client.close)
        return server, client

    def test_leaving_the_loop_cancels(self):
        server, client = self.connect(fake.endless)
        answer = client.generate("p")
        for _ in answer:
            break
        self.assert_ended(server)
        with self.assertRaises(Cancelled):
            answer.text()

    def test_an_exception_in_the_loop_cancels(self):
        server, client = self.connect(fake.endless)
        answer = client.generate("p")
        with self.assertRaises(ZeroDivisionError):
            for _ in answer:
                1 / 0
        self.assert_ended(server)

    def test_leaving_the_block_cancels(self):
        server, client = self.connect(fake.endless)
        with client.generate("p") as answer:
            next(iter(answer))
        self.assert_ended(server)

    def test_an_answer_that_is_forgotten_is_canceled(self):
        server, client = self.connect(fake.endless)
        deltas = iter(client.generate("p"))
        next(deltas)
        del deltas
        self.assert_ended(server)

    def test_another_thread_may_cancel(self):
        server, client = self.connect(fake.silent)
        answer = client.generate("p")
        self.after_a_call(server, answer.cancel)
        with self.assertRaises(Cancelled):
            answer.text()
        self.assert_ended(server)

    def test_a_cancellation_ends_the_pause_before_a_retry(self):
        server, client = self.connect(BUSY)
        answer = client.generate("p")
        self.after_a_call(server, answer.cancel)
        with self.assertRaises(Cancelled):
            answer.text()
        self.assertEqual(len(server.calls), 1)

    def test_closing_the_client_cancels(self):
        for behavior in (fake.silent, BUSY):
            server, client = self.connect(behavior)
            answer = client.generate("p")
            self.after_a_call(server, client.close)
            with self.assertRaises(Cancelled):
                answer.text()
            self.assert_ended(server)

    def test_a_complete_answer_stays(self):
        _, client = self.connect()
        with client.generate("p") as answer:
            for _ in answer:
                pass
        answer.cancel()
        self.assertEqual(answer.text(), "Hello world")


class AsyncCancelTest(CancelTest):
    def run_with(self, scenario, *behaviors):
        """Runs scenario(server, client)."""
        server = self.serve(*behaviors)

        async def run():
            async with AsyncClient(server.address, ClientOptions()) as client:
                await scenario(server, client)

        asyncio.run(run())
        return server

    def test_leaving_the_loop_cancels(self):
        async def scenario(server, client):
            answer = client.generate("p")
            async for _ in answer:
                break
            await self.assert_ends(server)
            with self.assertRaises(Cancelled):
                await answer.text()

        self.run_with(scenario, fake.endless)

    def test_an_exception_in_the_loop_cancels(self):
        async def scenario(server, client):
            answer = client.generate("p")
            with self.assertRaises(ZeroDivisionError):
                async for _ in answer:
                    1 / 0
            await self.assert_ends(server)

        self.run_with(scenario, fake.endless)

    def test_leaving_the_block_cancels(self):
        async def scenario(server, client):
            async with client.generate("p") as answer:
                await answer.__aiter__().__anext__()
            await self.assert_ends(server)

        self.run_with(scenario, fake.endless)

    def test_another_task_may_cancel(self):
        async def scenario(server, client):
            reading, answer = await self.begin(server, client)
            answer.cancel()
            with self.assertRaises(Cancelled):
                await reading
            await self.assert_ends(server)

        self.run_with(scenario, fake.silent)

    def test_canceling_the_task_cancels(self):
        async def scenario(server, client):
            reading, _ = await self.begin(server, client)
            reading.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await reading
            await self.assert_ends(server)

        self.run_with(scenario, fake.silent)

    def test_a_cancellation_ends_the_pause_before_a_retry(self):
        async def scenario(server, client):
            reading, answer = await self.begin(server, client)
            answer.cancel()
            with self.assertRaises(Cancelled):
                await reading

        self.assertEqual(len(self.run_with(scenario, BUSY).calls), 1)

    def test_closing_the_client_cancels(self):
        async def scenario(server, client):
            reading, _ = await self.begin(server, client)
            await client.close()
            with self.assertRaises(Cancelled):
                await reading
            await self.assert_ends(server)

        self.run_with(scenario, fake.silent)
        self.run_with(scenario, BUSY)

    def test_a_complete_answer_stays(self):
        async def scenario(_, client):
            async with client.generate("p") as answer:
                async for _ in answer:
                    pass
            answer.cancel()
            self.assertEqual(await answer.text(), "Hello world")

        self.run_with(scenario)

    def test_answers_are_read_side_by_side(self):
        async def scenario(_, client):
            texts = await asyncio.gather(*(client.generate("p").text() for _ in range(8)))
            self.assertEqual(texts, ["Hello world"] * 8)

        self.run_with(scenario)


if __name__ == "__main__":
    unittest.main()
