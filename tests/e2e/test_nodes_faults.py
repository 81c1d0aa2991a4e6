"""Faults of a network with hosts of its own: no wrong verdict, nothing lost, training untouched.

The jobs are stand-ins whose ranks a test directs (tests/support/told_job.py); their own talk does not use the network
under test. test_nodes_torch.py has real training.
"""

import os
import pathlib
import signal

import hosts_test
import memory_limit
import xpurun_test
from hosts_test import LONG_S, TOKEN
from lane import long


class Server(hosts_test.Case):
    hosts = 2

    def test_restarted_before_a_hang(self):
        server = self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        self.kill(server)
        self.wait_for(lambda: all("cut off from the other nodes" in n.log() for n in nodes), "word of it", LONG_S)
        self.serve()
        self.wait_joined(nodes, 2)
        job.stuck(3)
        verdict = self.check_hang(nodes, 3)
        self.assertEqual(verdict["host"], "h1")
        self.assertEqual([n["status"] for n in nodes[0].nodes_json()], ["complete", "complete"])
        job.go_on(3)
        self.finish()

    def test_restarted_when_the_dump_is_ordered(self):
        server = self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(2)
        self.hear(client, "dump")
        self.kill(server)
        self.serve()
        self.check_hang(nodes, 2)
        job.go_on(2)
        self.finish()

    @long
    def test_restarted_when_an_archive_is_sent(self):
        server = self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(3)
        self.hear(client, "want")
        self.kill(server)
        self.serve()
        self.check_hang(nodes, 3)
        self.assertEqual([n["status"] for n in nodes[0].nodes_json()], ["complete", "complete"])
        job.go_on(3)
        self.finish()

    @long
    def test_restarted_after_the_verdict(self):
        server = self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        job.stuck(3)
        self.check_hang(nodes, 3)
        self.kill(server)
        self.wait_for(lambda: all("cut off from the other nodes" in n.log() for n in nodes), "word of it", LONG_S)
        self.serve()
        self.wait_joined(nodes, 2)
        self.check_hang(nodes, 3)
        job.go_on(3)
        self.wait_cleared(nodes, 1)
        job.stuck(0)
        self.check_hang(nodes, 0, 2)
        job.go_on(0)
        self.finish()

    def wait_cleared(self, nodes, count):
        """The n-th hang of every node is over."""
        self.wait_for(lambda: all(n.stalls()[count - 1]["cleared_s"] >= 0 for n in nodes), "end of the hang", LONG_S)

    @long
    def test_gone_for_good_during_the_dump(self):
        server = self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(2)
        self.hear(client, "dump")
        self.kill(server)
        # Node 0 sees only ranks that wait: it must not blame any of its ranks.
        for verdict in self.wait_hang(nodes):
            self.assertIn(verdict["ranks"], ([], [2]), verdict)
        self.check_alone(nodes[1])
        job.go_on(2)
        self.finish()


class Elected(hosts_test.Case):
    @long
    def test_its_helper_is_killed_before_a_hang(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        os.kill(nodes[0].helper(), signal.SIGKILL)
        self.wait_joined(nodes[:1], 2)
        job.stuck(1)
        self.check_hang(nodes, 1)
        # The next helper of a supervisor is at once the node.
        self.assertEqual([n["status"] for n in nodes[0].nodes_json()], ["complete"] * 3)
        job.go_on(1)
        self.finish()

    def test_its_helper_is_killed_during_the_dump(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(2)
        self.hear(client, "dump")
        os.kill(nodes[0].helper(), signal.SIGKILL)
        # Without its helper this node is alone, and may have judged before the others.
        self.assertIn(self.wait_hang(nodes[:1])[0]["ranks"], ([], [2]))
        self.check_hang(nodes[1:], 2)
        job.go_on(2)
        self.finish()

    def test_its_xpurun_is_killed(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(2)
        self.hear(client, "dump")
        nodes[0].process.kill()
        # The next node takes over; what it cannot know makes it less sure.
        verdict = self.check_hang(nodes[1:], 2)
        self.assertIn("h0", "\n".join([verdict["sentence"], *verdict["evidence"]]))
        gone = [n for n in nodes[1].nodes_json() if n["node_rank"] == 0]
        self.assertEqual([n["status"] for n in gone], ["cut_off"])
        job.go_on(2)
        self.finish({0: -signal.SIGKILL})


class Failure(hosts_test.Case):
    def test_a_failure_stays_the_verdict_and_ranks_that_wait_for_ever_are_a_hang_later(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        job.fail(1)
        # The command of that node ends, the ranks of the others wait.
        self.assertEqual(nodes[1].process.wait(LONG_S), 1, nodes[1].said())
        self.wait_for(lambda: all("KeyError: 'label'" in n.said() for n in nodes), "word of the failure", LONG_S)
        waiting = nodes[::2]
        verdicts = self.wait_hang(waiting)
        self.assertEqual([v["ranks"] for v in verdicts], [[1], [1]], verdicts)
        self.assertEqual({v["sentence"] for v in verdicts}, {verdicts[0]["sentence"]})
        self.assertIn("KeyError: 'label'", verdicts[0]["sentence"])
        gone = nodes[0].nodes_json()[1]
        self.assertEqual((gone["status"], gone["directory"]), ("partial", "nodes/1-h1"))
        self.assertIn("ended before with exit status 1", gone["reason"])
        job.end([0, 2])
        self.finish({1: 1})

    def test_a_rank_that_the_kernel_kills_at_a_memory_limit(self):
        if why := memory_limit.missing():
            self.skipTest(why)
        self.serve()
        job, nodes = self.start_job(2, 2)
        self.wait_all_live(nodes)
        limit = memory_limit.MemoryLimit(64 << 20)
        self.addCleanup(limit.close)
        job.pause()
        limit.add(job.pids[3])
        job.tell("grow", [3], answer=False)
        self.wait_for(lambda: not pathlib.Path(f"/proc/{job.pids[3]}/root").exists(), "end of the rank", LONG_S)
        job.break_connections([0, 1, 2])
        for node in nodes:
            self.assertGreater(node.process.wait(LONG_S), 0, node.said())
        verdicts = [n.verdict() for n in nodes]
        for node, verdict in zip(nodes, verdicts, strict=True):
            self.assertEqual((verdict["id"], verdict["ranks"], verdict["host"]), ("crash.killed", [3], "h1"),
                             node.said())
            self.assertIn("rank 3 (host h1) was killed by SIGKILL (out of memory: the kernel "
                          "killed it at the memory limit of its control group)", verdict["sentence"])
            self.assertIn("give the job more memory", verdict["next"])
            self.assertIn(verdict["sentence"].removeprefix("crash: "), node.said())
        self.assertEqual(verdicts[0]["sentence"], verdicts[1]["sentence"])
        self.finish({n.number: n.process.returncode for n in nodes})

    def test_a_node_that_is_killed_with_all_its_processes(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        job.pause()
        nodes[1].kill_all()
        job.break_connections([0, 2])
        others = nodes[::2]
        for node in others:
            self.assertEqual(node.process.wait(LONG_S), 1, node.said())
        # Those who are left saw only the ends of their connections.
        verdict = nodes[0].verdict()
        self.assertIn("nothing is known about rank 1 (host h1), which may have failed first", verdict["sentence"])
        self.assertIn(1, verdict["ranks"])
        self.assertEqual(verdict["confidence"], "low")
        self.assertEqual(nodes[2].verdict()["sentence"], verdict["sentence"])
        self.finish({0: 1, 1: -signal.SIGKILL, 2: 1})


class Link(hosts_test.Case):
    def cut_off(self, node):
        self.wait_for(lambda: "cut off from the other nodes" in node.log(), "word of the cut link", LONG_S)

    def test_down_before_a_hang_of_another_node(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        self.network.link(2, up=False)
        self.wait_for(lambda: self.living(nodes[0]) == 2, "death of the node", LONG_S)
        job.stuck(1)
        verdict = self.check_hang(nodes[:2], 1)
        self.assertIn("h2", "\n".join([verdict["sentence"], *verdict["evidence"]]))
        # The node without a network sees only that its own rank waits.
        own = self.wait_hang(nodes[2:])[0]
        self.assertEqual(own["ranks"], [], own)
        self.network.link(2, up=True)
        self.wait_joined(nodes[2:], 2)
        job.go_on(1)
        self.finish()

    @long
    def test_down_during_the_dump(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(1)
        self.hear(client, "dump")
        self.network.link(2, up=False)
        self.check_hang(nodes[:2], 1)
        self.network.link(2, up=True)
        job.go_on(1)
        self.finish()

    def test_of_the_guilty_node_down_during_the_dump_and_up_again(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        client = self.client()
        job.stuck(2)
        self.hear(client, "dump")
        self.network.link(2, up=False)
        self.hear(client, "offer")
        self.network.link(2, up=True)
        self.check_hang(nodes, 2)
        job.go_on(2)
        self.finish()

    @long
    def test_down_after_the_verdict(self):
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        job.stuck(1)
        self.check_hang(nodes, 1)
        self.network.link(1, up=False)
        self.cut_off(nodes[1])
        job.go_on(1)
        self.finish()

    def test_slow_and_lossy(self):
        try:
            for n in range(3):
                self.network.slow(n, 0.1, 0.05)
        except OSError as e:
            self.skipTest(str(e))
        self.serve()
        job, nodes = self.start_job(3, 1)
        self.wait_all_live(nodes)
        job.stuck(1)
        self.check_hang(nodes, 1)
        job.go_on(1)
        self.finish()
        self.assertGreater(sum(self.network.lost(n) for n in range(3)), 0)


class Clocks(hosts_test.Case):
    hosts = 2

    def wrong(self, seconds):
        shim = hosts_test.clock_shim(self.dir)
        if not shim:
            self.skipTest("needs a C compiler")
        return self.env(XPURUN_NATS_TOKEN=TOKEN, LD_PRELOAD=shim, CLOCK_SHIM_S=str(seconds))

    def test_ten_minutes_ahead(self):
        self.serve()
        job, nodes = self.start_job(2, 2, envs={1: self.wrong(600)})
        self.wait_all_live(nodes)
        job.stuck(3)
        self.check_hang(nodes, 3)
        entry = nodes[0].nodes_json()[1]
        self.assertAlmostEqual(entry["offset_ns"] / 1e9, 600, delta=1)
        job.go_on(3)
        self.finish()


class Jobs(hosts_test.Case):
    hosts = 2

    def test_two_on_one_server(self):
        self.serve()
        first, nodes = self.start_job(2, 1, name="first")
        second, others = self.start_job(2, 1, name="second")
        self.wait_all_live(nodes)
        self.wait_all_live(others)
        first.stuck(1)
        self.check_hang(nodes, 1)
        for node in others:
            self.assertEqual(node.stalls(), [])
            self.assertNotIn("hang", node.said())
        second.stuck(0)
        self.check_hang(others, 0)
        first.go_on(1)
        second.go_on(0)
        self.finish()

    def test_a_wrong_token(self):
        self.serve()
        job, nodes = self.start_job(2, 1, envs={1: self.env(XPURUN_NATS_TOKEN="wrong")})
        self.wait_for(lambda: "no verdict over all nodes" in nodes[1].said(), "word of the token", LONG_S)
        self.assertNotIn("wrong", nodes[1].said())
        job.stuck(1)
        verdict = self.wait_hang(nodes[1:])[0]
        self.assertEqual(verdict["ranks"], [1])
        self.assertEqual(self.wait_hang(nodes[:1])[0]["ranks"], [])
        job.go_on(1)
        self.finish()

    def test_a_server_of_the_job_itself(self):
        secret = self.dir / "secret.json"
        job, nodes = self.start_job(2, 2, "--nats-secret", secret, nats="auto")
        self.wait_all_live(nodes)
        job.stuck(2)
        self.check_hang(nodes, 2)
        job.go_on(2)
        self.finish()
        # The server has ended with the job.
        with self.assertRaises(OSError):
            self.network.connect(self.network.address(0), 4222)

    @long
    def test_killed_on_all_nodes(self):
        self.serve()
        job, nodes = self.start_job(2, 2, "--on-hang", "kill")
        self.wait_all_live(nodes)
        job.stuck(2)
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 124, node.said())
        self.assertEqual({n.verdict()["sentence"] for n in nodes}, {nodes[0].verdict()["sentence"]})
        self.assertEqual(nodes[0].verdict()["ranks"], [2])


if __name__ == "__main__":
    xpurun_test.in_shards(4)
