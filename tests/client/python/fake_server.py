"""A server of the public API that does what a test tells it to, behind a real gRPC port."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import subprocess
import threading
import time

import grpc
from bastion_client._proto import error_details_pb2, generation_pb2, generation_pb2_grpc, health_pb2, health_pb2_grpc


def started(request_id="req-1"):
    return generation_pb2.GenerateResponse(started=generation_pb2.Started(request_id=request_id, model="fake", prompt_tokens=3))


def delta(text, answer=0):
    return generation_pb2.GenerateResponse(delta=generation_pb2.Delta(text=text, answer=answer))


def finished(answer=0):
    return generation_pb2.GenerateResponse(
        finished=generation_pb2.Finished(
            reason=generation_pb2.FINISH_REASON_LENGTH,
            answer=answer,
            seed=7,
            usage=generation_pb2.Usage(prompt_tokens=3, completion_tokens=2),
        )
    )


def answer(*_):
    """A behavior: the answer 'Hello world'."""
    yield from (started(), delta("Hello"), delta(" world"), finished())


def endless(*_):
    """A behavior: an answer that ends only with the call."""
    yield started()
    while True:
        yield delta("a")


def silent(call):
    """A behavior: an answer without a first token."""
    yield started()
    call.ended.wait()


class _Status(collections.namedtuple("_Status", ("code", "details", "trailing_metadata")), grpc.Status):
    pass


def fails(code, message="", *, details=None, after=()):
    """A behavior: the call sends the responses `after`, then fails. `details` are the bytes of a
    google.rpc.Status."""
    trailers = () if details is None else (("grpc-status-details-bin", details),)

    def behave(call):
        yield from after
        call.context.abort_with_status(_Status(code, message, trailers))

    return behave


def error_details(*, retry_delay=None, violations=(), request_id=""):
    """A google.rpc.Status with the given details. `retry_delay` is in seconds; `violations` are
    pairs of field and description."""
    status = error_details_pb2.ErrorStatus()

    def add(name, detail):
        status.details.add(type_url=f"type.googleapis.com/google.rpc.{name}", value=detail.SerializeToString())

    if retry_delay is not None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromNanoseconds(int(retry_delay * 1e9))
        add("RetryInfo", info)
    if violations:
        request = error_details_pb2.BadRequest()
        for field, description in violations:
            request.field_violations.add(field=field, description=description)
        add("BadRequest", request)
    if request_id:
        add("RequestInfo", error_details_pb2.RequestInfo(request_id=request_id))
    return status.SerializeToString()


@dataclasses.dataclass
class Call:
    """A call that arrived."""

    request: object
    context: object
    metadata: dict
    ended: threading.Event


class FakeServer(
    generation_pb2_grpc.GenerationServiceServicer, health_pb2_grpc.HealthServicer, contextlib.AbstractContextManager
):
    """Each call behaves like the next of `behaviors`; further ones like `answer`. `calls` are those
    of Generate."""

    def __init__(self, *behaviors, address="127.0.0.1:0", credentials=None):
        self.behaviors = collections.deque(behaviors)
        self.calls = []
        self.health = health_pb2.HealthCheckResponse.SERVING
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(self, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self, self._server)
        if credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, credentials)
        self.address = address.replace(":0", f":{port}")

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()

    def await_call(self):
        """Waits until a call of Generate has arrived, and a little longer: until its client knows
        of what the server has sent."""
        end = time.monotonic() + 10
        while not self.calls and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)

    def _next(self, request, context):
        ended = threading.Event()
        context.add_callback(ended.set)
        behave = self.behaviors.popleft() if self.behaviors else answer
        return behave, Call(request, context, dict(context.invocation_metadata()), ended)

    def Generate(self, request, context):
        behave, call = self._next(request, context)
        self.calls.append(call)
        yield from behave(call)

    def ListModels(self, request, context):
        behave, call = self._next(request, context)
        list(behave(call))
        return generation_pb2.ListModelsResponse(
            models=[generation_pb2.Model(name="fake", vocabulary=100, max_context=2048, has_chat_template=True)]
        )

    def GetServerInfo(self, request, context):
        behave, call = self._next(request, context)
        list(behave(call))
        return generation_pb2.GetServerInfoResponse(version="1.2.3", running_requests=4)

    def Check(self, request, context):
        return health_pb2.HealthCheckResponse(status=self.health)


def make_certificate(folder, name):
    """A self-signed certificate for 127.0.0.1. Returns the paths of certificate and key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            f"/CN={name}",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
