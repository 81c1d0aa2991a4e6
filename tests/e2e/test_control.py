"""Requests to a running supervisor: socket, HTTP, `xpurun ctl`, signals; clients of every kind."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time

import schemas
import xpurun_test
from xpurun_test import PROGRAM, PYTHON

SLEEP = "import time\ndef waiting():\n    print('ready', flush=True); time.sleep(60)\nwaiting()"


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

    def test_a_client_that_shuts_down_its_sending_side_gets_its_answer(self):
        """As `nc -N` and socat do."""
        for request in (b'{"cmd":"dump"}\n', b'{"cmd":"status"}'):
            with self.subTest(request=request), socket.socket(socket.AF_UNIX) as s:
                s.settimeout(20)
                s.connect(self.manifest()["control"])
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                stream = s.makefile()
                self.assertTrue(json.loads(stream.readline())["ok"])
                self.assertEqual(stream.read(), "")

    def test_stacks_of_the_run(self):
        self.assertEqual(self.process.stdout.readline(), "ready\n")
        result = subprocess.run([PROGRAM, "stacks", "--run", self.out], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("waiting", result.stdout)
        self.assertIsNone(self.process.poll())

    def test_requests_good_and_bad(self):
        status = self.ask('{"cmd":"status"}')
        self.assertTrue(status["ok"])
        self.assertEqual(status["ranks"][0]["rank"], 0)
        for bad in ("x", "[]", '{"cmd":3}', '{"cmd":"format"}', "", '{"cmd":"trace","count":0}', "[" * 60000,
                    '{"cmd":"trace","name":"../../x"}', '{"cmd":"timing","level":7}'):
            with self.subTest(request=bad[:40]):
                answer = self.ask(bad)
                self.assertEqual((answer["ok"], answer["code"]), (False, "bad_request"), answer)
        self.assertEqual(self.ask('{"cmd":"status"}')["timing"], "light")
        self.assertTrue(self.ask('{"cmd":"dump"}')["dir"].startswith("dumps/1-"))

    def test_dump_signal(self):
        self.process.send_signal(signal.SIGUSR2)
        dump = self.wait_for(lambda: list(self.out.glob("dumps/1-signal/dump.json")), "dump")
        processes = json.loads(dump[0].read_text())["processes"]
        self.assertEqual([p["status"] for p in processes], ["ok"], processes)
        self.assertIsNone(self.process.poll())

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(20)
        client.connect(self.manifest()["control"])
        return client

    def test_hostile_clients(self):
        slow, huge, deaf = self.connect(), self.connect(), self.connect()
        slow.sendall(b'{"cmd":"sta')
        try:
            huge.sendall(b"x" * 1000000)
        except OSError:
            pass  # refused before the server has read all of it
        self.assertIn(b"request too long", huge.recv(4096))
        # A client that sends requests and never reads is disconnected and blocks no other client.
        deaf.setblocking(False)
        end = time.monotonic() + 20
        try:
            while time.monotonic() < end:
                try:
                    deaf.send(b'{"cmd":"status"}\n' * 100)
                except BlockingIOError:
                    time.sleep(0.01)
            self.fail("it may go on for ever")
        except (BrokenPipeError, ConnectionResetError):
            pass
        crowd = [self.connect() for _ in range(40)]
        self.assertIn(b"too many clients", crowd[-1].recv(4096))
        for client in crowd:
            client.close()
        deadline = time.monotonic() + 10
        answer = None
        while answer is None and time.monotonic() < deadline:
            try:
                answer = self.ask('{"cmd":"status"}')
                answer = answer if answer["ok"] else None
            except (OSError, ValueError):
                pass
        self.assertTrue(answer)
        slow.sendall(b'tus"}\n')
        self.assertTrue(json.loads(slow.makefile().readline())["ok"])
        greedy = self.connect()
        greedy.sendall(b'{"cmd":"dump"}\n' * 20)
        lines = greedy.makefile()
        answers = [json.loads(lines.readline()) for _ in range(20)]
        self.assertEqual(sum(a.get("code") == "busy" for a in answers), 4, answers)
        self.assertEqual(sum(a["ok"] for a in answers), 16, answers)

    def ctl(self, *words, run=None):
        return subprocess.run(
            [PROGRAM, "ctl", "--run", run or self.out, *words], capture_output=True, text=True, timeout=60
        )

    def capture(self, *words, run=None):
        return subprocess.run([PROGRAM, "capture", "--run", run or self.out, *words], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "COLUMNS": "80"})

    def test_capture(self):
        captured = self.capture("--duration", "500ms")
        self.assertEqual(captured.returncode, 0, captured.stderr)
        self.assertRegex(captured.stdout, r"^captures/1, \d+ samples of rank 0 in ")
        self.assertRegex(captured.stdout, r"100\.0%\s+waiting \(<string>:3\)")
        told = json.loads(self.capture("--duration", "300ms", "--rate", "100", "--json").stdout)
        schemas.check(self, "capture", told)
        schemas.check(self, "profile", json.loads((self.out / "captures/2/profile.json").read_text()))
        self.assertEqual((told["dir"], told["ranks"]), ("captures/2", [0]))
        self.assertGreater(told["samples"], 5)
        for words, status, complaint in (
            (["--steps", "5"], 1, "no step of this job was seen yet"),
            (["--steps", "5", "--duration", "1s"], 2, "--steps or --duration, not both"),
            (["--duration", "1h"], 1, '"duration_s" must be 0.1 to 300'),
            (["--rate", "2000"], 1, '"rate" must be 1 to 1000'),
            (["--rate", "0"], 2, "'0' is not a number"),
            (["now"], 2, "unknown option 'now'"),
        ):
            with self.subTest(words=words):
                refused = self.capture(*words)
                self.assertEqual((refused.returncode, complaint in refused.stderr), (status, True), refused.stderr)
        self.process.terminate()
        self.process.wait(30)
        ended = self.capture()
        self.assertEqual((ended.returncode, "has ended" in ended.stderr), (1, True), ended.stderr)

    def test_ctl(self):
        self.assertIn("timing light", self.ctl().stdout)
        self.assertEqual(json.loads(self.ctl("status", "--json").stdout)["ranks"][0]["rank"], 0)
        self.assertEqual(self.ctl("timing", "full").stdout, "timing is full\n")
        self.assertEqual(self.ask('{"cmd":"status"}')["timing"], "full")
        self.assertEqual(self.ctl("reset").stdout, "timing is light\n")
        dumped = self.ctl("dump")
        self.assertTrue(dumped.stdout.endswith("/dumps/1-request\n"), dumped)
        # No rank uses a GPU.
        traced = self.ctl("trace", "--name", "x")
        self.assertIn("/traces/1-x (no rank uses a GPU)\n", traced.stdout)
        trace = json.loads((self.out / "traces/1-x/trace.json").read_text())
        schemas.check(self, "trace", trace)
        self.assertEqual(trace["ranks"], [])
        # All nodes that are asked within a second begin with the same one.
        self.assertLess(min(-trace["start_wall_ns"] % 10**9, trace["start_wall_ns"] % 10**9), 10**8)
        self.assertEqual(self.ctl("trace", "--at", "+1h", "--background").returncode, 0)
        busy = self.ctl("trace")
        self.assertEqual((busy.returncode, "traces/2 is not finished" in busy.stderr), (1, True), busy.stderr)
        self.ctl("reset")
        # The trace is written after the answer.
        trace = self.out / "traces/2/trace.json"
        self.wait_for(trace.exists, "trace")
        self.assertEqual(json.loads(trace.read_text())["ended"], "reset")
        for words in (
            ["timing"],
            ["timing", "a", "b"],
            ["dump", "x"],
            ["trase"],
            ["trace", "--at", "soon"],
            ["trace", "--count", "0"],
        ):
            wrong = self.ctl(*words)
            self.assertEqual((wrong.returncode, wrong.stdout), (2, ""), words)
        self.assertIn("did you mean trace?", self.ctl("trase").stderr)
        self.assertEqual(self.ctl("timing", "loud").returncode, 2)
        self.assertEqual(self.ctl(run=self.dir / "nothing").returncode, 1)
        self.process.kill()
        self.process.wait()
        gone = self.ctl()
        self.assertEqual((gone.returncode, "E-CONTROL" in gone.stderr), (1, True), gone.stderr)


class Http(xpurun_test.Case):
    def start(self, *args):
        self.process = self.start_xpurun("--control-port", "auto", *args, "--", PYTHON, "-c", SLEEP)
        self.wait_for(lambda: self.rank_pids().get(0), "rank 0")
        self.port = int(self.manifest()["control_url"].rsplit(":", 1)[1])

    def http(self, method, path, body=None, token=None, **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.addCleanup(client.close)
        if token:
            headers["Authorization"] = "Bearer " + token
        client.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text

    def test_with_a_token(self):
        self.start()
        path = self.out / "control.token"
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        token = path.read_text().strip()
        self.assertEqual(self.http("GET", "/healthz")[0], 200)
        for headers in ({}, {"token": "0" * 32}, {"token": token[:-1]}):
            self.assertEqual(self.http("POST", "/timing", {"level": "full"}, **headers)[0], 401)
        self.assertEqual(self.http("POST", "/timing", {"level": "full"}, token, Origin="http://a")[0], 403)
        self.assertEqual(self.http("POST", "/timing", {"level": "full"}, token, Host="a.example")[0], 403)
        self.assertEqual(self.http("GET", "/status", None, token)[1]["timing"], "light")
        for status, method, path, body in ((400, "POST", "/timing", {"level": "loud"}), (400, "POST", "/trace", "{"),
                                           (400, "POST", "/trace", {"count": -1}), (404, "POST", "/format", {}),
                                           (405, "GET", "/dump", None), (413, "POST", "/trace", "x" * 100000)):
            self.assertEqual(self.http(method, path, body, token)[0], status, (path, body))
        self.assertEqual(self.http("GET", "/status", None, token)[1]["timing"], "light")
        self.assertEqual(self.http("POST", "/timing", {"level": "full"}, token), (200, {"ok": True, "level": "full"}))
        # Other clients are served during a dump.
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.http("POST", "/dump", None, token))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        self.assertEqual(self.http("GET", "/status", None, token)[0], 200)
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _ in answers], [200] * 8)
        self.assertTrue(all((self.out / answer["dir"] / "dump.json").exists() for _, answer in answers))

    def test_scripts_written_for_xpu_timer(self):
        self.start("--control-auth", "none")
        kernel_trace = "/HostingService/DumpKernelTrace"
        self.assertFalse((self.out / "control.token").exists())
        request = {
            "dump_path": "/data/timeline",
            "dump_count": 100,
            "dump_time": int(time.time()) + 1000,
            "reset": False,
            "dump_kernel_type": 3,
        }
        self.assertEqual(self.http("GET", kernel_trace, request)[1],
                         {"node": socket.gethostname(), "msg": "Starting dumping", "dir": "traces/1-timeline"})
        self.assertEqual(self.http("POST", kernel_trace, request)[1]["msg"], "The process is dumping, skip")
        self.assertEqual(self.http("GET", kernel_trace, {"reset": True})[1]["msg"], "Force reset dumping status")
        self.assertEqual(self.http("GET", kernel_trace, {"reset": True})[1]["msg"], "Resetting status, ignore")
        # The trace is written after the answer.
        self.wait_for((self.out / "traces/1-timeline/trace.json").exists, "trace")
        before = sorted(self.out.rglob("*"))
        for bad in (
            {"dump_path": "/tmp/../etc"},
            {"dump_count": 0},
            {"dump_kernel_type": 64},
            {"oss_args": {"oss_ak": "x"}},
            "[]",
        ):
            self.assertEqual(self.http("GET", kernel_trace, bad)[0], 400, bad)
        self.assertEqual(sorted(self.out.rglob("*")), before)
        self.assertEqual(self.http("POST", "/HostingService/DumpStringStacktrace", {})[0], 404)


if __name__ == "__main__":
    xpurun_test.main()
