"""Asking a running supervisor: stacks on request, by signal, and nonsense on the socket."""

import json
import signal
import socket
import subprocess
import time

import xpurun_test
from xpurun_test import PROGRAM, PYTHON

SLEEP = "import time\ndef waiting():\n    time.sleep(60)\nwaiting()"


class Control(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.process = self.start_xpurun("--dump-signal", "USR2", "--", PYTHON, "-c", SLEEP)
        self.wait_for(lambda: self.rank_pids().get(0), "rank 0")

    def ask(self, text):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(self.manifest()["control"])
            s.sendall(text.encode() + b"\n")
            return json.loads(s.makefile().readline())

    def test_stacks_of_the_run(self):
        time.sleep(0.5)
        result = subprocess.run([PROGRAM, "stacks", "--run", self.out], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("waiting", result.stdout)
        self.assertIsNone(self.process.poll())

    def test_requests_good_and_bad(self):
        status = self.ask('{"cmd":"status"}')
        self.assertTrue(status["ok"])
        self.assertEqual(status["ranks"][0]["rank"], 0)
        for bad in ("x", "[]", '{"cmd":3}', '{"cmd":"format"}', ""):
            with self.subTest(request=bad):
                self.assertFalse(self.ask(bad)["ok"])
        self.assertTrue(self.ask('{"cmd":"dump"}')["dir"].startswith("dumps/1-"))

    def test_dump_signal(self):
        self.process.send_signal(signal.SIGUSR2)
        dump = self.wait_for(lambda: list(self.out.glob("dumps/1-signal/dump.json")), "dump")
        processes = json.loads(dump[0].read_text())["processes"]
        self.assertEqual([p["status"] for p in processes], ["ok"], processes)
        self.assertIsNone(self.process.poll())


if __name__ == "__main__":
    xpurun_test.main()
