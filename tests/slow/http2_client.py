"""A raw HTTP/2 client for gRPC calls: for clients that no library can play, like one that does not
read, resets its calls, or sends headers that are too long."""

import collections
import socket
import ssl
import struct

GENERATE = "/bastion.v1.GenerationService/Generate"

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
_CANCEL = 8
_INITIAL_WINDOW_SIZE = 4
_MOST_BYTES_OF_A_FRAME = 16384
# "Unlimited" for what the server may send.
WIDE = 2**30

Frame = collections.namedtuple("Frame", "type flags stream payload")


class Closed(Exception):
    """The server closed the connection."""


def literal(name, value, index=False):
    """A header field without Huffman code; `index` adds it to the server's table."""

    def text(of):
        data = of.encode()
        size = bytes([len(data)]) if len(data) < 127 else b"\x7f" + _varint(len(data) - 127)
        return size + data

    return (b"\x40" if index else b"\x00") + text(name) + text(value)


def _varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number, value):
    """A field of a protobuf message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def generate_request(max_tokens=100, policy="", stop=(), bias=None, **prompt):
    """A GenerateRequest. The prompt is `text` or `ids`. `bias` maps a token to what is added to its logit."""
    message = b""
    if "ids" in prompt:
        message += _field(4, _field(1, b"".join(_varint(token) for token in prompt["ids"])))
    else:
        message += _field(3, prompt["text"])
    for token, value in (bias or {}).items():
        entry = _field(1, token) + _varint(2 << 3 | 5) + struct.pack("<f", value)
        message += _field(6, _field(9, entry))
    stops = b"".join(_field(3, each) for each in stop)
    message += _field(7, _field(1, max_tokens) + stops + _field(5, 1))
    return message + (_field(9, _field(2, policy)) if policy else b"")


class Http2Client:
    """One connection. Thread-compatible."""

    def __init__(self, port, window=WIDE, tls=False, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket)
        self.received = b""
        self.frames = collections.deque()  # Read while the client waited for something else.
        self.next_stream = 1
        self.their_window = 65535  # How much the client may send, for new streams.
        self.windows = collections.Counter({0: 65535})
        self._send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, window))
        if window == WIDE:
            self.open_window(0, WIDE)
        # Limits are in force only when the settings are acknowledged.
        while self._read().type != SETTINGS:
            pass

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _send(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, ssl.SSLError, socket.timeout) as error:
            raise Closed from error

    def frame(self, kind, flags, stream, payload=b""):
        self._send(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def open_window(self, stream, count):
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count))

    def reset(self, stream):
        self.frame(RESET, 0, stream, struct.pack(">I", _CANCEL))

    def begin(self, path=GENERATE, extra=b"", flags=END_HEADERS):
        """Sends the headers of a call, and `extra` ones, and returns its stream."""
        stream = self.next_stream
        self.next_stream += 2
        fields = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
        block = b"".join(literal(*field) for field in fields) + extra
        first, rest = block[:_MOST_BYTES_OF_A_FRAME], block[_MOST_BYTES_OF_A_FRAME:]
        self.frame(HEADERS, 0 if rest else flags, stream, first)
        while rest:
            part, rest = rest[:_MOST_BYTES_OF_A_FRAME], rest[_MOST_BYTES_OF_A_FRAME:]
            self.frame(CONTINUATION, 0 if rest else flags & END_HEADERS, stream, part)
        self.windows[stream] = self.their_window
        return stream

    def call(self, message, path=GENERATE):
        """Begins a call with one message, and returns its stream. Waits for the server's windows."""
        stream = self.begin(path)
        rest = b"\x00" + struct.pack(">I", len(message)) + message
        while rest:
            count = min(len(rest), self.windows[0], self.windows[stream], _MOST_BYTES_OF_A_FRAME)
            if count <= 0:
                frame = self._read()
                self.frames.append(frame)
                if ends(frame, stream):
                    return stream  # The server does not want the rest.
                continue
            part, rest = rest[:count], rest[count:]
            self.frame(DATA, 0 if rest else END_STREAM, stream, part)
            self.windows[0] -= count
            self.windows[stream] -= count
        return stream

    def read(self):
        """The next frame. Answers pings and settings."""
        return self.frames.popleft() if self.frames else self._read()

    def _read(self):
        header = self._receive(9)
        size = int.from_bytes(header[:3], "big")
        frame = Frame(header[3], header[4], int.from_bytes(header[5:], "big"), self._receive(size))
        if frame.type == PING and not frame.flags & ACK:
            self.frame(PING, ACK, 0, frame.payload)
        elif frame.type == SETTINGS and not frame.flags & ACK:
            for key, value in struct.iter_unpack(">HI", frame.payload):
                if key == _INITIAL_WINDOW_SIZE:
                    self.their_window = value
            self.frame(SETTINGS, ACK, 0)
        elif frame.type == WINDOW_UPDATE:
            self.windows[frame.stream] += int.from_bytes(frame.payload, "big")
        elif frame.type == GOAWAY:
            raise Closed
        return frame

    def _receive(self, count):
        while len(self.received) < count:
            try:
                part = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError) as error:
                raise Closed from error
            if not part:
                raise Closed
            self.received += part
        data, self.received = self.received[:count], self.received[count:]
        return data

    def messages(self, stream):
        """Yields the messages of a call as they arrive."""
        data = b""
        while True:
            frame = self.read()
            if frame.stream != stream:
                continue
            if frame.type == DATA:
                data += frame.payload
                if frame.payload:
                    self.open_window(0, len(frame.payload))
            while len(data) >= 5:
                size = int.from_bytes(data[1:5], "big")
                if len(data) < 5 + size:
                    break
                yield data[5 : 5 + size]
                data = data[5 + size :]
            if ends(frame, stream):
                return


def ends(frame, stream):
    """True if `frame` is the last one of `stream`."""
    return frame.stream == stream and (frame.type == RESET or frame.type in (DATA, HEADERS) and frame.flags & END_STREAM != 0)
