"""One verdict on a job of two nodes from the run directories of both, where each node alone cannot give it."""

import json
import pathlib
import shutil
import socket
import unittest

import xpurun_test
from lane import long
from xpurun_test import PYTHON

JOB = xpurun_test.SOURCE / "tests" / "e2e" / "jobs" / "node_job.py"
HOST = socket.gethostname()
NODES, LOCAL = 2, 2


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def rename_host(value, name):
    """The same data as of a host of another name."""
    if isinstance(value, dict):
        return {k: name if k == "host" and v == HOST else rename_host(v, name) for k, v in value.items()}
    return [rename_host(v, name) for v in value] if isinstance(value, list) else value


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Nodes(xpurun_test.Case):
    def job(self, fault, guilty):
        """The run directories of both nodes; that of node 1 looks like one of another host, b.

        Ranks of a hang ignore SIGTERM for the grace period: the node that judges first would end those of the other.
        """
        port = str(free_port())
        grace = 12 if fault == "absent" else 2
        nodes = []
        for n in range(NODES):
            env = self.env(WORLD_SIZE=str(NODES * LOCAL), LOCAL_WORLD_SIZE=str(LOCAL), GROUP_RANK=str(n),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
            out = self.dir / f"node{n}"
            nodes.append(self.start_xpurun("--out", out, "--hang-timeout", 4, "--on-hang", "kill", "--grace", grace,
                                           "--", PYTHON, JOB, "--fault", fault, "--guilty", guilty, out=False, env=env))
        for node in nodes:
            node.communicate(timeout=90)
        for path in (self.dir / "node1").rglob("*.json"):
            path.write_text(json.dumps(rename_host(load(path), "b")))
        return [self.dir / f"node{n}" for n in range(NODES)]

    def report(self, *dirs):
        """The verdict on several run directories, and everything that was printed."""
        result = self.run_xpurun("report", "--out", self.dir / "job", *dirs, out=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return load(self.dir / "job" / "verdict.json"), " ".join(result.stdout.split())

    def below_the_first(self, nodes, **entry):
        """The directory of the first node as a server leaves it: with the data of the second below nodes/."""
        here = self.dir / "elected"
        shutil.copytree(nodes[0], here)
        listed = [{"node": HOST, "host": HOST, "node_rank": 0, "status": "complete", "ranks": [0, 1]},
                  {"node": "b", "host": "b", "node_rank": 1, "status": "complete", "ranks": [2, 3], "offset_ns": 0,
                   "uncertainty_ns": 200000, "directory": "nodes/b", **entry}]
        if listed[1]["directory"]:
            shutil.copytree(nodes[1], here / "nodes" / "b")
        (here / "nodes.json").write_text(json.dumps({"schema": "xpurun.nodes/1", "this_node": HOST, "elected": HOST,
                                                     "nodes": listed}))
        result = self.run_xpurun("report", here, out=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return load(here / "verdict.json"), " ".join(result.stdout.split())

    def check_culprit(self, verdict, rank, ids):
        self.assertEqual((verdict["ranks"], verdict["host"]), ([rank], "b"), json.dumps(verdict, indent=1))
        self.assertIn(verdict["id"], ids)
        self.assertRegex(verdict["sentence"], rf"rank {rank} \(host b")

    def test_a_rank_that_never_enters(self):
        nodes = self.job("absent", 3)
        self.assertNotIn(3, load(nodes[0] / "verdict.json")["ranks"])
        verdict, text = self.report(*nodes)
        self.check_culprit(verdict, 3, ["hang.stuck"])
        self.assertEqual(verdict["where"]["function"], "read_next_shard")
        self.assertEqual(sorted(r for w in verdict["waiting"] for r in w["ranks"]), [0, 1, 2])
        self.assertEqual(verdict["hosts"], [{"host": "b", "ranks": [3]}])
        self.assertIn("not compared", text)
        # The order of the directories says which node is this one, no more.
        self.check_culprit(self.report(*reversed(nodes))[0], 3, ["hang.stuck"])
        # As a server leaves it.
        verdict, text = self.below_the_first(nodes)
        self.check_culprit(verdict, 3, ["hang.stuck"])
        self.assertIn("clock +0.0 ms, known to 0.2 ms", text)
        report = load(self.dir / "elected" / "report.json")
        self.assertEqual({r["rank"]: r["host"] for r in report["ranks"]}, {0: HOST, 1: HOST, 2: "b", 3: "b"})
        self.assertIn("Table of the nodes", (self.dir / "elected" / "report.html").read_text())
        # The groups of the calls are one over both nodes.
        ids = [{c["id"] for d in (n / "dumps").glob("*-hang") for r in load(d / "collectives.json")["ranks"]
                for c in r["communicators"]} for n in nodes]
        self.assertEqual(ids[0], ids[1])
        stacks = self.run_xpurun("stacks", "--format", "tree", self.dir / "elected", out=False)
        self.assertIn("read_next_shard", stacks.stdout + stacks.stderr)

    @long
    def test_a_node_without_an_answer(self):
        nodes = self.job("absent", 3)
        verdict, text = self.below_the_first(nodes, status="cut_off", silent_s=20, directory="")
        self.assertEqual((verdict["id"], verdict["ranks"], verdict["confidence"]), ("hang.silent", [2, 3], "low"))
        self.assertIn("no word from node b for 20 s: ranks 2-3", verdict["evidence"])
        self.assertIn("nodes.incomplete", text)

    @long
    def test_a_wrong_size(self):
        nodes = self.job("size", 3)
        for node in nodes:
            self.assertNotEqual(load(node / "verdict.json")["ranks"], [3])
        verdict, _ = self.report(*nodes)
        self.check_culprit(verdict, 3, ["hang.mismatch_size", "crash.mismatch", "exit.mismatch"])
        self.assertIn("all_reduce of 1000", verdict["sentence"])

    @long
    def test_a_killed_rank(self):
        nodes = self.job("kill", 2)
        self.assertNotIn(2, load(nodes[0] / "verdict.json")["ranks"])
        verdict, _ = self.report(*nodes)
        self.check_culprit(verdict, 2, ["crash.killed", "hang.dead"])
        self.assertEqual(verdict["signal"], 9)

    def test_an_exception(self):
        nodes = self.job("raise", 2)
        self.assertNotIn(2, load(nodes[0] / "verdict.json")["ranks"])
        verdict, _ = self.report(*nodes)
        self.check_culprit(verdict, 2, ["exit.exception"])
        self.assertIn("raised KeyError: 'label'", verdict["sentence"])

    def test_directories_of_two_jobs(self):
        for n, size in enumerate((4, 8)):
            path = self.dir / f"other{n}"
            path.mkdir()
            (path / "run.json").write_text(json.dumps({"schema": "xpurun.run/1", "id": "x", "world_size": size}))
        result = self.run_xpurun("report", self.dir / "other0", self.dir / "other1", out=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("E-NODES", result.stderr)
        self.assertIn("one has 4 ranks in all, the other 8", result.stderr)


if __name__ == "__main__":
    xpurun_test.main()
