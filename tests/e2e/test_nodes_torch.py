"""Real training with gloo over several hosts, and faults of the network and of the server meanwhile."""

import sys
import unittest

import hosts_test
import xpurun_test
from hosts_test import LONG_S, URL, long
from xpurun_test import JOB, PYTHON


@unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
class Torch(hosts_test.Case):
    hosts = 2

    def torchrun(self, nodes, per_node, *job_args, options=(), timeout=hosts_test.TIMEOUT):
        # Names of hosts mean nothing here, so gloo is given its interface and torchrun an address.
        env = self.env(XPURUN_NATS_TOKEN=hosts_test.TOKEN, GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
        return [
            self.start_node(
                n, [PYTHON, "-m", "torch.distributed.run", "--nnodes", nodes, "--node_rank", n, "--master_addr",
                    self.network.address(0), "--master_port", 29500, "--nproc_per_node", per_node, "--max_restarts", 0,
                    "--monitor_interval", 1, "-r", 1, "-t", 1, "--log_dir", self.dir / f"logs{n}", JOB, *job_args],
                "--name", "job", "--nats", URL, *options, env=env, timeout=timeout) for n in range(nodes)]

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
            self.assertEqual(node.incidents(), [])
            self.check_whole(node)
        done = [line for line in nodes[0].text("out").splitlines() if "step" in line]
        self.assertEqual(len(done), steps)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
