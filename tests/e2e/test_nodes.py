"""Jobs of several nodes: one xpurun per node, each with a host name of its own, one NATS server, real ranks with gloo.

Each node is a process group in its own UTS namespace on the loopback interface.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest

import xpurun_test
from lane import long
from xpurun_test import PROGRAM, PYTHON, SOURCE

TIMEOUT = 4
LAUNCHER = SOURCE / "tests" / "e2e" / "jobs" / "node_ranks.py"
SERVER = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
HELPER = os.environ.get("XPURUN_TEST_NODES", "")
TOKEN = "geheim-0123456789"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def may_name_hosts():
    return subprocess.run(["unshare", "--uts", "hostname", "x"], capture_output=True).returncode == 0


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
@unittest.skipUnless(may_name_hosts(), "may not make a namespace for host names")
class Nodes(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.nats_port = free_port()
        self.nodes = []

    def serve(self):
        """Starts the server and waits until it listens."""
        server = subprocess.Popen([SERVER, "-a", "127.0.0.1", "-p", str(self.nats_port), "--auth", TOKEN],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env())
        self.started.append(server)

        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.nats_port)) == 0

        self.wait_for(listens, "NATS server")
        return server

    def out_of(self, node):
        return self.dir / f"node{node}"

    def job(self, nodes, per_node, *job_args, options=(), own_options=None, env=None):
        for n in range(nodes):
            more = own_options.get(n, ()) if own_options else ()
            command = [PROGRAM, "--out", str(self.out_of(n)), "--hang-timeout", str(TIMEOUT), "--grace", "3s",
                       *map(str, options), *map(str, more), "--", sys.executable, str(LAUNCHER), str(nodes), str(n),
                       str(per_node), str(self.port), PYTHON, str(xpurun_test.JOB), *map(str, job_args)]
            with open(self.dir / f"err{n}", "w") as err:
                p = subprocess.Popen(["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', f"h{n}", *command],
                                     stdout=subprocess.DEVNULL, stderr=err, cwd=self.dir,
                                     env=env or self.env(XPURUN_NATS_TOKEN=TOKEN))
            self.started.append(p)
            self.nodes.append(p)

    def url(self):
        return f"nats://127.0.0.1:{self.nats_port}"

    def ends(self, seconds=150):
        """Exit statuses of all nodes, and what each said."""
        statuses = [p.wait(timeout=seconds) for p in self.nodes]
        return statuses, [(self.dir / f"err{n}").read_text() for n in range(len(self.nodes))]

    def run_json(self, node):
        return json.loads((self.out_of(node) / "run.json").read_text())

    def log(self, node):
        try:
            return (self.out_of(node) / "xpurun.log").read_text()
        except OSError:
            return ""

    def sentence(self, node):
        return self.run_json(node)["verdict"]["sentence"]

    def check_one_sentence(self, said, *parts):
        sentences = {self.sentence(n) for n in range(len(said))}
        self.assertEqual(len(sentences), 1, (sentences, said))
        sentence = sentences.pop()
        for part in parts:
            self.assertIn(part, sentence)
        for text in said:
            self.assertIn(sentence.removeprefix("hang: "), text)
        return sentence

    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_one_rank_of_eight_hangs_on_the_second_of_two_nodes(self):
        self.serve()
        self.job(2, 4, "--guilty", 5, "--fault", "sleep", "--steps", 10000,
                 options=("--nats", self.url(), "--on-hang", "kill"))
        statuses, said = self.ends()
        self.assertEqual(statuses, [124, 124], said)
        self.check_one_sentence(said, "rank 5", "host h1", "time.sleep")
        for n in range(2):
            self.assertNotIn("this node only", said[n])
            self.assertNotIn(TOKEN, (self.out_of(n) / "run.json").read_text())
            self.assertNotIn(TOKEN, self.log(n))
        nodes = json.loads((self.out_of(0) / "nodes.json").read_text())
        self.assertEqual([(n["host"], n["status"]) for n in nodes["nodes"]], [("h0", "complete"), ("h1", "complete")])
        verdict = json.loads((self.out_of(0) / "verdict.json").read_text())
        self.assertEqual((verdict["ranks"], verdict["host"]), ([5], "h1"))
        self.assertNotIn("the report of all nodes is on", said[1])
        self.check_page_of_the_whole_job(1, {r: f"h{r // 4}" for r in range(8)})
        self.check_page_of_one_node(str(self.out_of(0) / "report.html"))
        # The rank has ended: the last line of the user's code that was seen, not that in a library.
        shown = subprocess.run([PROGRAM, "runs", "show", str(self.out_of(1))], capture_output=True, text=True,
                               timeout=30)
        self.assertRegex(shown.stdout, r"ranks +8, 4 of them on this node\n")
        self.assertRegex(shown.stdout, r"rank 5: pid \d+, \w+ \(ddp_job.py:\d+\), ended")
        self.assertRegex(shown.stdout, r"rank 6: pid \d+, \w+ \(ddp_job.py:\d+\), ended")

    def check_page_of_the_whole_job(self, node, hosts):
        """A node that has not judged shows all ranks, the stacks of those elsewhere, and the verdict of all."""
        before = json.loads((self.out_of(node) / "report.json").read_text())
        made = subprocess.run([PROGRAM, "report", str(self.out_of(node))], capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertNotIn("nodes.elsewhere", made.stdout)
        for report in before, json.loads((self.out_of(node) / "report.json").read_text()):
            self.assertEqual({r["rank"]: r["host"] for r in report["ranks"]}, hosts)
            self.assertEqual(report["verdict"]["sentence"], self.sentence(0))
            self.assertEqual(sorted(n["node"] for n in report["nodes"]),
                             sorted(n["node"] for n in self.nodes_json(node)["nodes"]))
            dumped = {p["rank"] for d in report["dumps"] for p in d["processes"] if p["status"] in ("ok", "partial")}
            self.assertLessEqual(set(hosts), dumped)
        page = (self.out_of(node) / "report.html").read_text()
        for host in set(hosts.values()):
            self.assertIn(host, page)
        # In which call the ranks of the other nodes wait is known from their stacks only.
        folded = (self.out_of(node) / "stacks" / "merged.folded").read_text()
        self.assertEqual(folded, (self.out_of(0) / "stacks" / "merged.folded").read_text())

    def report_json(self, node):
        try:
            return json.loads((self.out_of(node) / "report.json").read_text())
        except (OSError, ValueError):
            return {}

    def nodes_json(self, node):
        return json.loads((self.out_of(node) / "nodes.json").read_text())

    def check_page_of_one_node(self, page):
        """Without what all nodes have sent a node keeps the verdict, which its ranks cannot give."""
        (self.out_of(1) / "nodes.json").unlink()
        made = subprocess.run([PROGRAM, "report", str(self.out_of(1))], capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        for part in (self.sentence(0), "nodes.elsewhere", "ranks 4-7: 4 of 8"):
            self.assertIn(part, " ".join(made.stdout.split()))
        verdict = json.loads((self.out_of(1) / "verdict.json").read_text())
        self.assertEqual((verdict["ranks"], verdict["sentence"]), ([5], self.sentence(0)))
        report = json.loads((self.out_of(1) / "report.json").read_text())
        self.assertEqual(sorted(r["rank"] for r in report["ranks"]), [4, 5, 6, 7])
        note = [f for f in report["findings"] if f["id"] == "nodes.elsewhere"]
        self.assertEqual([f["next"] for f in note], [f"the report for all nodes is on host h0: {page}"])
        self.assertIn(page, (self.out_of(1) / "report.html").read_text())

    @long
    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_four_nodes_of_one_rank_and_any_of_them_lists_all(self):
        self.serve()
        self.job(4, 1, "--guilty", 2, "--fault", "sleep", "--steps", 10000, options=("--nats", self.url()))
        self.wait_for(lambda: all((self.out_of(n) / "run.json").exists() and self.run_json(n)["verdict"]["ranks"] == [2]
                                  for n in range(4)), "verdict on all nodes", 90)
        for n in range(1, 4):
            self.wait_for(lambda n=n: len(self.report_json(n).get("ranks", [])) == 4, f"whole page on node {n}", 60)
            self.check_page_of_the_whole_job(n, {r: f"h{r}" for r in range(4)})
        listed = subprocess.run([PROGRAM, "nodes", "--json", str(self.out_of(3))], capture_output=True, text=True,
                                timeout=30)
        nodes = json.loads(listed.stdout)["nodes"]
        self.assertEqual([n["host"] for n in nodes], ["h0", "h1", "h2", "h3"])
        self.assertEqual([n["node_rank"] for n in nodes if n["elected"]], [0])
        self.wait_for(lambda: re.search(r"2 +h2 +stalled", subprocess.run(
            [PROGRAM, "nodes", str(self.out_of(1))], capture_output=True, text=True, timeout=30).stdout),
            "node that stalls in the table")
        asked = subprocess.run([PROGRAM, "ctl", "--json", "--node", "all", "--run", str(self.out_of(1))],
                               capture_output=True, text=True, timeout=60)
        answers = json.loads(asked.stdout)["answers"]
        self.assertEqual({a["reply"]["host"] for a in answers}, {"h0", "h1", "h2", "h3"}, asked.stdout)
        dumped = subprocess.run([PROGRAM, "ctl", "--node", "h2", "--run", str(self.out_of(1)), "dump"],
                                capture_output=True, text=True, timeout=60)
        self.assertRegex(dumped.stdout, rf"\Anode 2-h2:\n{re.escape(str(self.out_of(2)))}/dumps/\d+-request\n\Z")
        for word, said in (("2", r"\Anode 2-h2:\n"), ("h1", r" on h1, "), ("h9", "there is no such node")):
            one = subprocess.run([PROGRAM, "ctl", "--node", word, "--run", str(self.out_of(1)), "status"],
                                 capture_output=True, text=True, timeout=30)
            self.assertRegex(one.stdout, said)
        table = subprocess.run([PROGRAM, "top", "--once", str(self.out_of(3))], capture_output=True, text=True,
                               timeout=30).stdout
        for n in range(4):
            self.assertRegex(table, rf"(?m)^ +{n}[ !] +h{n} ")
        self.assertRegex(table, r"(?m)^ +2! +h2 .* ddp_job.py:\d+ read_")
        status = subprocess.run([PROGRAM, "ctl", "--json", "--run", str(self.out_of(1)), "status"],
                                capture_output=True, text=True, timeout=30)
        self.assertEqual({r["rank"]: r["host"] for r in json.loads(status.stdout)["ranks"]},
                         {n: f"h{n}" for n in range(4)})
        own = subprocess.run([PROGRAM, "ctl", "--json", "--node", "all", "--run", str(self.out_of(1)), "status"],
                             capture_output=True, text=True, timeout=30)
        self.assertEqual([len(a["reply"]["ranks"]) for a in json.loads(own.stdout)["answers"]], [1, 1, 1, 1])
        for p in self.nodes:
            p.terminate()
        _, said = self.ends()
        self.check_one_sentence(said, "rank 2", "host h2")

    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_the_server_dies_before_the_hang_and_each_node_judges_alone(self):
        server = self.serve()
        self.job(2, 1, "--guilty", 1, "--fault", "sleep", "--at-step", 400, "--steps", 10000,
                 options=("--nats", self.url()))
        self.wait_for(lambda: all("joined the other nodes" in self.log(n) for n in range(2)), "joined nodes", 90)
        server.kill()
        self.wait_for(lambda: self.run_json(1)["verdict"]["kind"] == "hang", "verdict", 90)
        self.wait_for(lambda: all("cut off from the other nodes" in self.log(n) for n in range(2)), "word of it", 60)
        for p in self.nodes:
            p.terminate()
        _, said = self.ends()
        self.assertIn("rank 1", said[1])
        self.assertIn("this node only", said[1])

    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_healthy_job_says_nothing_and_a_server_that_dies_costs_nothing(self):
        server = self.serve()
        self.job(2, 1, "--steps", 300, options=("--nats", self.url()))
        self.wait_for(lambda: all("joined the other nodes" in self.log(n) for n in range(2)), "joined nodes", 90)
        server.kill()
        statuses, said = self.ends()
        self.assertEqual(statuses, [0, 0], said)
        for n, text in enumerate(said):
            self.assertNotIn("hang", text)
            self.assertIn("the only rank of this node finished normally", self.sentence(n))

    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_wrong_token_is_said_and_the_job_runs(self):
        self.serve()
        self.job(2, 1, "--steps", 300, options=("--nats", self.url()), env=self.env(XPURUN_NATS_TOKEN="wrong"))
        statuses, said = self.ends()
        self.assertEqual(statuses, [0, 0], said)
        self.assertIn("no verdict over all nodes", said[0])

    def check_first_failure(self, fault, guilty, nodes, per_node, *parts):
        """All nodes report the failure of the rank `guilty`, regardless of how and when their own ranks end."""
        self.serve()
        self.job(nodes, per_node, "--guilty", guilty, "--fault", fault, "--at-step", 300, "--steps", 10000,
                 options=("--nats", self.url()))
        self.wait_for(lambda: all("joined the other nodes" in self.log(n) for n in range(nodes)), "joined nodes", 90)
        statuses, said = self.ends()
        sentence = self.check_one_sentence(said, f"rank {guilty} ", f"host h{guilty // per_node}", *parts)
        for n in range(nodes):
            self.assertNotIn("this node only", said[n])
            self.assertEqual(self.run_json(n)["verdict"]["ranks"], [guilty], sentence)
        return statuses, sentence

    @long
    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_rank_that_is_killed_is_the_first_failure_of_all_nodes(self):
        statuses, sentence = self.check_first_failure("kill", 2, 2, 2, "SIGKILL")
        self.assertNotIn(0, statuses, sentence)

    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    @long
    def test_an_exception_on_the_second_node_is_the_first_failure_of_all_nodes(self):
        statuses, sentence = self.check_first_failure("raise", 3, 2, 2, "ValueError: bad batch", "ddp_job.py")
        self.assertNotIn(0, statuses, sentence)

    @long
    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_rank_that_leaves_early_is_told_by_all_nodes(self):
        self.check_first_failure("exit0-closed", 2, 2, 2, "left early (called os._exit(0) at ")

    @long
    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_node_that_leaves_early_waits_for_the_others_to_fail(self):
        statuses, sentence = self.check_first_failure("exit0-closed", 1, 2, 1, "left early (called os._exit(0) at ")
        self.assertEqual(statuses[1], 0, sentence)
        self.assertNotEqual(statuses[0], 0, sentence)

    @long
    @unittest.skipUnless(SERVER and HELPER, "needs nats-server and xpurun-nodes")
    def test_a_crash_on_the_node_that_judges(self):
        statuses, sentence = self.check_first_failure("segv", 1, 2, 2, "SIGSEGV")
        self.assertNotIn(0, statuses, sentence)

    def test_without_a_server_a_node_says_that_it_saw_itself_only(self):
        self.job(2, 1, "--guilty", 1, "--fault", "sleep", "--steps", 10000, options=("--on-hang", "kill"))
        statuses, said = self.ends()
        self.assertIn(124, statuses, said)
        self.assertIn("this verdict rests on one of 2 nodes", said[1])
        self.assertEqual(said[1].count("this verdict rests on"), 1)

    def test_a_job_of_one_node_starts_no_helper(self):
        self.job(1, 2, "--guilty", 1, "--fault", "sleep", "--steps", 10000,
                 options=("--on-hang", "kill", "--nats", self.url()))
        statuses, said = self.ends()
        self.assertEqual(statuses, [124], said)
        self.assertIn("rank 1", said[0])
        self.assertNotIn("this is node", self.log(0))
        self.assertNotIn("other nodes", self.log(0))
        self.assertFalse((self.out_of(0) / "nodes.json").exists())


if __name__ == "__main__":
    xpurun_test.main()
