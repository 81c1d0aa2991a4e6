"""xpurun capture --node: captures of other nodes, as one result; nodes that are missing in it are named."""

import json
import subprocess
import time

import hosts_test
import xpurun_test
from xpurun_test import PROGRAM


class Capture(hosts_test.Case):
    hosts = 2

    def setUp(self):
        super().setUp()
        self.serve()
        self.job, self.of_job = self.start_job(2, 2, "--hang-timeout", 300)
        self.wait_all_live(self.of_job)

    def command(self, *args):
        return [PROGRAM, "capture", "--run", str(self.of_job[0].out), *map(str, args)]

    def capture(self, *args, status=0, around=()):
        """Standard output, and standard error as one line without notes: a busy machine leaves samples out."""
        result = subprocess.run([*around, *self.command(*args)], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("xpurun: note: ")]
        return result.stdout, " ".join(" ".join(lines).split())

    def test_all_nodes_are_one_capture(self):
        self.job.stuck(3)
        out, said = self.capture("--node", "all", "-d", "1s", "--json")
        found = json.loads(out)
        self.assertEqual(said, "")
        self.assertEqual((found["dir"], found["ranks"]), ("captures/1", [0, 1, 2, 3]))
        first = found["functions"][0]
        self.assertEqual((first["function"], first["ranks"]), ("read_shard", [3]), found["functions"][:3])
        self.assertEqual(found["nodes"], [{"node": f"{n}-h{n}", "host": f"h{n}", "readable": True, "error": "",
                                           "dir": f"{node.out}/captures/1"} for n, node in enumerate(self.of_job)])
        # Longer than an answer of another node may otherwise take.
        out, said = self.capture("--node", "all", "-d", "12s", "-r", 10)
        self.assertEqual(said, "")
        self.assertRegex(" ".join(out.split()), r"^captures/2, \d+ samples of 4 ranks in .* rank 3 .*read_shard")

        # A node without any of the ranks is no error.
        found, said = self.capture("--node", "all", "-d", "300ms", "--ranks", "2-3", "--json")
        self.assertEqual((json.loads(found)["ranks"], said), ([2, 3], ""))
        _, said = self.capture("--node", "all", "-d", "300ms", "--ranks", "8-9", status=1)
        self.assertIn("node 0-h0: this node has none of the ranks 8-9 xpurun: node 1-h1: this node has none", said)
        self.assertIn("no node was captured", said)
        self.job.go_on(3)
        self.finish()

    def test_one_node(self):
        for name, ranks in (("1", [2, 3]), ("h1", [2, 3]), ("0-h0", [0, 1])):
            out, said = self.capture("--node", name, "-d", "300ms", "--json")
            found = json.loads(out)
            self.assertEqual((found["ranks"], [n["host"] for n in found["nodes"]], said),
                             (ranks, [f"h{ranks[0] // 2}"], ""))
        _, said = self.capture("--node", "h9", "-d", "300ms", status=1)
        self.assertIn("xpurun: node h9: there is no such node: xpurun nodes lists them", said)
        _, said = self.capture("--node", "h1", "-d", "6m", status=1)
        self.assertIn('xpurun: node 1-h1: "duration_s" must be', said)
        self.finish()

    def test_files_that_cannot_be_read_here(self):
        around = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"',
                  str(self.of_job[1].directory))
        there = f"node 1-h1: h1:{self.of_job[1].out}/captures"
        out, said = self.capture("--node", "all", "-d", "300ms", "--json", around=around)
        self.assertEqual(json.loads(out)["ranks"], [0, 1])
        self.assertEqual([n["readable"] for n in json.loads(out)["nodes"]], [True, False])
        self.assertIn(f"{there}/1 cannot be read here; run xpurun analyze on that host", said)
        out, said = self.capture("--node", "1", "-d", "300ms", around=around)
        self.assertEqual(out, "")
        self.assertIn(f"{there}/2 cannot be read here", said)
        self.finish()

    def test_a_node_that_does_not_answer(self):
        capture = subprocess.Popen(self.command("--node", "h1", "-d", "5m"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(capture)
        self.wait_for((self.of_job[1].out / "captures/1").exists, "capture")
        self.job.pause()
        self.of_job[1].kill_all()
        began = time.monotonic()
        _, said = capture.communicate(timeout=60)
        self.assertLess(time.monotonic() - began, 40)
        self.assertEqual(capture.returncode, 1)
        self.assertIn("xpurun: node 1-h1: no answer\n", said)
        out, said = self.capture("--node", "all", "-d", "300ms", "--json")
        self.assertEqual(said, "xpurun: node 1-h1: no answer")
        found = json.loads(out)
        self.assertEqual((found["ranks"], [n["error"] for n in found["nodes"]]), ([0, 1], ["", "no answer"]))


if __name__ == "__main__":
    xpurun_test.main()
