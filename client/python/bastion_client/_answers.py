"""What the answers of both clients share."""

from typing import Any, Callable, Dict, List, Mapping, Optional

import grpc

from bastion_client import errors
from bastion_client._attempts import Attempts
from bastion_client._messages import parse
from bastion_client._proto import generation_pb2
from bastion_client.results import Delta, Finished, Started


class AnswerBase:
    """The state of one call of Generate: its events so far, and its attempts."""

    def __init__(self, start: Callable[[], Any], attempts: Attempts, channel: Any) -> None:
        """`start` starts an attempt on `channel`, and returns its gRPC call."""
        self._start = start
        self._attempts = attempts
        self._channel = channel
        self._call = start()
        self._is_complete = False
        self._started: Optional[Started] = None
        self._finished: Dict[int, Finished] = {}
        self._texts: Dict[int, List[str]] = {}

    def cancel(self) -> None:
        """Cancels the call. Does nothing if it has ended."""
        raise NotImplementedError

    @property
    def started(self) -> Optional[Started]:
        """What the server said before the first delta. None until the first delta was read."""
        return self._started

    @property
    def finished(self) -> Optional[Finished]:
        """The end of the (first) answer. None until it was read."""
        return self._finished.get(0)

    @property
    def finished_by_answer(self) -> Mapping[int, Finished]:
        """The ends that were read, of all n answers, by Finished.answer."""
        return self._finished

    def _accept(self, response: generation_pb2.GenerateResponse) -> Optional[Delta]:
        """Takes an event. Returns it if it is a delta."""
        event = response.WhichOneof("event")
        if event == "delta":
            delta = parse(Delta, response.delta)
            self._texts.setdefault(delta.answer, []).append(delta.text)
            return delta
        if event == "started":
            self._started = parse(Started, response.started)
        elif event == "finished":
            finished = parse(Finished, response.finished)
            self._finished[finished.answer] = finished
        return None

    def _pause_after(self, error: grpc.RpcError) -> float:
        """Seconds to wait before the next attempt. Raises a BastionError if there is none."""
        failure = errors.from_rpc(error, self._started.request_id if self._started else None)
        if self._texts:  # A second attempt would repeat what the caller has read.
            raise failure
        return self._attempts.pause_after(failure)

    def _text(self, index: int) -> str:
        if index not in self._finished:
            raise IndexError(f"there is no answer {index}; the request asked for {len(self._finished)}, from 0")
        return "".join(self._texts[index])


def canceled() -> errors.Cancelled:
    return errors.Cancelled("the client canceled the call")
