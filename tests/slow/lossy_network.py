"""A slow and lossy network between network namespaces of this machine. Needs root.

Kernels may lack netem. So every namespace has a TUN device, and a process here passes the packets on: it
delays each, drops some, and drops all between hosts that are cut off from each other.
"""

import contextlib
import fcntl
import heapq
import itertools
import multiprocessing
import os
import random
import selectors
import signal
import struct
import subprocess
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
SUBNET = "10.77.0"
MOST_PACKET = 1 << 16
SEED = 5


def open_tun(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


class Relay:
    """Passes packets on between devices, in a process of its own."""

    def __init__(self, devices, commands, delay, loss):
        self.devices = devices  # By the last byte of the host's address.
        self.commands = commands
        self.delay = delay
        self.loss = loss
        self.cuts = set()
        self.waiting = []  # Heap of (time, number, host, packet).
        self.numbers = itertools.count()
        self.random = random.Random(SEED)

    def take(self, source):
        """Takes what a host sends, and decides what becomes of it."""
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self.devices[source], MOST_PACKET)
                is_ipv4 = packet[0] >> 4 == 4
                host = packet[19] if is_ipv4 else None
                if host not in self.devices or frozenset((source, host)) in self.cuts:
                    continue
                if self.random.random() >= self.loss:
                    due = time.monotonic() + self.delay
                    heapq.heappush(self.waiting, (due, next(self.numbers), host, packet))

    def deliver(self):
        """Delivers what is due. Returns the seconds until the next packet is; None: nothing waits."""
        while self.waiting:
            rest = self.waiting[0][0] - time.monotonic()
            if rest > 0:
                return rest
            _, _, host, packet = heapq.heappop(self.waiting)
            with contextlib.suppress(BlockingIOError):
                os.write(self.devices[host], packet)
        return None

    def run(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with selectors.DefaultSelector() as selector:
            for host, device in self.devices.items():
                selector.register(device, selectors.EVENT_READ, host)
            selector.register(self.commands, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(self.deliver()):
                    if key.data is not None:
                        self.take(key.data)
                        continue
                    try:
                        self.cuts = self.commands.recv()
                    except EOFError:
                        return


class LossyNetwork(contextlib.AbstractContextManager):
    """One namespace per host. `delay` is in seconds and one way; `loss` is the share of lost packets."""

    def __init__(self, hosts, delay, loss):
        self.hosts = {name: number for number, name in enumerate(hosts, start=1)}
        self.delay, self.loss = delay, loss
        self.tag = f"b{os.getpid()}"
        self.cuts = set()
        self.devices = {}
        self.commands = self.process = None

    def address(self, host):
        return f"{SUBNET}.{self.hosts[host]}"

    def prefix(self, host):
        """Starts a program on the host."""
        return ("ip", "netns", "exec", f"{self.tag}-{host}")

    def __enter__(self):
        def ip(*arguments):
            subprocess.run(["ip", *arguments], check=True, capture_output=True)

        for host, number in self.hosts.items():
            namespace, device = f"{self.tag}-{host}", f"{self.tag}n{number}"
            ip("netns", "add", namespace)
            self.devices[number] = open_tun(device)
            ip("link", "set", device, "netns", namespace)
            ip("-n", namespace, "address", "add", f"{self.address(host)}/24", "dev", device)
            ip("-n", namespace, "link", "set", device, "up")
            ip("-n", namespace, "link", "set", "lo", "up")
        receiver, self.commands = multiprocessing.Pipe(duplex=False)
        relay = Relay(self.devices, receiver, self.delay, self.loss)
        self.process = multiprocessing.Process(target=relay.run, daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.join()
        for device in self.devices.values():
            os.close(device)
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", f"{self.tag}-{host}"], check=False, capture_output=True)

    @contextlib.contextmanager
    def cut(self, *pair):
        """Nothing passes between two hosts meanwhile."""
        numbers = frozenset(self.hosts[host] for host in pair)
        self.cuts.add(numbers)
        self.commands.send(self.cuts)
        try:
            yield
        finally:
            self.cuts.remove(numbers)
            self.commands.send(self.cuts)
