#!/usr/bin/env python3
"""Installs the Helm chart through a real API server, controllers and scheduler.

usage: cluster_test.py TOOLS (see run.sh)
"""

import json
import pathlib
import subprocess
import sys
import threading
import time
import unittest

from cluster import GPUS, Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/bastion"
NAMESPACE = "serving"
TOOLS = None
NOT_HERE = ("runtimeClassName=", "priorityClassName=")  # What a cluster would have.


def objects(namespace):
    return [
        # The strictest profile: no pod of the chart may break its rules.
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "models"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadOnlyMany"],
                "hostPath": {"path": "/models"},
                "storageClassName": "models",
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models", "namespace": namespace},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "models",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ]


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(TOOLS))
        cls.cluster.apply(*objects(NAMESPACE))

    def install(self, name, case, *settings):
        flags = [flag for setting in (*NOT_HERE, *settings) for flag in ("--set", setting)]
        self.cluster.helm(
            "upgrade", "--install", name, CHART, "--namespace", NAMESPACE, "--values", CHART / f"ci/{case}.yaml", *flags
        )

    def pods(self, name, deleted=False):
        return [
            p
            for p in self.cluster.get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/instance={name}")
            if deleted or "deletionTimestamp" not in p["metadata"]
        ]

    def ready_pods(self, name):
        return [
            p
            for p in self.pods(name)
            if any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))
        ]

    def await_rollout(self, kind, name):
        self.cluster.must("rollout", "status", f"{kind}/{name}", "-n", NAMESPACE, "--timeout=90s")

    def uninstall(self, name):
        self.cluster.helm("uninstall", name, "--namespace", NAMESPACE)
        selector = ("-n", NAMESPACE, "-l", f"app.kubernetes.io/instance={name}")
        kinds = ",".join(
            (
                "deployments",
                "statefulsets",
                "pods",
                "services",
                "configmaps",
                "serviceaccounts",
                "networkpolicies",
                "poddisruptionbudgets",
                "horizontalpodautoscalers",
                "resourceclaimtemplates",
                "grpcroutes",
                "httproutes",
                "servicemonitors",
                "inferencepools",
                "certificates",
            )
        )
        self.cluster.await_true(lambda: not self.cluster.get(kinds, *selector), "the end of all objects")
        self.cluster.await_true(lambda: not self.cluster.get("resourceclaims", "-n", NAMESPACE), "the end of the claims")

    def test_two_containers_get_one_device_through_one_claim(self):
        self.install("shared", "colocated-gpu", "model.image=", "model.claim=models")
        self.addCleanup(self.uninstall, "shared")
        self.cluster.await_true(lambda: len(self.ready_pods("shared")) == 1, "the first replica")
        [claim] = self.cluster.get("resourceclaims", "-n", NAMESPACE)
        self.assertEqual(len(claim["status"]["allocation"]["devices"]["results"]), 1)
        [pod] = self.pods("shared")
        self.assertEqual([r["name"] for r in claim["status"]["reservedFor"]], [pod["metadata"]["name"]])

    def test_a_pod_waits_for_a_device_if_all_are_taken(self):
        total = GPUS * len(self.cluster.node_names)
        self.install("full", "two-gpus", f"replicas={total // 2 + 1}")
        self.addCleanup(self.uninstall, "full")
        self.cluster.await_true(lambda: len(self.ready_pods("full")) == total // 2, "the replicas")
        [waiting] = [p for p in self.pods("full") if "nodeName" not in p["spec"]]
        self.cluster.await_true(
            lambda: (
                "cannot allocate all claims"
                in json.dumps(self.cluster.get("pods", "-n", NAMESPACE, "--field-selector", "spec.nodeName="))
            ),
            "the reason",
        )
        self.assertTrue(waiting)

    def test_an_update_replaces_pods_without_fewer_that_are_ready(self):
        self.install("rolling", "colocated", "replicas=3")
        self.addCleanup(self.uninstall, "rolling")
        self.await_rollout("deployment", "rolling-bastion")
        before = {p["metadata"]["name"] for p in self.pods("rolling")}
        least, done = [99], threading.Event()

        def watch():
            while not done.is_set():
                least[0] = min(least[0], len(self.ready_pods("rolling")))
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            self.install("rolling", "colocated", "replicas=3", "podLabels.round=two")
            self.await_rollout("deployment", "rolling-bastion")
        finally:
            done.set()
            watcher.join()
        self.assertGreaterEqual(least[0], 3)
        self.assertEqual(before & {p["metadata"]["name"] for p in self.pods("rolling")}, set())

    def test_mode_split_rolls_out_three_sets_of_the_same_size(self):
        self.install("apart", "split")
        self.addCleanup(self.uninstall, "apart")
        for service in ("verifier", "drafter", "orchestrator"):
            self.await_rollout("statefulset", f"apart-bastion-{service}")
        self.assertEqual(
            sorted(p["metadata"]["name"] for p in self.pods("apart")),
            [f"apart-bastion-{s}-{i}" for s in ("drafter", "orchestrator", "verifier") for i in (0, 1)],
        )
        for pod in self.pods("apart"):  # The names of peers need this label.
            self.assertIn("apps.kubernetes.io/pod-index", pod["metadata"]["labels"])
        self.assertEqual(len(self.cluster.get("resourceclaims", "-n", NAMESPACE)), 4)

    def test_a_release_leaves_nothing_behind(self):
        self.install("short", "single-gpu")
        self.await_rollout("deployment", "short-bastion")
        self.uninstall("short")

    def test_the_server_refuses_mistakes(self):
        rendered = subprocess.run(
            [
                TOOLS / "helm",
                "template",
                "mistake",
                CHART,
                "--namespace",
                NAMESPACE,
                "--kube-version",
                "v1.36.3",
                "--values",
                CHART / "ci/colocated-gpu.yaml",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        check = ("apply", "-n", NAMESPACE, "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
        accepted = self.cluster.kubectl(*check, input=rendered)
        self.assertEqual((accepted.returncode, accepted.stderr), (0, ""))
        for right, wrong, message in [
            (
                "automountServiceAccountToken: false\n      enable",
                "automountToken: false\n      enable",
                ".spec.template.spec.automountToken: field not declared",
            ),
            ("  maxUnavailable: 1\n  #", "  maxUnavailable: 1\n  minAvailable: 1\n  #", "cannot be both set"),
            ("method: {service: bastion.v1.GenerationService}", 'method: {service: "bad name"}', "GRPCRoute"),
            ("{name: gpu, request: verifier}", "{name: cpu, request: verifier}", "resources.claims"),
            ("periodSeconds: 2", "periodSeconds: -2", "periodSeconds"),
        ]:
            with self.subTest(wrong=wrong):
                self.assertIn(right, rendered)
                refused = self.cluster.kubectl(*check, input=rendered.replace(right, wrong))
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(message, refused.stderr)


if __name__ == "__main__":
    TOOLS = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
