"""Channels, and the metadata of calls."""

import contextlib
import importlib.metadata
import pathlib
from types import ModuleType
from typing import Any, Iterator, List, Optional, Tuple

import grpc

from bastion_client.options import ClientOptions, Path, TraceContext

VERSION = importlib.metadata.version("bastion-client")
Metadata = Tuple[Tuple[str, str], ...]


def _read(path: Optional[Path]) -> Optional[bytes]:
    return None if path is None else pathlib.Path(path).read_bytes()


def _credentials(options: ClientOptions) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=_read(options.tls_ca), private_key=_read(options.tls_key), certificate_chain=_read(options.tls_cert)
    )


def open_channel(module: ModuleType, address: str, options: ClientOptions) -> Any:
    """A channel of `module`, which is grpc or grpc.aio. It connects when it is first used. Raises
    OSError if it cannot read a file of the options, and ValueError if the options contradict each
    other."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ValueError("tls_cert and tls_key belong together; set both or none")
    if options.tls_cert is not None and options.tls_ca is None:
        raise ValueError("tls_cert is set, but tls_ca is not; without tls_ca there is no TLS")
    arguments = [
        ("grpc.primary_user_agent", f"bastion-client/{VERSION}"),
        ("grpc.max_receive_message_length", options.max_message_bytes),
        # By default, gRPC pauses for 1 to 120 s before it connects again, and retries would fail
        # meanwhile.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
    ]
    if options.tls_ca is None or address.startswith("unix:"):
        return module.insecure_channel(address, options=arguments)
    return module.secure_channel(address, _credentials(options), options=arguments)


@contextlib.contextmanager
def connecting(channel: grpc.Channel) -> Iterator[None]:
    """Lets `channel` connect during a pause between two attempts. Some versions of gRPC connect only
    while a thread waits for the channel, and a call that has failed no longer waits."""
    connected = grpc.channel_ready_future(channel)
    try:
        yield
    finally:
        connected.cancel()


def client_metadata(options: ClientOptions) -> Metadata:
    """What every call of a client says. Raises OSError or ValueError if the token's file cannot be
    read or is empty."""
    metadata: List[Tuple[str, str]] = []
    token = options.token
    if token is None and options.token_file is not None:
        token = pathlib.Path(options.token_file).read_text(encoding="ascii").strip()
        if not token:
            raise ValueError(f"token_file: {options.token_file} is empty")
    if token is not None:
        metadata.append(("authorization", f"Bearer {token}"))
    if options.client_id is not None:
        metadata.append(("client-id", options.client_id))
    return tuple(metadata)


def trace_metadata(trace: Optional[TraceContext]) -> Metadata:
    return tuple((key, trace[key]) for key in ("traceparent", "tracestate") if trace is not None and trace.get(key))
