"""Two nodes: what stands still is said when a signal comes, on request, and before the hang timeout."""

import signal
import time

import hosts_test
import xpurun_test
from hosts_test import LONG_S


class TwoNodes(hosts_test.Case):
    hosts = 2

    def stuck(self, *options):
        """A job whose rank 3, on the second node, stands still."""
        self.serve()
        job, nodes = self.start_job(2, 2, *options)
        self.wait_all_live(nodes)
        job.stuck(3)
        return job, nodes

    def test_a_signal_while_a_rank_stands_still(self):
        _, nodes = self.stuck("--hang-timeout", "300")
        time.sleep(13)  # the duration is what is tested
        for node in nodes:
            node.process.send_signal(signal.SIGTERM)
        for node in nodes:
            self.assertEqual(node.process.wait(LONG_S), 143, node.said())
            self.assertEqual(node.verdict()["kind"], "interrupted", node.said())
            self.assertRegex(node.said(), r"by SIGTERM after \d+ s, while ")
        self.assertRegex(nodes[1].said(), r"while all 2 ranks have been in different places \(.*rank 3 in read_shard "
                                          r"\(stand_in\.py:\d+")
        self.assertRegex(nodes[0].said(), r"; on host \S+, rank 3 had been at stand_in\.py:\d+ read_shard for \d+ s")

    def test_a_look_from_the_second_node(self):
        job, nodes = self.stuck("--hang-timeout", "300")

        def look():
            now = self.run_xpurun("attach", "--now", job.pids[3], out=False, timeout=60)
            return "xpurun: running: rank 3 " in now.stdout and "read_shard" in now.stdout
        self.wait_for(look, "a second of stillness", 60)
        job.go_on(3)
        self.finish()

    def test_a_rank_that_stands_still_is_told_early(self):
        job, nodes = self.stuck("--hang-timeout", "40")
        self.wait_for(lambda: all("xpurun: stall: rank 3" in n.said() for n in nodes), "early word", 35)
        # A node whose ranks are still a moment later opens its stall at the order of the other.
        self.wait_for(lambda: all(s.get("early") for n in nodes for s in n.stalls()), "early stalls", LONG_S)
        job.go_on(3)
        self.wait_for(lambda: all("progress again" in n.said() for n in nodes), "end of the stall", LONG_S)
        self.finish()


if __name__ == "__main__":
    xpurun_test.main()
