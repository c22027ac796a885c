"""The client for asyncio."""

import asyncio
from typing import Any, AsyncIterator, Callable, List, Optional

import grpc
import grpc.aio

from bastion_client import errors
from bastion_client._answers import AnswerBase, canceled
from bastion_client._attempts import Attempts
from bastion_client._client_base import DEFAULT_ADDRESS, SHORT_TIMEOUT, ClientBase
from bastion_client._messages import parse
from bastion_client._proto import generation_pb2, health_pb2
from bastion_client.options import ClientOptions
from bastion_client.results import Delta, Model, ServerInfo


class AsyncAnswer(AnswerBase):
    """A streamed answer: iterate over its deltas with `async for`, or await its whole text().

    The call is canceled, and the server stops, when the caller leaves the loop (in the next pass of
    the event loop) or the `async with` block before the end, calls cancel(), or its task is
    canceled. One task at a time may read. Use it in its event loop only.

    Reading raises a BastionError if the call fails, Cancelled after a cancel(). Read continuously:
    the server drops clients that do not.
    """

    def __init__(self, start: Callable[[], Any], attempts: Attempts, channel: Any) -> None:
        super().__init__(start, attempts, channel)
        self._canceled = asyncio.Event()

    async def __aenter__(self) -> "AsyncAnswer":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        try:
            while (delta := await self._next()) is not None:
                yield delta
        finally:
            self.cancel()

    async def text(self, index: int = 0) -> str:
        """Reads the rest of the answer and returns all its text. With n > 1, that of one of the
        answers."""
        async for _ in self:
            pass
        return self._text(index)

    def cancel(self) -> None:
        """Cancels the call. Does nothing if it has ended."""
        self._canceled.set()
        self._call.cancel()

    async def _next(self) -> Optional[Delta]:
        while not self._is_complete:
            try:
                response = await self._call.read()
            except asyncio.CancelledError:
                if self._canceled.is_set():  # By cancel(). The task itself is not canceled.
                    raise canceled() from None
                raise
            except grpc.RpcError as error:
                await self._restart(self._pause_after(error))
                continue
            if response is grpc.aio.EOF:
                self._is_complete = True
            elif (delta := self._accept(response)) is not None:
                return delta
        return None

    async def _restart(self, pause: float) -> None:
        try:
            await asyncio.wait_for(self._canceled.wait(), pause)
        except asyncio.TimeoutError:
            self._call = self._start()
        else:
            raise canceled()


class AsyncClient(ClientBase[AsyncAnswer]):
    """A client of one server for asyncio. Make it and use it in one event loop. It connects when it
    is first used.

        async with AsyncClient() as client:
            async for delta in client.generate('def f('):
                print(delta.text, end='')
    """

    _answer_kind = AsyncAnswer

    def __init__(self, address: str = DEFAULT_ADDRESS, options: Optional[ClientOptions] = None) -> None:
        """`address` is 'host:port' or 'unix:///path'. Without options, those of the environment are
        used (ClientOptions.from_environment).

        Raises:
          OSError: A file of the options cannot be read.
          ValueError: The options contradict each other.
        """
        super().__init__(grpc.aio, address, options)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Answers that are not complete are canceled."""
        self._cancel_answers()
        await self._channel.close()

    async def list_models(self, *, timeout: float = SHORT_TIMEOUT) -> List[Model]:
        """The models that the server serves. `timeout` is in seconds, as in the calls below. Raises
        BastionError."""
        response = await self._ask(self._generation.ListModels, generation_pb2.ListModelsRequest(), timeout)
        return [parse(Model, model) for model in response.models]

    async def server_info(self, *, timeout: float = SHORT_TIMEOUT) -> ServerInfo:
        """The state of the server. Raises BastionError."""
        return parse(
            ServerInfo, await self._ask(self._generation.GetServerInfo, generation_pb2.GetServerInfoRequest(), timeout)
        )

    async def check_health(self, *, timeout: float = SHORT_TIMEOUT) -> None:
        """Returns if the server is ready for requests. Otherwise raises Unavailable or another
        BastionError, without a second attempt."""
        try:
            response = await self._health.Check(health_pb2.HealthCheckRequest(), timeout=timeout, metadata=self._metadata())
        except grpc.RpcError as error:
            raise errors.from_rpc(error)
        self._check_serving(response)

    async def _ask(self, method: Callable[..., Any], request: Any, timeout: float) -> Any:
        attempts = self._attempts(timeout)
        metadata = self._metadata()
        while True:
            try:
                return await method(
                    request, timeout=attempts.time_left(), metadata=metadata, wait_for_ready=self._options.wait_for_ready
                )
            except grpc.RpcError as error:
                pause = attempts.pause_after(errors.from_rpc(error))
            await asyncio.sleep(pause)
