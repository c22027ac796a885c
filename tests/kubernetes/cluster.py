"""A control plane of Kubernetes on loopback, and nodes that kwok plays."""

import contextlib
import json
import pathlib
import secrets
import socket
import subprocess
import tempfile
import time

GPUS = 4  # Number on each node.


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def node(name):
    """A node whose GPUs can be claimed, and are also those of a device plugin."""
    resources = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "gpu": "h100"}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def device_class():
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
    }


def resource_slice(node_name):
    devices = [{"name": f"gpu-{i}", "capacity": {"memory": {"value": "80Gi"}}} for i in range(GPUS)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node_name,
            "devices": devices,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        },
    }


class Cluster(contextlib.AbstractContextManager):
    """Starts on __enter__ and ends on __exit__. `tools`: the folder of build_tools.sh."""

    def __init__(self, tools, nodes=2):
        self.tools = pathlib.Path(tools).resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bastion-cluster."))
        self.logs = self.tools / "logs"
        self.logs.mkdir(exist_ok=True)
        self.config = self.folder / "kubeconfig"
        self.processes = {}
        self.node_names = [f"node-{i}" for i in range(nodes)]

    def _start(self, name, *flags):
        with open(self.logs / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [self.tools / name, *map(str, flags)], cwd=self.folder, stdout=log, stderr=log
            )

    def _start_server(self):
        client, peer, port = free_port(), free_port(), free_port()
        token = secrets.token_hex(16)
        (self.folder / "tokens.csv").write_text(f"{token},admin,1,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", "sa.key", "2048"], cwd=self.folder, check=True, capture_output=True)
        self._start(
            "etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        )
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--cert-dir=certs",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://127.0.0.1",
            "--service-account-key-file=sa.key",
            "--service-account-signing-key-file=sa.key",
            "--authorization-mode=RBAC",
            "--token-auth-file=tokens.csv",
        )
        server = f"https://127.0.0.1:{port}"
        self.config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "clusters": [
                        {
                            "name": "test",
                            "cluster": {"server": server, "certificate-authority": str(self.folder / "certs/apiserver.crt")},
                        }
                    ],
                    "users": [{"name": "admin", "user": {"token": token}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
                }
            )
        )

    def __enter__(self):
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self):
        self._start_server()
        self.await_true(lambda: self.kubectl("get", "--raw", "/readyz").returncode == 0, "the API server")
        flags = ("--kubeconfig", self.config, "--bind-address=127.0.0.1", "--leader-elect=false")
        self._start(
            "kube-controller-manager",
            *flags,
            f"--secure-port={free_port()}",
            "--service-account-private-key-file=sa.key",
            "--root-ca-file=certs/apiserver.crt",
        )
        self._start("kube-scheduler", *flags, f"--secure-port={free_port()}")
        self._start(
            "kwok",
            "--kubeconfig",
            self.config,
            "--manage-all-nodes=true",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{free_port()}",
        )
        self.apply(device_class(), *(f(name) for name in self.node_names for f in (node, resource_slice)))
        for definition in sorted((self.tools / "definitions").glob("*.yaml")):
            self.must("apply", "--server-side", "-f", definition)
        self.await_true(lambda: len(self.ready_nodes()) == len(self.node_names), "the nodes")

    def __exit__(self, *_):
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def await_true(self, condition, what, timeout=60):
        deadline = time.monotonic() + timeout
        while not condition():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended; see {self.logs}/{name}.log")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not ready after {timeout} s; see {self.logs}")
            time.sleep(0.2)

    def run(self, program, *arguments, **options):
        return subprocess.run(
            [self.tools / program, "--kubeconfig", self.config, *arguments],
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    def kubectl(self, *arguments, **options):
        return self.run("kubectl", *arguments, **options)

    def must(self, *arguments, program="kubectl", **options):
        ran = self.run(program, *arguments, **options)
        if ran.returncode != 0:
            raise RuntimeError(f"{program} {arguments} failed:\n{ran.stderr}")
        return ran.stdout

    def helm(self, *arguments):
        return self.must(*arguments, program="helm")

    def apply(self, *objects):
        for entry in objects:
            self.must("apply", "--server-side", "-f", "-", input=json.dumps(entry))

    def get(self, *arguments):
        """The items that `kubectl get` finds."""
        return json.loads(self.must("get", "-o", "json", *arguments))["items"]

    def ready_nodes(self):
        return [
            n
            for n in self.get("nodes")
            if any(c["type"] == "Ready" and c["status"] == "True" for c in n.get("status", {}).get("conditions", []))
        ]
