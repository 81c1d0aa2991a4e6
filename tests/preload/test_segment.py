"""A segment stays readable whenever its writer is killed, and docs/wire.md has the right layout."""

import os
import random
import re
import struct
import subprocess
import time
import unittest

import segment
from lane import LONG
from segment import Segment

WRITER = f"{os.environ['XPURUN_TEST_BUILD']}/tests/preload/segment_writer"
KILLS = 1000 if LONG else 300


class Killed(unittest.TestCase):
    def check(self, shared):
        ops = shared.ops()
        self.assertLessEqual(len(ops), segment.OPS)
        for op in ops:
            self.assertTrue(op["m"] == op["n"] == op["k"] and op["m"] < 200 and op["class"] == 2, op)
        for comm in shared.comms():
            if comm["state"] != "live":
                continue
            self.assertEqual(
                (comm["identity"], comm["nranks"], comm["name"]), (1000 + comm["rank"], 8, "written by a test")
            )
            self.assertIn(comm["called"] - comm["launched"], (0, 1))
            self.assertIn(comm["launched"] - comm["done"], (0, 1))
            for sequence, signature in comm["signatures"].items():
                self.assertEqual(signature[2], sequence % 200)
        # Only the last events: the others were written long before.
        struct.pack_into("<Q", shared.memory, 128, max(shared.word(192) - 100, 0))
        for event in shared.drain():
            self.assertTrue(
                event["begin_ns"] == event["duration_ns"] and event["sequence"] == event["begin_ns"] & 0xFFFFFFFF
            )

    def test_at_random_moments(self):
        """Kills, most of them early, because a young segment has the most half-written entries."""
        written = 0
        for n in range(KILLS):
            shared = Segment()
            with subprocess.Popen([WRITER, str(shared.fd)], pass_fds=[shared.fd]) as writer:
                if n % 10 == 0:
                    while shared.word(192) == 0:
                        time.sleep(0.0002)
                time.sleep(random.uniform(0, 0.003))
                writer.kill()
            self.check(shared)
            written += shared.word(192) > 0
            shared.memory.close()
            os.close(shared.fd)
        self.assertGreater(written, KILLS // 10 - 1)


class Documentation(unittest.TestCase):
    def test_offsets_in_the_document(self):
        """Every offset of the table in docs/wire.md is one that this reader uses."""
        with open(os.environ["XPURUN_TEST_SOURCE"] + "/docs/wire.md") as document:
            text = document.read()
        sizes = {name: int(size) for name, size in re.findall(r"^\| `(\w+)` \| \d+ \| (\d+) ", text, re.M)}
        starts = {name: int(at) for name, at in re.findall(r"^\| `(\w+)` \| (\d+) \| \d+ ", text, re.M)}
        self.assertEqual(
            starts,
            {
                "header": 0,
                "ops": segment.OPS_AT,
                "comms": segment.COMMS_AT,
                "ring": segment.RING_AT,
                "threads": segment.THREADS_AT,
                "signatures": segment.SIGNATURES_AT,
            },
        )
        self.assertEqual(sum(sizes.values()), segment.BYTES)
        for name in segment.HEALTH:
            self.assertIn(f"`{name}`", text)


if __name__ == "__main__":
    unittest.main()
