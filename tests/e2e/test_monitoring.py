"""docs/monitoring/ with Debian's Prometheus on real jobs: scraping, rules, alerts, each query of the dashboard."""

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

import xpurun_test
from xpurun_test import SOURCE

BUILD = os.environ["XPURUN_TEST_BUILD"]
MONITORING = SOURCE / "docs" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
VICTIM = [f"{BUILD}/tests/preload/timing_victim", f"{BUILD}/tests/preload/libtiming_body13.so", "local"]
# Two ranks as a launcher would start them. Nobody writes to their input: the scene "wait" hangs.
TWO_RANKS = """
for r in 0 1; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" < <(exec sleep 300) &
done
wait
"""
# The share of untraced kernels is unknown while a kind of calls has no sample; so graphs and copies are in another job.
TRAINING = ("matmuls", "steps")
HANGING = ("memory", "capture", "wait")
BUSY = ["bash", "-c", "while :; do for ((i = 0; i < 20000; i++)); do :; done; read -rt 0.05; done"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def promtool(*args):
    return subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True, cwd=MONITORING, timeout=60)


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


class Prometheus:
    """One prometheus process on a free port."""

    def __init__(self, case, name, config, *options):
        self.port = free_port()
        directory = case.dir / name
        directory.mkdir()
        for rules in ("xpurun.rules.yml", "xpurun.alerts.yml"):
            (directory / rules).write_text(fast((MONITORING / rules).read_text()))
        (directory / "prometheus.yml").write_text(fast(config))
        self.log = directory / "log"
        storage = "--storage.agent.path" if "--enable-feature=agent" in options else "--storage.tsdb.path"
        with open(self.log, "w") as log:
            case.started.append(subprocess.Popen(
                ["prometheus", f"--config.file={directory}/prometheus.yml", f"{storage}={directory}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn", *options],
                stdout=log, stderr=log, env=case.env()))
        case.wait_for(self.is_ready, f"Prometheus ({self.log})")

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, what, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what} {parameters}: {error.read().decode()}") from error

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def has_data(self, expression):
        return any(math.isfinite(float(sample["value"][1])) for sample in self.query(expression))


def fast(text):
    """The same configuration or rules with seconds where there are minutes."""
    for pattern, by in ((r"(scrape|evaluation)_interval: 15s", r"\1_interval: 250ms"), (r"for: 1m", "for: 1s"),
                        (r"> 60 unless", "> 2 unless"), (r"batch_send_deadline: 5s", "batch_send_deadline: 100ms")):
        text = re.sub(pattern, by, text)
    return text


@unittest.skipIf(shutil.which("prometheus") is None, "Prometheus is not installed")
class Monitoring(xpurun_test.Case):
    def start_job(self, name, *command, options=()):
        """Two ranks. Returns the process of xpurun and its run directory."""
        process = self.start_xpurun("--out", self.dir / "runs" / name, "--timing", "full", *options, "--", "bash", "-c",
                                    TWO_RANKS, "bash", *command, out=False, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        return process, self.dir / "runs" / name

    def run_json(self, directory):
        try:
            return json.loads((directory / "run.json").read_text())
        except (OSError, ValueError):
            return {"metrics": "", "processes": []}

    def ranks_of(self, directory):
        return {p["rank"]: p["pid"] for p in self.run_json(directory)["processes"] if p["role"] == "rank"}

    def text_of(self, name, **replacements):
        text = (MONITORING / name).read_text()
        for old, new in replacements.values():
            self.assertIn(old, text)
            text = text.replace(old, new)
        return text

    def test_configurations_and_rules_are_valid(self):
        for name in ("prometheus-static.yml", "prometheus-central.yml"):
            done = promtool("check", "config", name)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        done = promtool("check", "config", "--agent", "prometheus-slurm-node.yml")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        done = promtool("check", "rules", "--lint=all", "--lint-fatal", "xpurun.rules.yml", "xpurun.alerts.yml")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        done = promtool("test", "rules", "xpurun.alerts.test.yml")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_the_dashboard_is_whole(self):
        ids = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, f"{panel['title']} covers another panel")
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
        for panel in panels():
            self.assertTrue(panel["description"] and panel["targets"], panel["title"])
        # Every name is one of docs/metrics.md's, or recorded by a rule.
        documented = self.documented_families()
        recorded = set(re.findall(r"record: (\S+)", (MONITORING / "xpurun.rules.yml").read_text()))
        texts = [target["expr"] for panel in panels() for target in panel["targets"]]
        texts += re.findall(r"expr: (?:>-\n)?((?:.|\n {10})*)", (MONITORING / "xpurun.rules.yml").read_text())
        for text in texts:
            for name in re.findall(r"(?:\w+:)?xpurun_\w+(?::\w+)?", text):
                self.assertIn(re.sub(r"_bucket$", "", name), documented | recorded, text)

    def documented_families(self):
        found = set()
        for row in re.findall(r"^\| (`xpurun_.*?) \|", (SOURCE / "docs" / "metrics.md").read_text(), re.M):
            first, *others = re.findall(r"`(\w+)`", row)
            found.add(first)
            # `xpurun_matmul_calls_total`, `_flops_total`: the others replace the end of the first.
            stem = first.removesuffix("_total")
            for other in others:
                found |= {other} if other.startswith("xpurun_") else {
                    "_".join(stem.split("_")[:length]) + other for length in range(2, stem.count("_") + 1)}
        return found

    def test_static_targets(self):
        port = free_port()
        self.start_xpurun("--metrics-port", port, "--", "sleep", "60", stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
        address = self.wait_for(lambda: self.metrics_of(self.out), "address of /metrics")
        # Other tests' jobs may serve metrics at the default ports.
        config = self.text_of("prometheus-static.yml", target=('"127.0.0.1:18889"', f'"{address}"'),
                              **{str(port): (f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
                                 for port in (18890, 18891, 18892)})
        server = Prometheus(self, "static", config)
        self.wait_for(lambda: server.query(f'up{{instance="{address}"}} == 1'), "scrape of the job")
        self.wait_for(lambda: len(server.query('up{discovery="static"} == 0')) == 3, "targets without a job")
        self.wait_for(lambda: server.query("instance:xpurun_ranks:count"), "rules")
        self.assertEqual(server.ask("alerts")["alerts"], [])

    def metrics_of(self, directory):
        return self.run_json(directory)["metrics"].removeprefix("http://").removesuffix("/metrics")

    def test_labels_in_kubernetes(self):
        """Debian's Prometheus cannot ask Kubernetes: a file gives it the pods that Kubernetes would give."""
        self.start_xpurun("--metrics-port", free_port(), "--", "sleep", "60", stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
        address = self.wait_for(lambda: self.metrics_of(self.out), "address of /metrics")
        pods = self.dir / "pods.json"
        pods.write_text(json.dumps([{"targets": [address], "labels": {
            "__meta_kubernetes_pod_container_port_name": port, "__meta_kubernetes_pod_phase": phase,
            "__meta_kubernetes_pod_label_batch_kubernetes_io_job_name": "train",
            "__meta_kubernetes_namespace": "ml", "__meta_kubernetes_pod_node_name": "gpu7",
            "__meta_kubernetes_pod_name": name}} for name, port, phase in (
                ("train-0", "xpurun-metrics", "Running"), ("train-1", "xpurun-metrics", "Succeeded"),
                ("web-0", "http", "Running"))]))
        config = self.text_of("prometheus-kubernetes.yml", pods=(
            "kubernetes_sd_configs:\n      - role: pod", f"file_sd_configs:\n      - files: ['{pods}']"))
        server = Prometheus(self, "kubernetes", config)
        up, = self.wait_for(lambda: server.query("up == 1"), "scrape of the job")
        del up["metric"]["__name__"]
        self.assertEqual(up["metric"], {"job": "xpurun", "instance": "ml/train-0", "namespace": "ml", "run": "train",
                                        "node": "gpu7"})
        self.assertEqual(len(server.ask("targets")["activeTargets"]), 1)

    def start_cluster(self):
        """A node with its agent, and the central Prometheus."""
        targets = self.dir / "targets.json"
        targets.write_text("[]")
        self.started.append(subprocess.Popen(
            [sys.executable, MONITORING / "slurm_targets.py", "--every", "0.2", targets, self.dir / "runs"],
            env=self.env()))
        central = Prometheus(self, "central", self.text_of("prometheus-central.yml"),
                             "--web.enable-remote-write-receiver")
        node = self.text_of("prometheus-slurm-node.yml", targets=("/var/lib/xpurun/targets.json", str(targets)),
                            server=("prometheus.example.org:9090", f"127.0.0.1:{central.port}"))
        Prometheus(self, "agent", node, "--enable-feature=agent")
        return central

    def queries(self, server):
        """{where: expression} of every panel, variable and recording rule, as Grafana and Prometheus would run them."""
        found = {}
        for panel in panels():
            for target in panel["targets"]:
                found[f"{panel['title']} {target['refId']}"] = target["expr"]
        for variable in DASHBOARD["templating"]["list"]:
            if variable["type"] == "query":
                found[variable["name"]] = re.fullmatch(r"label_values\((.*), \w+\)", variable["definition"])[1]
        for group in server.ask("rules", type="record")["groups"]:
            for rule in group["rules"]:
                self.assertEqual(rule["health"], "ok", rule)
                found[rule["name"]] = rule["query"]
                found[f"{rule['name']} as recorded"] = rule["name"]
        for where, expression in found.items():
            for name, value in (("$__rate_interval", "1m"), ("$job", "xpurun"), ("$run", ".*"), ("$instance", ".*")):
                expression = expression.replace(name, value)
            self.assertNotIn("$", expression, where)
            found[where] = expression
        return found

    def test_jobs_of_a_cluster(self):
        jobs = {
            "healthy": self.start_job("healthy", *BUSY),
            "training": self.start_job("training", *VICTIM, *TRAINING,
                                       options=("--peak", "989T", "--overhead-budget", "100%")),
            "hung": self.start_job("hung", *VICTIM, *HANGING, options=("--hang-timeout", "2")),
            "crashed": self.start_job("crashed", *VICTIM, "wait"),
            "killed": self.start_job("killed", *VICTIM, "wait"),
        }
        server = self.start_cluster()
        for name in jobs:
            self.wait_for(lambda name=name: server.query(f'instance:xpurun_ranks:count{{run="{name}"}} == 2'),
                          f"ranks of the job {name}")
        os.kill(self.ranks_of(jobs["crashed"][1])[1], signal.SIGKILL)
        jobs["killed"][0].kill()
        expected = {("hung", "XpurunHang"), ("crashed", "XpurunStall"), ("crashed", "XpurunRankGone"),
                    ("killed", "XpurunLost")}

        def firing():
            found = {(alert["labels"]["run"], alert["labels"]["alertname"]) for alert in server.ask("alerts")["alerts"]
                     if alert["state"] == "firing"}
            # The ranks of that job sleep between their calls: still for seconds, never for a minute.
            return found - {("training", "XpurunStall")}
        try:
            self.wait_for(lambda: firing() == expected, "alerts")
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(firing())} instead of {sorted(expected)}") from error
        queries = self.queries(server)
        self.assertGreater(len(queries), 50)

        def without_data():
            return {where: text for where, text in queries.items() if not server.has_data(text)}
        try:
            self.wait_for(lambda: not without_data(), "data of every query")
        except AssertionError as error:
            raise AssertionError(f"{error}: {without_data()}") from error
        self.assertEqual(server.query('sum(instance:xpurun_hung_ranks:count)')[0]["value"][1], "2")
        names = {sample["metric"]["run"] for sample in server.query("xpurun_build_info")}
        self.assertEqual(names, {"healthy", "training", "hung", "crashed"})
        self.check_ended_job(server, jobs["hung"])

    def check_ended_job(self, server, job):
        """A job that ends leaves the list: no alert is left."""
        process, directory = job
        process.terminate()
        process.wait(30)
        self.assertNotEqual(self.run_json(directory)["outcome"], "running")
        # A rate of one minute has data for a minute more.
        of_now = '{run="hung", __name__!~"ALERTS.*|.*(rate|_)1m"}'
        self.wait_for(lambda: not server.query(of_now), "end of the job's series")
        self.wait_for(lambda: not [alert for alert in server.ask("alerts")["alerts"]
                                   if alert["labels"]["run"] == "hung"], "end of the job's alerts")


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
