"""The client for threads."""

import threading
import time
from typing import Any, Callable, Iterator, List, Optional

import grpc

from bastion_client import errors
from bastion_client._answers import AnswerBase, canceled
from bastion_client._attempts import Attempts
from bastion_client._client_base import DEFAULT_ADDRESS, SHORT_TIMEOUT, ClientBase
from bastion_client._connection import connecting
from bastion_client._messages import parse
from bastion_client._proto import generation_pb2, health_pb2
from bastion_client.options import ClientOptions
from bastion_client.results import Delta, Model, ServerInfo


class Answer(AnswerBase):
    """A streamed answer: iterate over its deltas, or take its whole text().

    The call is canceled, and the server stops, when the caller leaves the loop (CPython does so at
    once, other interpreters later) or the `with` block before the end, or calls cancel(). One
    thread at a time may read. Any thread may cancel.

    Reading raises a BastionError if the call fails, Cancelled after a cancellation. Read
    continuously: the server drops clients that do not.
    """

    def __init__(self, start: Callable[[], Any], attempts: Attempts, channel: Any) -> None:
        super().__init__(start, attempts, channel)
        self._canceled = threading.Event()
        self._starting = threading.Lock()  # No attempt starts after a cancellation.

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Delta]:
        try:
            while (delta := self._next()) is not None:
                yield delta
        finally:
            self.cancel()

    def text(self, index: int = 0) -> str:
        """Reads the rest of the answer and returns all its text. With n > 1, that of one of the
        answers."""
        for _ in self:
            pass
        return self._text(index)

    def cancel(self) -> None:
        """Cancels the call. Does nothing if it has ended."""
        self._canceled.set()
        with self._starting:
            self._call.cancel()

    def _next(self) -> Optional[Delta]:
        while not self._is_complete:
            try:
                response = next(self._call)
            except StopIteration:
                self._is_complete = True
            except grpc.RpcError as error:
                self._restart(self._pause_after(error))
            else:
                delta = self._accept(response)
                if delta is not None:
                    return delta
        return None

    def _restart(self, pause: float) -> None:
        with connecting(self._channel):
            self._canceled.wait(pause)
        with self._starting:
            if self._canceled.is_set():
                raise canceled()
            self._call = self._start()


class Client(ClientBase[Answer]):
    """A client of one server. Thread-safe. It connects when it is first used. Use it in the process
    that made it: gRPC does not survive a fork.

        with Client() as client:
            for delta in client.generate('def f('):
                print(delta.text, end='')
    """

    _answer_kind = Answer

    def __init__(self, address: str = DEFAULT_ADDRESS, options: Optional[ClientOptions] = None) -> None:
        """`address` is 'host:port' or 'unix:///path'. Without options, those of the environment are
        used (ClientOptions.from_environment).

        Raises:
          OSError: A file of the options cannot be read.
          ValueError: The options contradict each other.
        """
        super().__init__(grpc, address, options)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Answers that are not complete are canceled."""
        self._cancel_answers()
        self._channel.close()

    def list_models(self, *, timeout: float = SHORT_TIMEOUT) -> List[Model]:
        """The models that the server serves. `timeout` is in seconds, as in the calls below. Raises
        BastionError."""
        response = self._ask(self._generation.ListModels, generation_pb2.ListModelsRequest(), timeout)
        return [parse(Model, model) for model in response.models]

    def server_info(self, *, timeout: float = SHORT_TIMEOUT) -> ServerInfo:
        """The state of the server. Raises BastionError."""
        return parse(ServerInfo, self._ask(self._generation.GetServerInfo, generation_pb2.GetServerInfoRequest(), timeout))

    def check_health(self, *, timeout: float = SHORT_TIMEOUT) -> None:
        """Returns if the server is ready for requests. Otherwise raises Unavailable or another
        BastionError, without a second attempt."""
        try:
            response = self._health.Check(health_pb2.HealthCheckRequest(), timeout=timeout, metadata=self._metadata())
        except grpc.RpcError as error:
            raise errors.from_rpc(error)
        self._check_serving(response)

    def _ask(self, method: Callable[..., Any], request: Any, timeout: float) -> Any:
        attempts = self._attempts(timeout)
        metadata = self._metadata()
        while True:
            try:
                return method(
                    request, timeout=attempts.time_left(), metadata=metadata, wait_for_ready=self._options.wait_for_ready
                )
            except grpc.RpcError as error:
                pause = attempts.pause_after(errors.from_rpc(error))
            with connecting(self._channel):
                time.sleep(pause)
