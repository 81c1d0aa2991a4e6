"""Jobs of several nodes on hosts with separate networks: one xpurun per host, one NATS server on the switch."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import namespaces
import nodes_test
import xpurun_test
from told_job import ToldJob
from xpurun_test import PROGRAM, SOURCE

TIMEOUT = 2
STAND_IN = SOURCE / "tests" / "e2e" / "jobs" / "stand_in.py"
PORT = 4222
URL = f"nats://{namespaces.SWITCH_ADDRESS}:{PORT}"
TOKEN = "of-the-test-7f3a"
MISSING = nodes_test.MISSING or namespaces.missing()
# Far away: a wait ends with its event.
LONG_S = 120


def children(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Node:
    """One xpurun on its host."""

    def __init__(self, number, directory, process):
        self.number = number
        self.directory = directory
        self.process = process

    @property
    def out(self):
        return self.directory / "run"

    def text(self, name):
        try:
            return (self.directory / name).read_text()
        except OSError:
            return ""

    def said(self):
        return self.text("err")

    def log(self):
        return self.text("run/xpurun.log")

    def run_json(self):
        try:
            return json.loads((self.out / "run.json").read_text())
        except (OSError, ValueError):
            return {}

    def verdict(self):
        return self.run_json().get("verdict", {})

    def stalls(self):
        return self.run_json().get("stalls", [])

    def nodes_json(self):
        return json.loads((self.out / "nodes.json").read_text())["nodes"]

    def kill_all(self):
        """All processes of the node at once, as at the end of a container."""
        pids = [self.process.pid]
        for pid in pids:
            pids += children(pid)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def helper(self):
        """Process id of its xpurun-nodes; 0: there is none."""
        return next((p for p in children(self.process.pid) if name_of(p) == "xpurun-nodes"), 0)


class Case(xpurun_test.Case):
    hosts = 3

    def setUp(self):
        super().setUp()
        if MISSING:
            self.skipTest(MISSING)
        self.network = namespaces.Network(self.hosts)
        self.addCleanup(self.network.close)
        self.nodes = []
        self.jobs = []

    def serve(self):
        """Starts the server, and returns when it answers."""
        process = subprocess.Popen(
            self.network.on_switch(nodes_test.NATS_SERVER, "-a", namespaces.SWITCH_ADDRESS, "-p", PORT, "--auth", TOKEN,
                                   "-l", self.dir / "server.log"), env=self.env())
        self.started.append(process)

        def answers():
            try:
                self.network.connect(namespaces.SWITCH_ADDRESS, PORT).close()
                return True
            except OSError:
                return False
        self.wait_for(answers, "NATS server")
        return process

    @staticmethod
    def kill(process):
        process.kill()
        process.wait()

    def client(self):
        """A raw client of the server that hears everything of the job."""
        connection = self.network.connect(namespaces.SWITCH_ADDRESS, PORT)
        connection.settimeout(LONG_S)
        client = nodes_test.RawClient(PORT, TOKEN, connection)
        self.addCleanup(client.close)
        client.subscribe("xpurun.>")
        client.flush()
        return client

    @staticmethod
    def hear(client, kind):
        """Waits for a message of a kind on the server; only of small ones, which are not packed."""
        end = time.monotonic() + LONG_S
        while b'"type":"%s"' % kind.encode() not in client.message()[1][:200]:
            if time.monotonic() > end:
                raise AssertionError(f"no message {kind} within {LONG_S} s")

    def start_node(self, number, command, *options, name="job", env=None, timeout=TIMEOUT):
        directory = self.dir / name / f"node{number}"
        directory.mkdir(parents=True)
        argv = self.network.command(
            number, PROGRAM, "--out", directory / "run", "--hang-timeout", timeout, "--grace", "3s",
            # On a busy machine a stop takes longer than the default.
            "--busy-timeouts", "1", "--dump-deadline", "5s", "--metrics-port", "off", *options, "--", *command)
        with open(directory / "out", "w") as out, open(directory / "err", "w") as err:
            process = subprocess.Popen(argv, stdout=out, stderr=err, cwd=directory,
                                       env=env or self.env(XPURUN_NATS_TOKEN=TOKEN))
        self.started.append(process)
        node = Node(number, directory, process)
        self.nodes.append(node)
        return node

    def start_job(self, nodes, per_node, *options, name="job", nats=URL, envs=None):
        """A job of stand-ins whose ranks have met; (job, nodes)."""
        job = ToldJob(self.dir / f"{name}.socket", range(nodes * per_node))
        self.addCleanup(job.close)
        started = [
            self.start_node(n, [sys.executable, STAND_IN, job.path, nodes, n, per_node], "--name", name, "--nats", nats,
                            *options, name=name, env=(envs or {}).get(n)) for n in range(nodes)]
        job.meet()
        self.jobs.append((job, per_node, started))
        return job, started

    def wait_joined(self, nodes, times=1):
        """All nodes have joined, for the n-th time."""
        self.wait_for(lambda: all(n.log().count("joined the other nodes at") >= times for n in nodes), "joined nodes",
                      LONG_S)

    def wait_all_live(self, nodes):
        """Every node knows that all nodes live."""
        def known():
            return all(f"{len(nodes)} of them live" in n.log() or self.living(n) == len(nodes) for n in nodes[:1])
        self.wait_joined(nodes)
        self.wait_for(known, "list of all nodes", LONG_S)

    def living(self, node):
        listed = subprocess.run([PROGRAM, "nodes", "--json", str(node.out)], capture_output=True, text=True, timeout=30)
        try:
            return sum(n["alive"] for n in json.loads(listed.stdout)["nodes"])
        except (ValueError, KeyError):
            return 0

    def wait_hang(self, nodes, count=1):
        """Every node has a verdict of its n-th hang; the verdicts."""
        def hangs(node):
            # On a busy machine a rank may stand still before the test wants it to; such a stall ends without a verdict.
            return [i["verdict"] for i in node.stalls() if i.get("verdict", {}).get("kind") == "hang"]
        self.wait_for(lambda: all(len(hangs(n)) >= count for n in nodes), "verdict on all nodes", LONG_S)
        return [hangs(n)[count - 1] for n in nodes]

    def check_hang(self, nodes, rank, count=1):
        """One sentence for all nodes that names the rank and its place."""
        verdicts = self.wait_hang(nodes, count)
        sentences = {v["sentence"] for v in verdicts}
        self.assertEqual(len(sentences), 1, sentences)
        self.assertEqual(verdicts[0]["ranks"], [rank], verdicts[0])
        self.assertIn("read_shard", verdicts[0]["sentence"])
        return verdicts[0]

    def check_alone(self, node):
        self.wait_for(lambda: "this node only" in node.said(), "own verdict", LONG_S)

    def finish(self, statuses=None):
        """Ends the jobs, and checks that they ended and printed as without xpurun. Nothing has crashed."""
        for job, per_node, nodes in self.jobs:
            if job.thread.is_alive():
                job.end()
            for node in nodes:
                status = node.process.wait(timeout=LONG_S)
                self.assertEqual(status, (statuses or {}).get(node.number, 0), node.said())
                if status == 0:
                    ranks = range(node.number * per_node, (node.number + 1) * per_node)
                    self.assertEqual(sorted(node.text("out").splitlines()), job.output(ranks), node.said())
                if status >= 0:
                    self.check_whole(node)

    def check_whole(self, node):
        """No process of xpurun has crashed, and the run directory can be read."""
        run = node.run_json()
        self.assertNotEqual(run.get("outcome"), "running", node.log())
        for word in ("has ended: died of", "SIGSEGV", "SIGABRT", "internal error"):
            self.assertNotIn(word, node.log())
        report = subprocess.run([PROGRAM, "report", "--quiet", node.out],
                                capture_output=True, text=True, timeout=LONG_S)
        self.assertEqual(report.returncode, 0, report.stderr)


def clock_shim(directory):
    """A library to be preloaded that moves the clock by CLOCK_SHIM_S seconds; empty: no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    library = pathlib.Path(directory) / "clock_shim.so"
    source = SOURCE / "tests" / "support" / "clock_shim.c"
    if not compiler or subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
                                      capture_output=True).returncode != 0:
        return ""
    return str(library)
