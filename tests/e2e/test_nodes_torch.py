"""Real training with gloo over several hosts, and faults of the network and of the server meanwhile."""

import sys
import unittest

import hosts_test
import xpurun_test
from hosts_test import LONG_S, URL
from lane import long
from xpurun_test import JOB, PYTHON


DEPARTING = xpurun_test.SOURCE / "tests" / "e2e" / "jobs" / "departing_job.py"


class Case(hosts_test.Case):
    def torchrun(self, nodes, per_node, *job_args, options=(), timeout=hosts_test.TIMEOUT, restarts=0, job=JOB):
        # Names of hosts mean nothing here, so gloo is given its interface and torchrun an address.
        env = self.env(XPURUN_NATS_TOKEN=hosts_test.TOKEN, GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
        return [
            self.start_node(
                n, [PYTHON, "-m", "torch.distributed.run", "--nnodes", nodes, "--node_rank", n, "--master_addr",
                    self.network.address(0), "--master_port", 29500, "--nproc_per_node", per_node,
                    "--max_restarts", restarts, "--monitor_interval", 1, "-r", 1, "-t", 1, "--log_dir",
                    self.dir / f"logs{n}", job, *job_args],
                "--name", "job", "--nats", URL, *options, env=env, timeout=timeout) for n in range(nodes)]


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class TwoNodes(Case):
    hosts = 2

    @long
    def test_torchrun_and_a_server_that_restarts_during_the_dump(self):
        server = self.serve()
        client = self.client()
        nodes = self.torchrun(2, 2, "--guilty", 3, "--fault", "sleep", "--steps", 10000,
                              options=("--on-hang", "kill"), timeout=5)
        self.hear(client, "dump")
        self.kill(server)
        self.serve()
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 124, node.said())
        verdict = nodes[0].verdict()
        self.assertEqual((verdict["ranks"], verdict["host"]), ([3], "h1"), nodes[0].said())
        self.assertIn("read_shard", verdict["sentence"])
        self.assertEqual(nodes[1].verdict()["sentence"], verdict["sentence"])
        for node in nodes:
            self.check_whole(node)

    @long
    def test_the_ranks_of_all_nodes_are_started_again(self):
        self.serve()
        nodes = self.torchrun(2, 1, "--guilty", 1, "--fault", "sleep", "--steps", 40, "--faulty-starts", 1,
                              options=("--on-hang", "restart", "--grace", "5s"), timeout=5, restarts=2)
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 0, node.said())
            # On a loaded host, healthy ranks may be suspected too.
            hangs = [i for i in node.stalls() if i["verdict"]["level"] == "confirmed"]
            self.assertEqual([(i["action"], i["verdict"]["ranks"]) for i in hangs], [("restart", [1])], node.said())
            self.assertIn("the launcher has restarted the ranks", node.said())
            self.check_whole(node)
        self.assertEqual(*[[i["verdict"]["sentence"] for i in n.stalls() if i["action"] == "restart"]
                           for n in nodes])

    def departs(self, per_node, call):
        """The verdicts of both nodes on the last rank, which is on the second node and makes another call once."""
        self.serve()
        nodes = self.torchrun(2, per_node, "--call", call, job=DEPARTING, options=("--on-hang", "kill"), timeout=5)
        for node in nodes:
            node.process.wait(LONG_S)
        said = [n.said() for n in nodes]
        for node in nodes:
            verdict = node.verdict()
            self.assertEqual((verdict["ranks"], verdict["host"]), ([2 * per_node - 1], "h1"), said)
            self.assertRegex(verdict["id"], r"mismatch", said)
            self.assertRegex(verdict["sentence"], rf"rank {2 * per_node - 1} \(host h1\)", said)
            self.assertRegex(verdict["sentence"], rf"{call} .*\(departing_job\.py:\d+\)", said)
            self.assertRegex(verdict["sentence"], r"all_reduce .*\(departing_job\.py:12\)", said)
        self.assertEqual(nodes[0].verdict()["sentence"], nodes[1].verdict()["sentence"])

    def test_a_rank_of_the_second_node_makes_another_call(self):
        self.departs(2, "broadcast")

    @long
    def test_one_of_two_ranks_makes_another_call(self):
        self.departs(1, "broadcast")

    @long
    def test_a_rank_of_the_second_node_is_in_a_barrier(self):
        self.departs(2, "barrier")

    @long
    def test_a_link_that_goes_down_while_training(self):
        steps = 200
        self.serve()
        nodes = self.torchrun(2, 1, "--steps", steps, timeout=100)
        self.wait_joined(nodes)
        self.wait_for(lambda: "step 20 " in nodes[0].text("out"), "steps", LONG_S)
        self.network.link(1, up=False)
        self.wait_for(lambda: "cut off from the other nodes" in nodes[1].log(), "word of the link", LONG_S)
        self.network.link(1, up=True)
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 0, node.said())
            self.assertEqual(node.stalls(), [])
            self.check_whole(node)
        done = [line for line in nodes[0].text("out").splitlines() if "step" in line]
        self.assertEqual(len(done), steps)


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class FourNodes(Case):
    hosts = 4

    @long
    def test_torchrun_and_one_rank_of_eight_that_hangs(self):
        self.serve()
        nodes = self.torchrun(4, 2, "--guilty", 5, "--fault", "sleep", "--steps", 10000, options=("--on-hang", "kill"),
                              timeout=8)
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 124, node.said())
            self.check_whole(node)
        self.assertEqual((nodes[0].verdict()["ranks"], nodes[0].verdict()["host"]), ([5], "h2"), nodes[0].said())
        self.assertEqual({n.verdict()["sentence"] for n in nodes}, {nodes[0].verdict()["sentence"]})
        self.assertEqual([n["status"] for n in nodes[0].nodes_json()], ["complete"] * 4)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
