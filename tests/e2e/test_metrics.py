"""Timing end to end: ranks on fake GPUs under xpurun, their /metrics, and clients of every kind."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request

import event_file
import xpurun_test

BUILD = os.environ["XPURUN_TEST_BUILD"]
# Two ranks with a launcher's variables; they end when the file "end" exists.
TWO_RANKS = """
for r in 0 1; do
  (while ! [ -e end ]; do sleep 0.1; done; echo) | RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$@" &
done
wait
"""
SCENES = ("timed", "matmuls", "collectives", "settle", "wait")
SAMPLE = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="([^"\\\\]|\\\\.)*",?)*\})? [0-9.e+-]+$')


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def raw(port, data):
    """The first line of the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=15) as client:
        try:
            client.sendall(data)
        except OSError:
            pass  # refused before the server has read all of it
        return client.recv(65536).decode().split("\r\n")[0]


class Metrics(xpurun_test.Case):
    def start(self, *args, out=None, scenes=SCENES):
        self.out = out or self.out
        return self.start_xpurun(
            *args,
            "--",
            "bash",
            "-c",
            TWO_RANKS,
            "bash",
            f"{BUILD}/tests/preload/timing_victim",
            f"{BUILD}/tests/preload/libtiming_body13.so",
            "local",
            *scenes,
        )

    def url_of(self, out):
        def ready():
            url = json.loads((out / "run.json").read_text())["metrics"]
            return url if url and get(url)[1].count("xpurun_matmul_duration_seconds_count") >= 2 else None
        return self.soon(ready)

    def soon(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                found = condition()
                if found:
                    return found
            except (OSError, ValueError, KeyError, urllib.error.URLError):
                pass
            time.sleep(0.05)
        self.fail("nothing came of waiting")

    def test_collectives_by_nccls_profiler_interface(self):
        for when, source, state in (("auto", "nccl_profiler", "ready"), ("never", "events", "none")):
            with self.subTest(when=when):
                self.out, end = self.dir / when, self.dir / "end"
                end.unlink(missing_ok=True)
                process = self.start("--timing", "full", "--overhead-budget", "100%", "--nccl-profiler", when)
                url = self.url_of(self.out)
                algorithm = "ring" if when == "auto" else "unknown"
                line = f'xpurun_collective_timed_calls_total{{rank="1",source="{source}",algorithm="{algorithm}"}} '
                text = self.soon(lambda: text if line in (text := get(url)[1]) else None)
                self.assertIn(line + ("6" if when == "auto" else "9"), text)
                end.touch()
                self.assertEqual(process.wait(30), 0)
                for rank in json.loads((self.out / "timing.json").read_text())["ranks"]:
                    self.assertEqual(rank["nccl_profiler"]["state"], state)
                    ways = {
                        (way["source"], way["algorithm"], way["protocol"], way["channels"])
                        for way in rank["collectives_timed"]
                    }
                    self.assertIn(
                        (source, "ring", "LL128", 18) if when == "auto" else (source, "unknown", "unknown", 0), ways
                    )
                events = event_file.load(self.out / "ranks/0/events-1.xev")["events"]
                self.assertEqual(
                    sum(e["algorithm"] == 2 and e["source"] == 4 for e in events), 6 if when == "auto" else 0
                )
                printed = subprocess.run([xpurun_test.PROGRAM, "events", "--json", self.out / "ranks" / "0"],
                                         stdout=subprocess.PIPE, check=True).stdout.splitlines()
                self.assertEqual([json.loads(line)["begin_ns"] for line in printed[1:]],
                                 [e["begin_ns"] for e in events])

    def test_two_jobs_are_scraped(self):
        first, second = self.dir / "one", self.dir / "two"
        processes = [self.start("--timing", "full", out=first)]
        one = self.url_of(first)
        processes.append(self.start("--timing", "full", out=second))
        two = self.url_of(second)
        self.assertNotEqual(one, two)
        kind, text = get(one)
        self.assertTrue(kind.startswith("text/plain; version=0.0.4"))
        for line in text.splitlines():
            self.assertTrue(line.startswith("# ") or SAMPLE.match(line), line)
        for rank in (0, 1):
            self.assertIn(f'xpurun_collective_calls_total{{rank="{rank}",operation="AllReduce"}} 1\n', text)
            # n = 8 ranks, 1004 elements of two bytes from each.
            self.assertIn(f'xpurun_collective_bytes_total{{rank="{rank}",operation="AllGather"}} 16064\n', text)
            self.assertRegex(text, rf'XPU_TIMER_COMMON_HANG{{[^}}]*rank="{rank}"}} 0\n')
        kind, text = get(two, Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertTrue(kind.startswith("application/openmetrics-text"))
        self.assertTrue(text.endswith("# EOF\n"))
        self.check_hostile_clients(int(one.split(":")[2].split("/")[0]), one)
        (self.dir / "end").touch()
        for process, out in zip(processes, (first, second)):
            self.assertEqual(process.wait(30), 0)
            timing = json.loads((out / "timing.json").read_text())
            self.assertEqual(
                (timing["schema"], [rank["rank"] for rank in timing["ranks"]]), ("xpurun.timing/1", [0, 1])
            )
            comm, = timing["ranks"][1]["communicators"]
            self.assertEqual([comm[key] for key in "size called launched done".split()], [8, 9, 9, 9])
            # The last values of ranks that have ended.
            last = (out / "metrics.prom").read_text()
            self.assertIn('xpurun_collective_calls_total{rank="1"', last)
            # All work is done, so all of the pool's events are free.
            for rank in (0, 1):
                self.assertRegex(last, rf'XPU_TIMER_COMMON_POOL_QUEUE_SIZE{{[^}}]*rank="{rank}"}} 4096\n')
                self.assertRegex(last, rf'XPU_TIMER_COMMON_WORK_QUEUE_SIZE{{[^}}]*rank="{rank}"}} 0\n')

    def check_hostile_clients(self, port, url):
        self.assertIn(" 404 ", raw(port, b"GET /../../etc/passwd HTTP/1.1\r\n\r\n"))
        self.assertIn(" 405 ", raw(port, b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"))
        self.assertIn(" 400 ", raw(port, b"\0\1\2\r\n\r\n"))
        self.assertIn(" 431 ", raw(port, b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 20000))
        self.assertIn(" 413 ", raw(port, b"GET /metrics HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n"))
        slow = socket.create_connection(("127.0.0.1", port), timeout=15)
        slow.sendall(b"GET /met")
        gone = socket.create_connection(("127.0.0.1", port), timeout=15)
        gone.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        gone.close()
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=15) for _ in range(80)]
        self.assertIn(b" 503 ", crowd[-1].recv(1000))
        for client in crowd:
            client.close()
        # Other clients are served at the same time, and the slow client when it completes its request.
        self.soon(lambda: "# TYPE" in get(url)[1])
        slow.sendall(b"rics HTTP/1.1\r\n\r\n")
        self.assertTrue(slow.recv(100).startswith(b"HTTP/1.1 200 OK"))
        slow.close()

    def test_levels_and_quiet_jobs(self):
        process = self.start("--timing", "off")
        self.soon(lambda: json.loads((self.out / "run.json").read_text())["metrics"])
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(json.loads((self.out / "run.json").read_text())["control"])
            answers = control.makefile()
            for request, ok in (({"cmd": "timing", "level": "everything"}, False), ({"cmd": "timing"}, False),
                                ({"cmd": "timing", "level": "full"}, True)):
                control.sendall(json.dumps(request).encode() + b"\n")
                self.assertEqual(json.loads(answers.readline())["ok"], ok)
        url = json.loads((self.out / "run.json").read_text())["metrics"]
        self.soon(lambda: get(url)[1].count("xpurun_timing_level{rank=\"1\"} 2") == 1)
        (self.dir / "end").touch()
        self.assertEqual(process.wait(30), 0)

    def test_single_calls_are_kept_and_traced(self):
        process = self.start(
            "--timing",
            "full",
            "--shape-metrics",
            "--control-port",
            "off",
            scenes=(
                "timed",
                "matmuls",
                "collectives",
                "settle",
                "wait",
                "threads",
                "memory",
                "settle",
                "wait",
            ),
        )
        url = self.url_of(self.out)
        program = xpurun_test.PROGRAM
        trace = subprocess.Popen(
            [program, "ctl", "--run", self.out, "trace", "--count", "15", "--name", "later", "--at", "0"],
            text=True,
            stdout=subprocess.PIPE,
        )
        control = json.loads((self.out / "run.json").read_text())["control"]
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(control)
            answers = asking.makefile()

            def traces():
                asking.sendall(b'{"cmd":"status"}\n')
                return json.loads(answers.readline())["trace"] == "traces/1-later"
            self.soon(traces)
        time.sleep(0.3)  # until it has begun
        (self.dir / "end").touch()
        output, _ = trace.communicate(timeout=30)
        self.assertTrue(output.endswith("traces/1-later\n"), output)
        self.assertIn("atorch_mm_mnk_", get(url)[1] if process.poll() is None else "atorch_mm_mnk_")
        self.assertEqual(process.wait(30), 0)
        told = json.loads((self.out / "traces/1-later/trace.json").read_text())
        self.assertEqual([(rank["rank"], rank["events"]) for rank in told["ranks"]], [(0, 15), (1, 15)])
        text = (self.out / "metrics.prom").read_text()
        for rank in (0, 1):
            file = event_file.load(self.out / f"traces/1-later/rank-{rank}.xev")
            self.assertEqual((len(file["events"]), file["complete"]), (15, True))
            self.assertTrue(all(event["begin_ns"] >= told["start_mono_ns"] for event in file["events"]))
            whole = event_file.load(self.out / f"ranks/{rank}/events-1.xev")
            self.assertTrue(whole["complete"])
            self.assertEqual((whole["header"]["rank"], whole["header"]["host"]), (rank, socket.gethostname()))
            # Every timed call is in the file.
            timed = sum(op["timed"] for op in json.loads((self.out / "timing.json").read_text())["ranks"][rank]["ops"]
                        if op["class"] != "memory")
            # Blocking calls, most of those of memory, are only counted.
            memory = [op for op, entry in whole["ops"].items() if entry["class"] == 3]
            kept = sum(event["op"] not in memory for event in whole["events"])
            dropped = int(re.search(rf'events_dropped_total{{rank="{rank}",stage="ring"}} (\d+)', text)[1])
            self.assertEqual(kept + dropped, timed)
            self.assertLessEqual(whole["bytes"], 16 * len(whole["events"]) + 1000)
            self.assertEqual({comm["nranks"] for comm in whole["communicators"]}, {8})

    def test_a_supervisor_that_does_not_read_loses_events_and_says_so(self):
        with unittest.mock.patch.dict(os.environ, FAKE_GPU_WORK_US="0"):
            process = self.start("--timing", "full", "--overhead-budget", "100%",
                                 scenes=("memory", "settle", "wait", *["million"] * 4, "settle"))
        self.soon(lambda: self.manifest()["metrics"])
        ranks = self.wait_for(lambda: len(self.rank_pids()) == 2 and self.rank_pids(), "two ranks").values()
        process.send_signal(signal.SIGSTOP)
        (self.dir / "end").touch()
        self.soon(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks), 60)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(60), 0)
        text = (self.out / "metrics.prom").read_text()
        timing = json.loads((self.out / "timing.json").read_text())
        for rank in (0, 1):
            dropped = int(re.search(rf'events_dropped_total{{rank="{rank}",stage="ring"}} (\d+)', text)[1])
            self.assertGreater(dropped, 1000)
            # Counts are not affected, and the number of missing events is recorded in the file.
            ops = timing["ranks"][rank]["ops"]
            self.assertEqual(sum(op["calls"] for op in ops if op["class"] == "matmul"), 4_000_000)
            file = event_file.load(self.out / f"ranks/{rank}/events-1.xev")
            self.assertEqual(file["lost"], dropped)
            timed = sum(op["timed"] for op in ops if op["class"] != "memory")
            self.assertAlmostEqual(len(file["events"]) + dropped, timed, delta=20)

    def test_calls_on_the_host_are_traced(self):
        process = self.start(
            "--timing", "off", scenes=("memory", "settle", "wait", "memory", "settle", "threads", "settle", "wait")
        )
        self.soon(lambda: self.manifest()["metrics"])
        trace = subprocess.Popen(
            [
                xpurun_test.PROGRAM,
                "ctl",
                "--run",
                self.out,
                "trace",
                "--kinds",
                "host",
                "--count",
                "100000",
                "--timeout",
                "3s",
                "--at",
                "0",
            ],
            text=True,
            stdout=subprocess.PIPE,
        )
        time.sleep(1)
        (self.dir / "end").touch()
        trace.communicate(timeout=30)
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(json.loads((self.out / "traces/1/trace.json").read_text())["kinds"], ["host"])
        apis = xpurun_test.SOURCE / "common/wire/api.h"
        names = re.findall(r"^  X\((\w+), \w+\)", apis.read_text(), re.M)
        for rank in (0, 1):
            file = event_file.load(self.out / f"traces/1/rank-{rank}.xev")
            found = {}
            for event in file["events"]:
                entry = file["ops"][event["op"]]
                self.assertEqual((entry["class"], event["source"]), (7, 3))
                self.assertIn(entry["function"], names)
                found.setdefault(entry["function"], []).append(event)
            # The main thread's and the others', blocking calls among them.
            self.assertEqual(len(found["cudaMalloc"]), 1)
            self.assertGreater(len(found["cublasSgemm_v2"]), 1000)
            self.assertNotEqual(
                {e["delay_us"] for e in found["cudaMalloc"]}, {e["delay_us"] for e in found["cublasSgemm_v2"]}
            )
        # Recording stops afterwards.
        text = (self.out / "metrics.prom").read_text()
        self.assertIn('xpurun_timing_level{rank="0"} 0\n', text)

    def test_what_was_written_survives_a_kill(self):
        process = self.start("--timing", "full")
        self.url_of(self.out)
        path = self.out / "ranks/1/events-1.xev"
        self.soon(lambda: len(event_file.load(path)["events"]) > 5)
        process.kill()
        process.wait()
        file = event_file.load(path)
        self.assertTrue(file["complete"])
        self.assertGreater(len(file["events"]), 5)
        (self.dir / "end").touch()

    def test_without_gpu_and_timing(self):
        process = self.start_xpurun(
            "--metrics-port", "18900", "--", "bash", "-c", "while ! [ -e end ]; do sleep 0.1; done"
        )
        url = self.soon(lambda: json.loads((self.out / "run.json").read_text())["metrics"])
        text = self.soon(lambda: "XPU_TIMER_COMMON_HANG" in get(url)[1] and get(url)[1])
        self.assertRegex(text, r'(?m)^XPU_TIMER_COMMON_HANG\{[^}]*rank="0"\} 0$')
        (self.dir / "end").touch()
        self.assertEqual(process.wait(30), 0)
        self.assertIn(f"xpurun: metrics at {url}\n", process.stderr.read())

    def test_promtool_has_nothing_to_say(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool (of Debian's prometheus) is not installed")
        (self.dir / "end").touch()
        process = self.start("--timing", "full", "--shape-metrics", scenes=SCENES[:-1])
        self.assertEqual(process.wait(30), 0)
        result = subprocess.run([promtool, "check", "metrics"], input=(self.out / "metrics.prom").read_text(),
                                capture_output=True, text=True)
        # xpu_timer and the early atorch timer use these names.
        said = [
            line
            for line in (result.stdout + result.stderr).splitlines()
            if not re.match(r"XPU_TIMER_MEMORY_COUNTER |atorch_\w+_count ", line)
        ]
        self.assertEqual(said, [])

    def test_nothing_listens_without_a_rank(self):
        result = self.run_xpurun("--", "bash", "-c", "sleep 0.5")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        manifest = json.loads((self.out / "run.json").read_text())
        self.assertEqual(manifest["metrics"], "")
        self.assertFalse((self.out / "metrics.prom").exists())

    def hang_lines(self, url):
        """XPU_TIMER_COMMON_HANG by rank and local rank."""
        lines = re.findall(r"^XPU_TIMER_COMMON_HANG\{([^}]*)\} ([01])$", get(url)[1], re.M)
        found = {}
        for labels, value in lines:
            label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[int(label["rank"]), int(label["local_rank"])] = int(value)
        return found

    def start_ranks(self, *options, out, rounds=1):
        """Ranks 4 and 5 of a node without a GPU, local ranks 0 and 1, in rounds: each ends when round-N exists."""
        script = f'''
for n in $(seq {rounds}); do
  for r in 0 1; do
    RANK=$((4 + r)) LOCAL_RANK=$r WORLD_SIZE=8 bash -c "while ! [ -e round-$n ]; do sleep 0.05; done" &
  done
  wait
done
'''
        self.out = out
        return self.start_xpurun(*options, "--", "bash", "-c", script)

    def living_pids(self, out):
        processes = json.loads((out / "run.json").read_text())["processes"]
        return {p["pid"] for p in processes if p["role"] == "rank" and "death" not in p}

    def url_when_ready(self, out):
        return self.soon(lambda: json.loads((out / "run.json").read_text())["metrics"])

    def test_ranks_without_a_gpu_are_served_by_default(self):
        outs = [self.dir / "one", self.dir / "two", self.dir / "three"]
        processes = [self.start_ranks(out=outs[0], rounds=2), self.start_ranks(out=outs[1], rounds=2),
                     self.start_ranks("--metrics-port", "off", out=outs[2], rounds=2)]
        urls = [self.url_when_ready(out) for out in outs[:2]]
        self.assertNotEqual(*urls)
        for url in urls:
            self.soon(lambda url=url: self.hang_lines(url) == {(4, 0): 0, (5, 1): 0})
            text = get(url)[1]
            self.assertEqual(text.count("xpurun_still_seconds{"), 2)
            self.assertEqual(text.count("xpurun_rank_info{"), 2)
            self.assertNotIn("xpurun_matmul", text)
        before = [self.living_pids(out) for out in outs]
        # A restart: other processes, the same ranks, served as before.
        (self.dir / "round-1").touch()
        for out, pids in zip(outs, before):
            self.soon(lambda out=out, pids=pids: len(self.living_pids(out) - pids) == 2)
        for url in urls:
            self.soon(lambda url=url: self.hang_lines(url) == {(4, 0): 0, (5, 1): 0})
        self.assertEqual(json.loads((outs[2] / "run.json").read_text())["metrics"], "")
        (self.dir / "round-2").touch()
        for process in processes:
            self.assertEqual(process.wait(30), 0)
            self.assertNotIn("metrics", process.stderr.read())

    def test_a_hang_is_told_by_the_metrics_by_default(self):
        process = self.start_xpurun(
            "--hang-timeout", "1", "--no-report", "--", xpurun_test.PYTHON, "-c", "import time; time.sleep(600)"
        )
        url = self.url_when_ready(self.out)
        self.assertEqual(self.hang_lines(url), {(0, 0): 0})
        self.soon(lambda: self.hang_lines(url) == {(0, 0): 1})
        process.terminate()
        process.wait(30)

    def test_the_ledger_is_kept_by_default(self):
        process = self.start()
        url = self.url_when_ready(self.out)
        text = self.soon(lambda: text if (text := get(url)[1]).count("xpurun_collective_calls_total{") >= 2 else None)
        self.assertIn('xpurun_timing_level{rank="1"} 1\n', text)
        (self.dir / "end").touch()
        self.assertEqual(process.wait(30), 0)
        for rank in json.loads((self.out / "timing.json").read_text())["ranks"]:
            comm, = rank["communicators"]
            self.assertEqual([comm[key] for key in "size called launched done".split()], [8, 9, 9, 9])

    def test_no_metrics(self):
        (self.dir / "end").touch()
        process = self.start("--metrics-port", "off", scenes=("matmuls", "settle"))
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(json.loads((self.out / "run.json").read_text())["metrics"], "")
        self.assertTrue((self.out / "metrics.prom").exists())


if __name__ == "__main__":
    unittest.main()
