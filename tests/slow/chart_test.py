#!/usr/bin/env python3
"""Tests the Helm chart: lint, the schemas of Kubernetes, and what its objects promise to each other.

watches: deploy/helm tests/kubernetes/build_tools.sh orchestrator/program/main.cc verifier_service/serve/main.cc drafter_service/serve/main.cc common/host/flags.cc
"""

import collections
import json
import pathlib
import re
import subprocess
import unittest

import kubernetes_validate
import yaml

from command_line import build_chart_tools, parse_arguments

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/bastion"
CASES = sorted((CHART / "ci").glob("*.yaml"))
# The first version with claims for devices, and the newest that the validator knows.
VERSIONS = ("1.34", "1.36")
# Objects that extensions define. tests/kubernetes/run.sh checks them with their definitions.
EXTENSIONS = {"Certificate", "GRPCRoute", "HTTPRoute", "InferencePool", "ServiceMonitor"}
BUILT_IN = {
    "ConfigMap",
    "Deployment",
    "HorizontalPodAutoscaler",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ResourceClaimTemplate",
    "Service",
    "ServiceAccount",
    "StatefulSet",
}
# The images have digests or the chart's version as their tag, so these rules of kube-score do not apply.
IGNORED = ("container-image-tag",)
ARGUMENTS = None
TOOLS = None


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def render(values, *settings):
    """The result of `helm template`."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    files = ("--values", values) if values else ()
    return run(TOOLS / "helm", "template", "demo", CHART, "--namespace", "serving", "--kube-version", "v1.36.3", *files, *flags)


def objects(case, *settings):
    rendered = render(CHART / f"ci/{case}.yaml", *settings)
    if rendered.returncode != 0:
        raise RuntimeError(rendered.stderr)
    return [document for document in yaml.safe_load_all(rendered.stdout) if document]


def pods(documents):
    """The specs of pods by the names of their controllers."""
    return {
        d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in documents if d["kind"] in ("Deployment", "StatefulSet")
    }


def containers(pod):
    """Containers by name, those that start first too."""
    return {c["name"]: c for c in [*pod.get("initContainers", []), *pod["containers"]]}


def flag(container, name):
    """The value of a flag in the container's arguments; None if it is not there."""
    values = [word.partition("=")[2] for word in container["args"] if word.split("=")[0] == f"--{name}"]
    return values[-1] if values else None


class LintTest(unittest.TestCase):
    def test_helm_finds_no_errors_and_no_warnings(self):
        self.assertGreaterEqual(len(CASES), 5)
        for case in CASES:
            linted = run(TOOLS / "helm", "lint", "--strict", "--kube-version", "v1.36.3", CHART, "--values", case)
            self.assertEqual(linted.returncode, 0, f"{case.name}: {linted.stdout}{linted.stderr}")

    def test_objects_match_the_schemas_of_kubernetes(self):
        kinds = collections.Counter()
        for case in CASES:
            for document in objects(case.stem):
                kinds[document["kind"]] += 1
                if document["kind"] in EXTENSIONS:
                    continue
                for version in VERSIONS:
                    with self.subTest(case=case.stem, name=document["metadata"]["name"], version=version):
                        kubernetes_validate.validate(document, version, strict=True)
        self.assertEqual(set(kinds), EXTENSIONS | BUILT_IN)

    def test_a_misspelled_field_is_found(self):
        [deployment] = [d for d in objects("colocated") if d["kind"] == "Deployment"]
        deployment["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, VERSIONS[0], strict=True)

    def test_kube_score_finds_nothing_critical(self):
        for case in CASES:
            rendered = render(case).stdout
            scored = subprocess.run(
                [
                    TOOLS / "kube-score",
                    "score",
                    "--output-format",
                    "ci",
                    "--kubernetes-version",
                    "v1.34",
                    *(word for name in IGNORED for word in ("--ignore-test", name)),
                    "-",
                ],
                input=rendered,
                capture_output=True,
                text=True,
                check=False,
            )
            critical = [line for line in scored.stdout.splitlines() if line.startswith("[CRITICAL]")]
            self.assertEqual(critical, [], case.stem)
            self.assertIn("[OK]", scored.stdout, case.stem)

    def test_the_chart_has_the_version_of_the_project(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = re.search(r"project\(bastion VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual({chart["version"], chart["appVersion"]}, {version})

    def test_the_schema_knows_every_value(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values))


class RefusalTest(unittest.TestCase):
    """Values that cannot work are refused, with what to do."""

    def refused(self, case, settings, message):
        with self.subTest(settings=settings):
            rendered = render(CHART / f"ci/{case}.yaml", *settings)
            self.assertNotEqual(rendered.returncode, 0)
            self.assertIn(message, rendered.stderr)

    def test_no_values_at_all(self):
        rendered = render(None)
        self.assertNotEqual(rendered.returncode, 0)
        self.assertIn("set exactly one of model.claim and model.image", rendered.stderr)

    def test_combinations_that_cannot_work(self):
        for case, settings, message in [
            ("colocated", ["tls.allowPlaintext=false"], "set tls.secret, or set tls.allowPlaintext"),
            ("colocated", ["model.image=x"], "exactly one of model.claim and model.image"),
            ("colocated", ["gpu.allocation=claim"], "needs images.cuda"),
            ("colocated", ["route.enabled=true"], "needs route.parentRefs"),
            ("colocated", ["tls.requireClientCert=true"], "needs tls.secret"),
            ("colocated", ["metrics.enabled=false", "serviceMonitor.enabled=true"], "needs metrics.enabled"),
            ("colocated", ["inferencePool.enabled=true"], "needs inferencePool.picker"),
            ("split", ["split.drafterSecret="], "split.drafterSecret"),
            ("split", ["tls.secret=x"], "split.orchestratorSecret"),
            ("split", ["autoscaling.enabled=true"], "needs mode colocated"),
        ]:
            self.refused(case, settings, message)

    def test_values_that_the_schema_does_not_have(self):
        for settings, place in [
            (["replcas=2"], "replcas"),
            (["mode=both"], "/mode"),
            (["verifier.dtype=int4"], "/verifier/dtype"),
            (["replicas=-1"], "/replicas"),
            (["verifier.flags[0]=max_rows"], "/verifier/flags"),
            (["images.digests.bastion-verifier=latest"], "/images/digests"),
        ]:
            self.refused("colocated", settings, place)


class PromiseTest(unittest.TestCase):
    """What objects, containers and flags promise to each other."""

    def test_programs_know_all_flags(self):
        used = collections.defaultdict(set)
        for case in CASES:
            for pod in pods(objects(case.stem)).values():
                for name, container in containers(pod).items():
                    program = f"bastion-{name}"
                    for word in container.get("args", []):
                        program = word if not word.startswith("--") else program
                        if word.startswith("--") and word != "--":
                            used[program].add(word.split("=")[0])
        self.assertEqual(set(used), {"bastion-orchestrator", "bastion-verifier", "bastion-drafter"})
        for program, flags in used.items():
            known = set(re.findall(r"^  (--\w+)", run(pathlib.Path(ARGUMENTS.bin, program), "--help").stdout, re.M))
            self.assertEqual(flags - known, set(), program)

    def test_a_pod_outlives_the_longest_answer(self):
        for case in CASES:
            for name, pod in pods(objects(case.stem, "drain.longestAnswerSeconds=777")).items():
                with self.subTest(case=case.stem, name=name):
                    main = pod["containers"][0]
                    notice = main["lifecycle"]["preStop"]["sleep"]["seconds"]
                    grace = flag(main, "grace")
                    # An engine of mode split sleeps while the orchestrator drains.
                    drain = int(grace.rstrip("s")) if grace else 0
                    self.assertGreaterEqual(notice + drain, 777 + 10)
                    self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], notice + drain + 5)

    def test_engines_of_a_pod_start_before_the_orchestrator_and_end_after_it(self):
        for case in ("colocated", "colocated-gpu", "two-gpus"):
            [pod] = pods(objects(case)).values()
            sidecars = [c["name"] for c in pod["initContainers"] if c.get("restartPolicy") == "Always"]
            self.assertEqual(sidecars, ["verifier", "drafter"])
            self.assertEqual([c["name"] for c in pod["containers"]], ["orchestrator"])
            for name in sidecars:
                self.assertIn("startupProbe", containers(pod)[name])

    def test_models_are_checked_first(self):
        for case in ("colocated-gpu", "split"):
            documents = objects(case)
            for pod in pods(documents).values():
                self.assertEqual(pod["initContainers"][0]["name"], "check-model")
            [sums] = [d for d in documents if d["metadata"]["name"].endswith("-checksums")]
            self.assertRegex(sums["data"]["SHA256SUMS"], r"(?m)\A([0-9a-f]{64}  \S+\n)+\Z")

    def test_services_of_a_pod_use_the_same_sockets(self):
        for case in ("colocated", "single-gpu"):
            [pod] = pods(objects(case)).values()
            words = [word for c in containers(pod).values() for word in c.get("args", [])]
            for service in ("verifier", "drafter"):
                address = f"unix:///run/bastion/sockets/{service}.sock"
                self.assertIn(f"--listen={address}", words)
                self.assertIn(f"--{service}={address}", words)
            for container in containers(pod).values():
                self.assertIn({"name": "run", "mountPath": "/run/bastion"}, container["volumeMounts"])

    def test_two_containers_share_one_device_or_have_one_each(self):
        for case, requests in [
            ("colocated-gpu", {"verifier": "verifier", "drafter": "verifier"}),
            ("two-gpus", {"verifier": "verifier", "drafter": "drafter"}),
        ]:
            documents = objects(case)
            [pod] = pods(documents).values()
            [template] = [d for d in documents if d["kind"] == "ResourceClaimTemplate"]
            self.assertEqual(
                pod["resourceClaims"], [{"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}]
            )
            used = {name: claim["request"] for name, c in containers(pod).items() for claim in c["resources"].get("claims", [])}
            self.assertEqual(used, requests)
            offered = [r["name"] for r in template["spec"]["spec"]["devices"]["requests"]]
            self.assertEqual(sorted(offered), sorted(set(requests.values())))

    def test_each_pod_of_mode_split_has_a_device_of_its_own(self):
        documents = objects("split")
        templates = {d["metadata"]["name"] for d in documents if d["kind"] == "ResourceClaimTemplate"}
        used = {
            name: pod["resourceClaims"][0]["resourceClaimTemplateName"]
            for name, pod in pods(documents).items()
            if "resourceClaims" in pod
        }
        self.assertEqual(used, {f"demo-bastion-{s}": f"demo-bastion-{s}" for s in ("verifier", "drafter")})
        self.assertEqual(templates, set(used.values()))

    def test_probes_ask_for_what_they_mean(self):
        for case in CASES:
            for pod in pods(objects(case.stem)).values():
                for name, container in containers(pod).items():
                    if name == "check-model":
                        continue
                    port = int(flag(container, "health_listen").rpartition(":")[2])
                    for probe in ("startupProbe", "livenessProbe"):
                        self.assertEqual(container[probe]["grpc"]["port"], port)
                    # A service that waits for another one is alive.
                    self.assertEqual(container["livenessProbe"]["grpc"]["service"], "liveness")
                    if "readinessProbe" in container:
                        self.assertEqual(container["readinessProbe"]["grpc"], {"port": port})
                self.assertIn("readinessProbe", pod["containers"][0])

    def test_policies_admit_the_ports_that_services_use_and_no_others(self):
        documents = objects("split")
        ports = {
            name.removeprefix("demo-bastion-"): {p["name"] for p in pod["containers"][0]["ports"]}
            for name, pod in pods(documents).items()
        }
        policies = {
            d["metadata"]["name"].removeprefix("demo-bastion-"): d["spec"] for d in documents if d["kind"] == "NetworkPolicy"
        }
        self.assertEqual(set(policies), {"orchestrator", "verifier", "drafter"})
        for service, policy in policies.items():
            self.assertEqual(policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"], service)
            admitted = {p["port"] for rule in policy["ingress"] for p in rule["ports"]}
            self.assertEqual(admitted, ports[service])
        callers = {
            rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for rule in policies["drafter"]["ingress"]
            if rule["ports"][0]["port"] == "drafter"
        }
        self.assertEqual(callers, {"orchestrator"})

    def test_certificates_have_the_names_by_which_services_call_each_other(self):
        documents = objects("split")
        certificates = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "Certificate"}
        [access] = [d["data"]["access"] for d in documents if d["metadata"]["name"].endswith("-callers")]
        for name, pod in pods(documents).items():
            container = pod["containers"][0]
            [secret] = [v["secret"]["secretName"] for v in pod["volumes"] if v["name"] == "tls"]
            self.assertEqual(secret, certificates[name]["secretName"])
            for host in re.findall(r"--(?:verifier|drafter)=(.*):\d+", "\n".join(container["args"])):
                first, _, domain = host.partition(".")
                self.assertIn(f"*.{domain}", certificates[first.removesuffix("-$(POD_INDEX)")]["dnsNames"])
                self.assertIn(f"certificate:{name} ", access)
                self.assertIn(name, certificates[name]["dnsNames"])

    def test_certificates_have_the_names_by_which_clients_call_the_server(self):
        documents = objects("split", "route.enabled=false", "openai.enabled=true", "openai.hosts={bastion.internal}")
        [names] = [
            d["spec"]["dnsNames"]
            for d in documents
            if d["kind"] == "Certificate" and d["metadata"]["name"].endswith("-orchestrator")
        ]
        [orchestrator] = [pod["containers"][0] for name, pod in pods(documents).items() if name.endswith("-orchestrator")]
        hosts = flag(orchestrator, "http_hosts").split(",")
        self.assertIn("bastion.internal", hosts)
        self.assertLessEqual(set(hosts), set(names))

    def test_the_server_answers_to_the_names_of_service_and_route(self):
        [pod] = pods(objects("colocated-gpu")).values()
        hosts = flag(containers(pod)["orchestrator"], "http_hosts").split(",")
        self.assertEqual(
            set(hosts),
            {
                "demo-bastion",
                "demo-bastion.serving",
                "demo-bastion.serving.svc",
                "demo-bastion.serving.svc.cluster.local",
                "bastion.internal",
                "llm.example.com",
            },
        )
        [pod] = pods(objects("colocated", "openai.enabled=true", "metrics.enabled=false")).values()
        self.assertEqual([name for name, c in containers(pod).items() if flag(c, "http_listen")], ["orchestrator"])

    def test_requests_equal_limits(self):
        [pod] = pods(objects("colocated", "verifier.memoryMiB=1000", "verifier.cpus=3")).values()
        resources = containers(pod)["verifier"]["resources"]
        self.assertEqual(resources["requests"], resources["limits"])
        self.assertEqual(resources["limits"]["memory"], "1356Mi")
        self.assertEqual(flag(containers(pod)["verifier"], "threads"), str(resources["limits"]["cpu"]))


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    TOOLS = build_chart_tools()
    unittest.main(verbosity=2)
