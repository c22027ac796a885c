"""The errors of calls: one class per status that the server promises."""

import dataclasses
from typing import Dict, Optional, Tuple, Type

import grpc
from google.protobuf.message import DecodeError

from bastion_client._proto import error_details_pb2


class BastionError(Exception):
    """A call failed. The text of the error says what to do.

    Attributes:
      code: The status of the call.
      message: The text of the error.
      request_id: The server's log has the cause under this id. None: the server did not say.
      retry_after: Seconds after which the server asks clients to try again. None: it does not say.
    """

    code = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, request_id: Optional[str] = None, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after


@dataclasses.dataclass(frozen=True)
class FieldViolation:
    field: str  # The path of the field, e.g. 'sampling.top_p'.
    description: str  # What is wrong with it, and what to do.


class InvalidArgument(BastionError):
    """A field is out of range or not supported. `field_violations` names it."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    field_violations: Tuple[FieldViolation, ...] = ()


class NotFound(BastionError):
    """The server does not serve this model."""

    code = grpc.StatusCode.NOT_FOUND


class Unauthenticated(BastionError):
    """The call has no valid credentials."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(BastionError):
    """The caller may not make this call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(BastionError):
    """With `retry_after`: the queue is full, the client has too many calls, or the server ran out
    of memory. Without it: the client reads too slowly, the answer alone fills the KV cache, or the
    request is too large."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Cancelled(BastionError):
    """This client canceled the call, or the server did because the client does not read."""

    code = grpc.StatusCode.CANCELLED


class DeadlineExceeded(BastionError):
    """The timeout of the call has passed."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unavailable(BastionError):
    """The server cannot be reached, is not ready, is shutting down, or could not finish the answer.
    Try again later, or another replica."""

    code = grpc.StatusCode.UNAVAILABLE


_CLASSES: Dict[grpc.StatusCode, Type[BastionError]] = {kind.code: kind for kind in BastionError.__subclasses__()}


def _details(error: grpc.RpcError) -> Dict[str, bytes]:
    """The google.rpc messages of a failed call, by name, e.g. 'google.rpc.RetryInfo'."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            details = error_details_pb2.ErrorStatus.FromString(value).details
            return {detail.type_url.rpartition("/")[2]: detail.value for detail in details}
    return {}


def _set_details(failure: BastionError, error: grpc.RpcError) -> None:
    details = _details(error)
    if "google.rpc.RequestInfo" in details:
        info = error_details_pb2.RequestInfo.FromString(details["google.rpc.RequestInfo"])
        failure.request_id = info.request_id
    if "google.rpc.RetryInfo" in details:
        delay = error_details_pb2.RetryInfo.FromString(details["google.rpc.RetryInfo"]).retry_delay
        failure.retry_after = delay.seconds + delay.nanos * 1e-9
    if isinstance(failure, InvalidArgument) and "google.rpc.BadRequest" in details:
        request = error_details_pb2.BadRequest.FromString(details["google.rpc.BadRequest"])
        failure.field_violations = tuple(
            FieldViolation(violation.field, violation.description) for violation in request.field_violations
        )


def from_rpc(error: grpc.RpcError, request_id: Optional[str] = None) -> BastionError:
    """The error of a failed gRPC call, with `error` as its cause. `request_id` is that of the call,
    if it is known."""
    failure = _CLASSES.get(error.code(), BastionError)(error.details() or "", request_id)
    failure.code = error.code()
    failure.__cause__ = error
    try:
        _set_details(failure, error)
    except DecodeError:
        pass  # A proxy sent details of another kind. The status and the message are enough.
    return failure
