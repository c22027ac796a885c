#!/usr/bin/env python3
"""Tests the Grafana dashboard against a real Prometheus that scrapes the services under load: every
panel shows data. Draws the panels into a picture.

watches: deploy/grafana orchestrator/observe/serving_metrics.cc
"""

import json
import math
import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from command_line import parse_arguments  # noqa: E402
from demo_services import ROOT, DemoServices, free_port  # noqa: E402

ARGUMENTS = None
SCRAPE_SECONDS = 2
# Concurrency of the load, one after the other.
LEVELS = (1, 4, 16)
LEVEL_SECONDS = 20


class Prometheus:
    def __init__(self, folder, ports):
        self.url = f"http://127.0.0.1:{free_port()}"
        targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
        config = pathlib.Path(folder, "prometheus.yml")
        config.write_text(
            f"global: {{scrape_interval: {SCRAPE_SECONDS}s}}\n"
            f"scrape_configs:\n- job_name: bastion\n"
            f"  static_configs: [{{targets: [{targets}]}}]\n"
        )
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def query_range(self, expression, start, end):
        """The series of an expression: [(labels, [(time, value)])]."""
        query = urllib.parse.urlencode({"query": expression, "start": start, "end": end, "step": SCRAPE_SECONDS})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{query}") as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return [(series["metric"], [(at, float(value)) for at, value in series["values"]]) for series in result]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


UNITS = {"s": "seconds", "percentunit": "ratio", "x": "times", "Bps": "bytes/s", "reqps": "requests/s"}


def draw(panels, start, file):
    """Draws each panel and its series in a grid like that of the dashboard."""
    rows = math.ceil(len(panels) / 3)
    figure, axes = plt.subplots(rows, 3, figsize=(18, 3.4 * rows), constrained_layout=True)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (panel, series) in zip(axes.flat, panels):
        axis.set_title(panel["title"], fontsize=11, loc="left")
        axis.set_ylabel(UNITS.get(panel["fieldConfig"]["defaults"]["unit"], ""), fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
        stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
        points = [(name, [t - start for t, _ in values], [v for _, v in values]) for name, values in series]
        if stacked:
            times = sorted({t for _, at, _ in points for t in at})
            stack = [[dict(zip(at, values)).get(t, 0) for t in times] for _, at, values in points]
            axis.stackplot(times, stack, labels=[name for name, _, _ in points], alpha=0.8)
        else:
            for name, at, values in points:
                axis.plot(at, values, label=name)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("seconds", fontsize=8)
        if len(points) <= 10:
            axis.legend(fontsize=7, ncols=2, loc="upper right", framealpha=0.6)
    figure.savefig(file, dpi=60)


class DashboardTest(unittest.TestCase):
    def test_every_panel_shows_data_of_services_under_load(self):
        dashboard = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())
        with tempfile.TemporaryDirectory() as folder, DemoServices(ARGUMENTS.bin, ["--max_running", "16"]) as services:
            prometheus = Prometheus(folder, services.http.values())
            self.addCleanup(prometheus.stop)
            start = time.time()
            for level in LEVELS:
                subprocess.run(
                    services.bench_command(
                        "--policies",
                        "default",
                        "--concurrency",
                        str(level),
                        "--max-new-tokens",
                        "100",
                        "--repeat",
                        "1000",
                        "--duration",
                        str(LEVEL_SECONDS),
                    ),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=True,
                )
            time.sleep(2 * SCRAPE_SECONDS)
            end = time.time()
            drawn, empty = [], []
            for panel in dashboard["panels"]:
                if panel["type"] == "row":
                    continue
                series = []
                for target in panel["targets"]:
                    expression = target["expr"].replace("$model", ".*").replace("$__rate_interval", f"{5 * SCRAPE_SECONDS}s")
                    found = prometheus.query_range(expression, start, end)
                    found = [
                        (legend(target["legendFormat"], labels), [(t, v) for t, v in values if math.isfinite(v)])
                        for labels, values in found
                    ]
                    if not any(values for _, values in found):
                        empty.append((panel["title"], expression))
                    series += found
                drawn.append((panel, series))
            self.assertEqual(empty, [])
            draw(drawn, start, pathlib.Path(ARGUMENTS.out, "dashboard.png"))


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    unittest.main(verbosity=2)
