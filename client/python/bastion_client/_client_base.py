"""What both clients share: options, and the requests for answers."""

import threading
import weakref
from types import ModuleType
from typing import Any, Generic, Optional, Type, TypeVar

from bastion_client import _connection, _messages, errors
from bastion_client._answers import AnswerBase
from bastion_client._attempts import Attempts
from bastion_client._proto import generation_pb2, generation_pb2_grpc, health_pb2, health_pb2_grpc
from bastion_client.options import (
    ChatMessages,
    ClientOptions,
    Constraint,
    OutputOptions,
    Prompt,
    SamplingParams,
    SpeculationOptions,
    StopConditions,
    TokenIds,
    TraceContext,
)

DEFAULT_ADDRESS = "127.0.0.1:7070"  # Where the orchestrator listens by default.
SHORT_TIMEOUT = 5.0  # Seconds. Default for calls that the server answers at once.

AnswerKind = TypeVar("AnswerKind", bound=AnswerBase)


def _prompt_field(prompt: Prompt) -> str:
    for kind, name in ((str, "text"), (TokenIds, "tokens"), (ChatMessages, "chat")):
        if isinstance(prompt, kind):
            return name
    raise TypeError(f"prompt is of type {type(prompt).__name__}; it must be a str, TokenIds or ChatMessages")


class ClientBase(Generic[AnswerKind]):
    _answer_kind: Type[AnswerKind]

    def __init__(self, module: ModuleType, address: str, options: Optional[ClientOptions]) -> None:
        """`module` is grpc or grpc.aio."""
        self._address = address
        self._options = ClientOptions.from_environment() if options is None else options
        self._client_metadata = _connection.client_metadata(self._options)
        self._channel = _connection.open_channel(module, address, self._options)
        self._generation = generation_pb2_grpc.GenerationServiceStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)
        self._lock = threading.Lock()  # Guards _answers.
        self._answers: "weakref.WeakSet[AnswerKind]" = weakref.WeakSet()

    def _cancel_answers(self) -> None:
        """Call it before closing the channel: gRPC would leave readers of asyncio waiting, and
        pauses before retries would go on."""
        with self._lock:
            answers = list(self._answers)
        for answer in answers:
            answer.cancel()

    def _attempts(self, timeout: Optional[float]) -> Attempts:
        return Attempts(self._options.retry, timeout)

    def _metadata(self, trace: Optional[TraceContext] = None) -> _connection.Metadata:
        if trace is None and self._options.trace is not None:
            trace = self._options.trace()
        return self._client_metadata + _connection.trace_metadata(trace)

    def _check_serving(self, response: health_pb2.HealthCheckResponse) -> None:
        if response.status != health_pb2.HealthCheckResponse.SERVING:
            name = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
            raise errors.Unavailable(f"{self._address} is {name}")

    def generate(
        self,
        prompt: Prompt,
        *,
        sampling: Optional[SamplingParams] = None,
        stop: Optional[StopConditions] = None,
        constraint: Optional[Constraint] = None,
        output: Optional[OutputOptions] = None,
        speculation: Optional[SpeculationOptions] = None,
        n: Optional[int] = None,
        model: Optional[str] = None,
        priority: Optional[int] = None,
        cache_salt: Optional[str] = None,
        request_id: Optional[str] = None,
        timeout: Optional[float] = None,
        trace: Optional[TraceContext] = None,
    ) -> AnswerKind:
        """Asks for an answer, and returns at once. Errors of the call are raised while the answer
        is read.

        Args:
          prompt: Text to continue, TokenIds, or ChatMessages.
          constraint: A language that the text belongs to.
          n: Number of answers, 1 (default) to 128. The prompt is computed once. Answer i is that of
            a request with the seed sampling.seed + i.
          model: None: the served model.
          priority: Weight from 1 to 100, default 10. Twice the weight gets twice the service while
            the server is overloaded.
          cache_salt: Requests reuse the memory of prompts with the same beginning only under the
            same salt. Give users a salt each if they must not learn of each other's prompts.
          request_id: For logs and traces. None: the server makes one.
          timeout: Seconds for the answer, with all attempts. None: ClientOptions.timeout.
          trace: Trace context of the call. None: that of ClientOptions.trace.

        Raises:
          TypeError: An argument has a wrong type.
        """
        request = generation_pb2.GenerateRequest()
        _messages.fill(
            request,
            {
                _prompt_field(prompt): prompt,
                "sampling": sampling,
                "stop": stop,
                "constraint": constraint,
                "output": output,
                "speculation": speculation,
                "n": n,
                "model": model,
                "priority": priority,
                "cache_salt": cache_salt,
                "request_id": request_id,
            },
        )
        attempts = self._attempts(self._options.timeout if timeout is None else timeout)
        metadata = self._metadata(trace)

        def start() -> Any:
            return self._generation.Generate(
                request, timeout=attempts.time_left(), metadata=metadata, wait_for_ready=self._options.wait_for_ready
            )

        answer = self._answer_kind(start, attempts, self._channel)
        with self._lock:
            self._answers.add(answer)
        return answer
