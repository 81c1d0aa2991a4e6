"""The preload as NCCL's profiler plugin, driven by a fake NCCL: durations, algorithm, counts; calls in any
order; a program's own plugin behind it."""

import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import xpurun_test
from segment import FULL, LIGHT, OFF, FakeSupervisor, Segment

BUILD = os.environ["XPURUN_TEST_BUILD"]
PRELOAD = f"{BUILD}/preload/libxpurun_preload.so"
VICTIM = f"{BUILD}/tests/preload/timing_victim"
BODY = f"{BUILD}/tests/preload/libtiming_body13.so"
EVENTS, QUERIES, NCCL, NCCL_HOST = 1, 2, 4, 5
NONE, READY, NO_TIMES, KNOWN_BAD, NO_MEMORY, SILENT = range(6)
FORWARDED, OTHER_VERSION, NOT_FOUND = 1, 2, 3
RING, LL128 = 2, 2
# Duration that the fake's channels report, and the kernel's time around them.
BY_THE_GPU = 2_000_000 + 2_850
# Calls of the scene "collectives": as collectives, and as sends and receives.
WHOLE = "ncclAllReduce ncclReduce ncclBroadcast ncclBcast ncclAllGather ncclReduceScatter".split()
EXCHANGES = "ncclAlltoAll ncclGather ncclScatter".split()


def shared_memory_is_small():
    shm = os.statvfs("/dev/shm")
    return shm.f_bavail * shm.f_frsize < 8 * (64 << 20)


@unittest.skipIf(shared_memory_is_small(), "/dev/shm has less than 512 MiB, where the plugin times nothing")
class Profiler(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def play(self, *scenes, level=FULL, segments=None, users="", mode="auto", work_us=2000, timeout=60, **env):
        supervisor = FakeSupervisor(self.directory.name, segments or (lambda: Segment(level)))
        try:
            result = subprocess.run(
                [VICTIM, BODY, "global", *scenes],
                capture_output=True,
                text=True,
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "LD_PRELOAD": PRELOAD,
                    "XPURUN_RUN": supervisor.variable(),
                    "NCCL_PROFILER_PLUGIN": PRELOAD,
                    "XPURUN_RUN_PROFILER": f"{mode}:{users}",
                    "FAKE_GPU_WORK_US": str(work_us),
                    **env,
                },
            )
        finally:
            supervisor.close()
            os.unlink(supervisor.path)
        self.assertEqual((result.returncode, result.stderr), (0, result.stderr), result.stdout)
        self.assertRegex(result.stdout, r"wrong 0 violations 0 ", result.stdout)
        return result, next(iter(supervisor.segments.values()), None)

    def events(self, shared, class_=2):
        ops = {op["index"]: op for op in shared.ops() if op["class"] == class_}
        return [(ops[e["op"]]["api"], e) for e in shared.drain() if e["op"] in ops]

    def check_whole(self, shared, source, calls=1):
        found = self.events(shared)
        for api in WHOLE:
            mine = [e for name, e in found if name == api]
            self.assertEqual(len(mine), calls, (api, found))
            op = shared.op(api)
            self.assertEqual((op["calls"], op["timed"]), (calls, calls))
            self.assertEqual(op["timed_ns"], sum(e["duration_ns"] for e in mine))
            self.assertEqual(op["timed_work"], op["work"])
            for event in mine:
                self.assertEqual(
                    (event["source"], event["algorithm"], event["protocol"], event["channels"]),
                    (source, RING, LL128, 3),
                )
        return found

    def test_times_are_the_gpus(self):
        for version in (4, 5, 6):
            with self.subTest(version=version):
                _, shared = self.play("memory", "settle", "collectives", "settle", FAKE_NCCL_PROFILER=str(version))
                self.assertEqual(shared.profiler()[:3], (READY, version, 0))
                found = self.check_whole(shared, NCCL)
                for api, event in found:
                    if api in WHOLE:
                        self.assertEqual(event["duration_ns"], BY_THE_GPU)
                        self.assertEqual(event["flags"], 0)
                whole = [e for api, e in found if api in WHOLE]
                # One after the other on one stream, on the host's clock.
                begins = [e["begin_ns"] for e in whole]
                self.assertEqual(begins, sorted(begins))
                self.assertAlmostEqual((begins[5] - begins[0]) / 1e6, 10, delta=4)
                self.assertEqual(sorted(e["sequence"] for e in whole), [1, 2, 3, 4, 5, 6])
                self.assertEqual({e["source"] for api, e in found if api in EXCHANGES}, {EVENTS})
                health = shared.health()
                self.assertEqual(
                    (health["profiler_samples"], health["profiler_lost"], health["profiler_full"]), (6, 0, 0)
                )
                comm, = shared.comms()
                self.assertEqual((comm["called"], comm["launched"], comm["done"]), (9, 9, 9))

    def test_times_of_the_host(self):
        result, shared = self.play(
            "memory", "settle", "collectives", "settle", "settle", FAKE_NCCL_PROFILER="3", work_us=20_000
        )
        # The error is at most the delay of NCCL's proxy, at either end.
        late_ms = int(re.search(r"late (\d+) us", result.stdout)[1]) / 1e3
        for api, event in self.check_whole(shared, NCCL_HOST):
            self.assertAlmostEqual(event["duration_ns"] / 1e6, 20, delta=late_ms + 0.1, msg=api)

    def test_no_times_before_2_26(self):
        for version in (1, 2):
            with self.subTest(version=version):
                _, shared = self.play("memory", "settle", "collectives", "settle", FAKE_NCCL_PROFILER=str(version))
                self.assertEqual(shared.profiler()[:2], (NO_TIMES, version))
                self.check_whole(shared, EVENTS)

    def test_no_timing_events_around_collectives(self):
        for plugin, by_nccl in (("none", 0), (PRELOAD, 6)):
            result, shared = self.play("memory", "settle", "collectives", "settle", NCCL_PROFILER_PLUGIN=plugin)
            health = shared.health()
            self.assertEqual(health["marks"], by_nccl)
            self.assertEqual(sum(e["source"] == EVENTS for _, e in self.events(shared)), 9 - by_nccl)
            recorded = int(result.stdout.rsplit("events ", 1)[1])
            self.assertEqual(recorded, 2 * health["samples"] + health["marks"])

    def test_one_hardware_queue_for_all_streams(self):
        _, shared = self.play("memory", "settle", "collectives", "settle", CUDA_DEVICE_MAX_CONNECTIONS="1")
        found = self.check_whole(shared, NCCL)
        self.assertEqual({e["source"] for api, e in found if api in EXCHANGES}, {QUERIES})
        self.assertEqual({e["source"] for api, e in found}, {NCCL, QUERIES})
        # Pairs of events: only those of the memory operations.
        others = [
            e
            for e in shared.events_between(0, shared.ring_head())
            if shared.class_of(e["op"]) != 2 and e["source"] == EVENTS
        ]
        self.assertEqual(shared.health()["samples"], len(others))

    def test_groups(self):
        _, shared = self.play("memory", "settle", "collectives", "p2p", "grouped", "settle", timeout=30)
        found = [(api, e) for api, e in self.events(shared) if e["source"] == NCCL]
        self.assertEqual([e["duration_ns"] for api, e in found if api == "ncclReduceScatter"], [BY_THE_GPU] * 9)
        # The one in a group with sends and receives is left alone.
        self.assertEqual([shared.op("ncclAllReduce", k=77)[key] for key in ("calls", "timed")], [1, 0])
        self.assertEqual(shared.health()["profiler_lost"], 0)

    def test_light_samples(self):
        _, shared = self.play("memory", "settle", *["collectives"] * 40, "settle", level=LIGHT, work_us=20)
        health = shared.health()
        self.assertGreaterEqual(health["profiler_samples"], 2)
        self.assertLess(health["profiler_samples"], 360)
        self.assertEqual(
            sum(op["timed"] for op in shared.ops() if op["class"] == 2 and op["api"] in WHOLE),
            health["profiler_samples"],
        )

    def test_threads_and_exchanges(self):
        """Sends and receives beside another thread's timed collectives: the event mask does not change."""
        _, shared = self.play("memory", "settle", "race", "settle", work_us=1, timeout=100)
        health = shared.health()
        timed = sum(op["timed"] for op in shared.ops() if op["api"] == "ncclAllReduce")
        self.assertEqual(shared.profiler()[0], READY)
        self.assertEqual(sum(op["calls"] for op in shared.ops() if op["api"] == "ncclAllReduce"), 8000)
        self.assertGreater(timed, 100)
        self.assertEqual(health["profiler_samples"], timed + health["profiler_lost"])

    def strange_order(self, behaviour, lost):
        """No crash, no false times, and lost records are counted."""
        _, shared = self.play("memory", "settle", "collectives", *["settle"] * 20, FAKE_NCCL_BEHAVIOUR=behaviour)
        found = [e for api, e in self.events(shared) if api in WHOLE]
        health = shared.health()
        self.assertEqual(len(found), 0 if lost else 6)
        self.assertEqual(health["profiler_samples"], 6)
        self.assertEqual(health["profiler_lost"], 6 if lost else 0)
        for event in found:
            self.assertEqual(event["duration_ns"], BY_THE_GPU)

    def test_fewer_channels_than_announced(self):
        _, shared = self.play("memory", "settle", "collectives", *["settle"] * 4, FAKE_NCCL_ANNOUNCES="1")
        found = [e for api, e in self.events(shared) if api in WHOLE]
        self.assertEqual([(e["duration_ns"], e["channels"]) for e in found], [(BY_THE_GPU, 4)] * 6)

    def test_times_as_nccl_writes_them(self):
        _, shared = self.play("memory", "settle", "collectives", *["settle"] * 4, XPURUN_RUN_EVENT_CORRECTION="0")
        found = [e["duration_ns"] for api, e in self.events(shared) if api in WHOLE]
        self.assertEqual(found, [2_000_000] * 6)

    def test_full_pool_is_counted(self):
        _, shared = self.play(
            "memory", "settle", *["collectives"] * 250, level=FULL, work_us=20_000, FAKE_NCCL_BEHAVIOUR="never-stops"
        )
        health = shared.health()
        self.assertEqual(health["profiler_samples"], 1024)
        self.assertEqual(health["profiler_full"], 1500 - 1024)

    def test_silent_for_good(self):
        """If NCCL never reports, times come from events again."""
        _, shared = self.play(
            "memory",
            "settle",
            *["collectives", "settle"] * 20,
            *["settle"] * 16,
            "collectives",
            "settle",
            work_us=20,
            FAKE_NCCL_BEHAVIOUR="silent",
        )
        self.assertEqual(shared.profiler()[0], SILENT)
        self.assertEqual(sum(e["source"] == EVENTS for api, e in self.events(shared) if api in WHOLE), 6)

    def test_stood_still(self):
        """Records without a report for a long time are given up all together; later collectives are timed as before."""
        _, shared = self.play(
            "memory",
            "settle",
            *["collectives"] * 4,
            *["settle"] * 2,
            "collectives",
            "settle",
            work_us=20,
            FAKE_NCCL_BEHAVIOUR="stands-still",
        )
        self.assertEqual(shared.profiler()[0], READY)
        self.assertEqual(shared.health()["profiler_lost"], 24)
        found = [e for api, e in self.events(shared) if api in WHOLE]
        self.assertEqual(
            [(e["source"], e["duration_ns"]) for e in found], [(NCCL, BY_THE_GPU - 2_000_000 + 20_000)] * 6
        )

    def test_known_bad(self):
        for version, mode, state in (
            ("23003", "auto", KNOWN_BAD),
            ("23102", "auto", KNOWN_BAD),
            ("23003", "always", READY),
        ):
            with self.subTest(version=version, mode=mode):
                _, shared = self.play("memory", "settle", "collectives", "settle", mode=mode, FAKE_NCCL_VERSION=version,
                                      FAKE_NCCL_PROFILER="6")
                self.assertEqual(shared.profiler()[0], state)
                self.check_sources(shared, EVENTS if state == KNOWN_BAD else NCCL)

    def check_sources(self, shared, source):
        self.assertEqual({e["source"] for api, e in self.events(shared) if api in WHOLE}, {source})

    def test_off_asks_for_nothing(self):
        result, shared = self.play("collectives", "mask", *["settle"] * 4, level=OFF)
        self.assertIn("mask 0\n", result.stdout)
        self.assertEqual(shared.profiler()[0], READY)
        self.assertEqual(shared.health()["profiler_samples"], 0)
        result, _ = self.play("collectives", "mask", level=FULL)
        self.assertIn("mask 0\n", result.stdout, "between calls")

    def test_switched_on_later(self):
        supervisor = FakeSupervisor(self.directory.name, lambda: Segment(OFF))
        self.addCleanup(supervisor.close)
        process = subprocess.Popen(
            [
                VICTIM,
                BODY,
                "global",
                "collectives",
                "wait",
                "memory",
                "settle",
                "collectives",
                "settle",
                "another",
                "collectives",
                "settle",
                "settle",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "LD_PRELOAD": PRELOAD,
                "XPURUN_RUN": supervisor.variable(),
                "NCCL_PROFILER_PLUGIN": PRELOAD,
                "FAKE_GPU_WORK_US": "1000",
            },
        )
        with process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            shared, = supervisor.segments.values()
            shared.set_level(FULL)
            deadline = time.monotonic() + 10
            while shared.state()[2] != FULL and time.monotonic() < deadline:
                time.sleep(0.005)
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.read()
            process.wait(20)
        # A communicator with unseen calls is not timed by NCCL: some of the calls may be in a graph.
        sources = [e["source"] for api, e in self.events(shared) if api in WHOLE]
        self.assertEqual([sources.count(source) for source in (EVENTS, NCCL)], [6, 6])

    def test_fork(self):
        result, shared = self.play("memory", "settle", "collectives", "fork", "collectives", "settle")
        self.assertIn("child 0\n", result.stdout)
        self.check_whole(shared, NCCL, calls=2)

    def test_capture(self):
        """NCCL loses count of a communicator with calls in a graph; from then on it is timed by events."""
        _, shared = self.play(
            "memory", "settle", "collectives", "settle", "capture", "collectives", "another", "collectives", "settle"
        )
        sources = [e["source"] for api, e in self.events(shared) if api in WHOLE]
        self.assertEqual([sources.count(source) for source in (EVENTS, NCCL)], [6, 12])

    def test_not_under_an_xpurun(self):
        result, _ = self.play("collectives", "mask", segments=lambda: None)
        self.assertIn("mask 0\n", result.stdout)

    def plugin(self, version):
        return f"{BUILD}/tests/preload/libnccl-profiler-users{version}.so"

    def chained(self, *scenes, mask, plugin, **options):
        log = f"{self.directory.name}/plugin.log"
        result, shared = self.play(*scenes, users=plugin, FAKE_PLUGIN_LOG=log, FAKE_PLUGIN_MASK=str(mask), **options)
        try:
            words = pathlib.Path(log).read_text().split()
        except FileNotFoundError:
            return result, shared, None
        return result, shared, dict(zip(words[::2], map(int, words[1::2])))

    def test_a_plugin_of_the_program(self):
        for version, theirs in ((3, 3), (4, 4), (5, 5), (6, 5), (6, 4), (5, 4)):
            with self.subTest(version=version, theirs=theirs):
                _, shared, told = self.chained(
                    "memory",
                    "settle",
                    "communicators",
                    "collectives",
                    *["settle"] * 3,
                    mask=1 | 2 | 64,
                    plugin=self.plugin(theirs),
                    FAKE_NCCL_PROFILER=str(version),
                )
                self.assertEqual(shared.profiler()[2:4], (FORWARDED, theirs))
                # communicators() makes four of them, one collective, and destroys one.
                self.assertEqual((told["wrong"], told["inits"], told["finalized"]), (0, 4, 1))
                # Three point-to-point groups: groups, point-to-point parents, kernels, but no P2p unless its children
                # are requested.
                self.assertEqual((told["e0"], told["e1"], told["e6"]), (10, 7, 30))
                self.assertEqual(told["stopped"], sum(told[f"e{n}"] for n in range(16)))
                self.assertEqual(told["states"], 30)
                self.assertEqual(sum(op["timed"] for op in shared.ops() if op["api"] in WHOLE), 7)

    def test_it_gets_what_it_asked_for_only(self):
        _, shared, told = self.chained("memory", "settle", "collectives", "settle", mask=1, plugin=self.plugin(5))
        self.assertEqual((told["e0"], told["e1"], told["e6"], told["wrong"]), (9, 0, 0, 0))
        self.check_whole(shared, NCCL)
        result, shared, told = self.chained("collectives", "mask", mask=2, plugin=self.plugin(5), level=OFF)
        self.assertIn("mask 2\n", result.stdout)
        self.assertEqual((told["e1"], told["e6"], told["wrong"]), (6, 0, 0))

    def test_it_is_served_as_if_we_were_not_there(self):
        """While timing is on or off, the same events."""
        everything = 1 | 2 | 4 | 64
        seen = []
        for level in (OFF, FULL):
            _, _, told = self.chained(
                "memory",
                "settle",
                "collectives",
                "p2p",
                *["settle"] * 3,
                mask=everything,
                plugin=self.plugin(5),
                level=level,
            )
            seen.append(told)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0]["wrong"], 0)

    def test_another_version_is_not_called(self):
        _, shared, told = self.chained("memory", "settle", "collectives", "settle", mask=2, plugin=self.plugin(3))
        self.assertEqual((shared.profiler()[2:4], told), ((OTHER_VERSION, 3), None))
        self.check_whole(shared, NCCL)

    def test_found_by_name(self):
        _, shared, told = self.chained("memory", "settle", "collectives", "settle", mask=2, plugin="users5",
                                       LD_LIBRARY_PATH=f"{BUILD}/tests/preload")
        self.assertEqual((shared.profiler()[2], told["wrong"]), (FORWARDED, 0))

    def test_not_found_and_none(self):
        for name, state in (
            ("/no/such.so", NOT_FOUND),
            ("none", 0),
            ("STATIC_PLUGIN", NOT_FOUND),
            (PRELOAD, NOT_FOUND),
        ):
            with self.subTest(name=name):
                _, shared = self.play("memory", "settle", "collectives", "settle", users=name)
                self.assertEqual(shared.profiler()[2], state)
                self.check_whole(shared, NCCL)


# One test each, so that they run at a time.
for _behaviour in ("never-stops", "late-start", "no-timer", "stop-first", "silent", "replay", "later"):
    setattr(Profiler, f"test_strange_order_{_behaviour.replace('-', '_')}",
            lambda self, behaviour=_behaviour: self.strange_order(behaviour, behaviour not in ("replay", "later")))


if __name__ == "__main__":
    xpurun_test.in_shards(4)
