"""The preload's hooks against fake CUDA and NCCL libraries: their records, and no side effects."""

import os
import re
import subprocess
import tempfile
import time
import unittest

import segment
import xpurun_test
from segment import FULL, LIGHT, OFF, FakeSupervisor, Segment

BUILD = os.environ["XPURUN_TEST_BUILD"]
PRELOAD = f"{BUILD}/preload/libxpurun_preload.so"
VICTIM = f"{BUILD}/tests/preload/timing_victim"
FLOP = {"S": 2, "H": 2, "D": 2, "C": 8, "Z": 8}


class Timing(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def play(self, *scenes, level=LIGHT, budget_ppm=1_000_000_000, scope="global", cuda="13", segments=None, timeout=60,
             **env):
        """Runs the scenes; returns their output and the segment, or None if no segment was requested."""
        supervisor = FakeSupervisor(self.directory.name, segments or (lambda: Segment(level, budget_ppm)))
        try:
            result = subprocess.run(
                [VICTIM, f"{BUILD}/tests/preload/libtiming_body{cuda}.so", scope, *scenes],
                capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                env={**os.environ, "LD_PRELOAD": PRELOAD, "XPURUN_RUN": supervisor.variable(), **env},
            )
        finally:
            supervisor.close()
            os.unlink(supervisor.path)
        self.assertEqual((result.returncode, result.stderr), (0, result.stderr), result.stdout)
        self.assertNotIn("WRONG", result.stdout)
        self.assertRegex(result.stdout, r"wrong 0 violations 0 ")
        self.assertLessEqual(len(supervisor.segments), 1)
        return result, next(iter(supervisor.segments.values()), None)

    def check_matmuls(self, shared):
        plain = [(f"cublas{t}gemm_v2", m) for t, m in zip("SDCZ", range(11, 15))] + [("cublasHgemm", 15)]
        for api, m in plain:
            op = shared.op(api, m=m)
            self.assertEqual((op["n"], op["k"], op["batch"], op["trans"], op["calls"]), (20, 30, 1, 0x10, 1))
            self.assertEqual(op["work"], FLOP[api[6]] * m * 600)
        self.assertEqual(shared.op("cublasSgemm_v2_64")["m"], 5_000_000_001)
        self.assertEqual(shared.op("cublasSgemm_v2_64")["work"], 2 * 5_000_000_001 * 600)
        for suffix, first, batch, trans in (("Batched", 23, 4, 1), ("StridedBatched", 33, 5, 0x11)):
            for wide, offset in (("", 0), ("_64", 5)):
                for i, t in enumerate("SDCZH"):
                    op = shared.op(f"cublas{t}gemm{suffix}{wide}")
                    self.assertEqual((op["m"], op["batch"], op["trans"]), (first + offset + i, batch, trans))
                    self.assertEqual(op["work"], FLOP[t] * op["m"] * 600 * batch)
        for api, m in (
            ("cublasSgemmEx", 43),
            ("cublasCgemmEx", 44),
            ("cublasSgemmEx_64", 45),
            ("cublasCgemmEx_64", 46),
        ):
            op = shared.op(api)
            self.assertEqual((op["m"], op["dtype"], op["trans"]), (m, (2, 3, 8, 8), 0x20))
        for api, m, batch, trans, dtype in (
            ("cublasGemmEx", 47, 1, 1, (14, 14, 0, 0)),
            ("cublasGemmBatchedEx", 49, 6, 0x10, (2, 2, 2, 2)),
            ("cublasGemmStridedBatchedEx", 51, 7, 0x10, (2, 2, 2, 2)),
        ):
            for wide in (0, 1):
                op = shared.op(api + "_64" * wide)
                self.assertEqual(
                    (op["m"], op["batch"], op["trans"], op["dtype"], op["compute"]), (m + wide, batch, trans, dtype, 68)
                )

    def test_every_matmul(self):
        for cuda, scope in (("13", "global"), ("13", "local"), ("12", "local")):
            with self.subTest(cuda=cuda, scope=scope):
                _, shared = self.play("matmuls", "groups", "lt", "settle", cuda=cuda, scope=scope)
                self.check_matmuls(shared)
                for api, m0 in (
                    ("cublasSgemmGroupedBatched", 60),
                    ("cublasGemmGroupedBatchedEx", 60),
                    ("cublasGemmGroupedBatchedEx_64", 61),
                ):
                    op = shared.op(api)
                    self.assertEqual((op["flags"], op["batch"], op["work"]), (8, 2, 2 * (m0 * 1000 * 2 + 24 * 5)))
                scaled, = [op for op in shared.ops() if op["api"] == "cublasLtMatmul" and op["dtype"][0] == 28]
                self.assertEqual([scaled[f] for f in "m n k batch trans epilogue flags dtype".split()],
                                 [500, 600, 700, 3, 1, 4, 1, (28, 28, 14, 14)])
                self.assertEqual(scaled["work"], 2 * 3 * 500 * 600 * 700)
                row, = [op for op in shared.ops() if op["api"] == "cublasLtMatmul" and op["dtype"][0] == 14]
                self.assertEqual((row["m"], row["n"], row["k"], row["flags"]), (500, 600, 700, 4))

    def test_a_supervisor_that_does_not_answer_is_waited_for_once(self):
        began = time.monotonic()
        _, shared = self.play("matmuls", "collectives", "memory", segments=lambda: time.sleep(50))
        self.assertIsNone(shared)
        self.assertLess(time.monotonic() - began, 20)

    def test_durations_are_the_gpus(self):
        # After other work, which hides the host's time.
        _, shared = self.play("memory", "settle", "matmuls", "lt", *["settle"] * 4, level=FULL, FAKE_GPU_WORK_US="5000")
        events = shared.drain()
        ops = {op["index"]: op["api"] for op in shared.ops()}
        timed = [e for e in events if ops[e["op"]] == "cublasLtMatmul"]
        self.assertEqual(len(timed), 2)
        for event in timed:
            self.assertEqual(event["source"], 1)
            self.assertAlmostEqual(event["duration_ns"] / 1e6, 5, delta=0.01)
        self.assertGreater(timed[1]["begin_ns"], timed[0]["begin_ns"])
        self.assertEqual(shared.health()["captured"], 0)

    def test_the_events_own_time(self):
        # An event occupies its stream for 2 ms here; the second event of a pair adds this to a duration.
        for switch, expected in ((None, 3), ("0", 5), ("1", 3)):
            more = {} if switch is None else {"XPURUN_RUN_EVENT_CORRECTION": switch}
            _, shared = self.play(
                "memory",
                *["settle"] * 3,
                "matmuls",
                "lt",
                *["settle"] * 6,
                level=FULL,
                FAKE_GPU_WORK_US="3000",
                FAKE_GPU_EVENT_US="2000",
                **more,
            )
            own, is_off = shared.event_overhead()
            self.assertAlmostEqual(own / 1e6, 2, delta=0.2)
            self.assertEqual(is_off, int(switch != "0"))
            ops = {op["index"]: op["api"] for op in shared.ops()}
            timed = [e["duration_ns"] / 1e6 for e in shared.drain() if ops[e["op"]] == "cublasLtMatmul"]
            self.assertEqual(len(timed), 2)
            for duration in timed:
                self.assertAlmostEqual(duration, expected, delta=0.2)

    def test_what_events_add_to_a_matmul(self):
        """On Hopper, where this was measured, a pair adds more to bf16 and fp32 matmuls than to an empty stream."""
        for major, switch, bf16, fp32 in (("9", "1", 6900, 4000), ("9", "0", 0, 0), ("8", "1", 0, 0)):
            with self.subTest(major=major, switch=switch):
                _, shared = self.play(
                    "memory",
                    *["settle"] * 3,
                    "matmuls",
                    *["settle"] * 12,
                    level=FULL,
                    FAKE_GPU_WORK_US="20000",
                    FAKE_GPU_COMPUTE_MAJOR=major,
                    XPURUN_RUN_EVENT_CORRECTION=switch,
                )
                ops = {op["index"]: op for op in shared.ops() if op["class"] == 1}
                off = {0: [], 1: [], 2: [], 14: []}  # fp32, fp64, fp16, bf16
                for event in sorted((e for e in shared.drain() if e["op"] in ops), key=lambda e: e["begin_ns"])[1:]:
                    off.setdefault(ops[event["op"]]["dtype"][0], []).append(20_000_000 - event["duration_ns"])
                own = shared.event_overhead()[0] if switch == "1" else 0
                for dtype, found in off.items():
                    self.assertGreaterEqual(len(found), 2, dtype)
                    for ns in found:
                        self.assertAlmostEqual(ns, max({14: bf16, 0: fp32}.get(dtype, 0), own), delta=2, msg=dtype)

    def test_what_is_shorter_than_the_events_takes_no_time(self):
        _, shared = self.play(
            "memory",
            *["settle"] * 3,
            "threads",
            "settle",
            level=FULL,
            FAKE_GPU_WORK_US="0",
            FAKE_GPU_EVENT_US="50",
            XPURUN_RUN_EVENT_CORRECTION="1",
        )
        ops = {op["index"] for op in shared.ops() if op["m"] == 8}
        durations = [e["duration_ns"] for e in shared.drain() if e["op"] in ops]
        self.assertGreater(len(durations), 10)
        self.assertLess(sorted(durations)[len(durations) // 2], 20_000)
        self.assertLess(max(durations), 10**9, "went below nothing")

    def test_the_hosts_time_is_left_out(self):
        """A GPU that waits for the host to hand over a matmul is not busy with it."""
        for switch, blocking in (("1", "0"), ("0", "0"), ("1", "1")):
            # Earlier work in the streams is done before.
            result, shared = self.play(
                "memory",
                *["settle"] * 16,
                "lt",
                *["settle"] * 4,
                level=FULL,
                FAKE_GPU_WORK_US="200000",
                FAKE_CALL_US="300000",
                FAKE_GPU_PRINTS="1",
                XPURUN_RUN_EVENT_CORRECTION=switch,
                CUDA_LAUNCH_BLOCKING=blocking,
            )
            ops = {op["index"]: op["api"] for op in shared.ops()}
            timed = sorted(
                (e["begin_ns"], e["duration_ns"] / 1e9) for e in shared.drain() if ops[e["op"]] == "cublasLtMatmul"
            )
            self.assertEqual(len(timed), 2)
            elapsed = [int(line.split()[1]) / 1e9 for line in result.stdout.splitlines() if line.startswith("elapsed ")]
            for _, duration in timed:
                if (switch, blocking) == ("1", "0"):
                    self.assertTrue(0.1 < duration < 0.21, duration)
                else:  # the time between the matmul's events, host included
                    self.assertGreaterEqual(duration, 0.3)
                    self.assertLess(min(abs(e - duration) for e in elapsed), 1e-4)
            if (switch, blocking) == ("1", "0"):
                self.assertAlmostEqual((timed[1][0] - timed[0][0]) / 1e9, 0.3, delta=0.1)

    def test_communicators(self):
        _, one = self.play("communicators", "settle")
        _, two = self.play("communicators", "settle")
        comms = {comm["state"] + str(comm["nranks"]): comm for comm in one.comms()}
        self.assertEqual(sorted(comms), ["aborted2", "destroyed8", "live16", "live8"])
        self.assertEqual((comms["live8"]["rank"], comms["live8"]["name"]), (3, "tensor parallel"))
        self.assertEqual(comms["live8"]["splits"], 2)
        self.assertEqual((comms["live16"]["called"], comms["live16"]["launched"]), (1, 1))
        # Two processes with the same ids derive the same identities, and all identities differ.
        self.assertEqual([c["identity"] for c in one.comms()], [c["identity"] for c in two.comms()])
        self.assertEqual(len({c["identity"] for c in one.comms()}), 4)
        self.assertEqual(one.state()[7], 22809)

    def test_collectives(self):
        _, shared = self.play("memory", "settle", "collectives", "settle", level=FULL)
        comm, = shared.comms()
        self.assertEqual([comm[f] for f in "called launched started done".split()], [9, 9, 9, 9])
        # Number, function, count.
        seen = {n: (shared.names[s[1] & 0xffff], s[2]) for n, s in comm["signatures"].items()}
        names = [f"nccl{name}" for name in "AllReduce Reduce Broadcast Bcast AllGather ReduceScatter AlltoAll Gather "
                 "Scatter".split()]
        self.assertEqual(seen, {n: (name, 999 + n) for n, name in enumerate(names, 1)})
        self.assertEqual(comm["signatures"][2][1] >> 32, 5)
        bytes_of = dict(zip(names, [4000, 2002, 2004, 2006, *(8 * n for n in range(2008, 2018, 2))]))
        for api, expected in bytes_of.items():
            op = shared.op(api)
            self.assertEqual((op["work"], op["calls"], op["timed"]), (expected, 1, 1), api)
        self.assertEqual(shared.op("ncclScatter")["peer"], 2)

    def test_collectives_get_no_timing_events_in_light(self):
        _, shared = self.play("memory", "settle", "collectives", "settle")
        indices = {op["index"] for op in shared.ops() if op["class"] == 2}
        sources = {e["source"] for e in shared.drain() if e["op"] in indices}
        self.assertEqual(sources, set())
        self.assertEqual((shared.comms()[0]["marked"], shared.comms()[0]["done"]), (9, 9))
        health = shared.health()
        self.assertEqual((health["marks"], health["cuda_errors"]), (9, 0))

    def test_one_hardware_queue_for_all_streams(self):
        _, shared = self.play("memory", "settle", "collectives", "settle", level=FULL, CUDA_DEVICE_MAX_CONNECTIONS="1")
        indices = {op["index"] for op in shared.ops() if op["class"] == 2}
        self.assertEqual({e["source"] for e in shared.drain() if e["op"] in indices}, {2})

    def test_classes_that_are_not_timed(self):
        def counting():
            made = Segment(FULL)
            made.set_untimed(1 << 1 | 1 << 2)
            return made
        _, shared = self.play("memory", "settle", "matmuls", "collectives", "settle", segments=counting)
        self.check_matmuls(shared)
        self.assertEqual({op["timed"] for op in shared.ops() if op["class"] in (1, 2)}, {0})
        self.assertEqual(
            (shared.op("cudaMemsetAsync")["calls"], shared.comms()[0]["called"], shared.comms()[0]["marked"]), (1, 9, 0)
        )

    def test_groups(self):
        _, shared = self.play("memory", "settle", "collectives", "p2p", "settle")
        comm, = shared.comms()
        self.assertEqual(
            [comm[f] for f in "called launched done sends receives p2p_launched p2p_done".split()],
            [10, 10, 10, 5, 4, 9, 9],
        )

    def test_messages_have_numbers(self):
        """A group of messages is timed as a whole, unless collectives are in it."""
        _, shared = self.play("memory", "settle", "collectives", "p2p", "p2p", "settle", level=FULL)
        ops = {op["index"]: op for op in shared.ops() if op["api"] in ("ncclSend", "ncclRecv")}
        seen = {}
        for e in shared.drain():
            if e["op"] in ops:
                op = ops[e["op"]]
                seen.setdefault((op["api"], op["k"], op["peer"]), []).append((e["source"], e["sequence"]))
        of_a_group = {("ncclRecv", 2000, peer): [(7, 1), (7, 2)] for peer in range(4)}
        self.assertEqual(seen, {**of_a_group, ("ncclSend", 2001, 1): [(1, 1), (1, 2)]})
        self.assertEqual({op["timed"] for op in ops.values() if op["api"] == "ncclRecv"}, {0})

    def test_memory(self):
        _, shared = self.play("memory", "settle", level=FULL)
        self.assertEqual(shared.op("cudaMalloc")["work"], 1 << 20)
        self.assertEqual(shared.op("cudaMalloc")["timed"], 1)
        pageable, pinned = (shared.op("cudaMemcpy", pinned=kind) for kind in (1, 2))
        self.assertEqual((pageable["copy"], pinned["copy"], pinned["work"]), (1, 1, 1 << 16))
        self.assertEqual((shared.op("cudaMemcpyAsync")["pinned"], shared.op("cudaMemcpyAsync")["copy"]), (2, 2))
        self.assertEqual(shared.op("cudaMemcpy2DAsync")["work"], 1000)
        self.assertEqual(shared.op("cudaGraphLaunch")["class"], 4)
        self.assertEqual(shared.health()["kernel_launches"], 3)
        self.assertEqual(sum(op["calls"] for op in shared.ops() if op["class"] == 3), 18)

    def test_kernels_are_counted_and_sampled(self):
        _, shared = self.play(
            "memory", "settle", "kernels", "settle", level=FULL, FAKE_GPU_KERNEL_US="200", FAKE_GPU_WORK_US="1"
        )
        found = {op["calls"]: op for op in shared.ops() if op["class"] == 5 and op["calls"] >= 1000}
        self.assertEqual(sorted(found), [1000, 3000])
        for calls, op in found.items():
            # One in eight, drawn: six standard deviations.
            self.assertAlmostEqual(op["timed"], calls / 8, delta=6 * (calls * 7 / 64) ** 0.5)
            self.assertAlmostEqual(op["timed_ns"] / op["timed"] / 1e3, 200, delta=20)
        self.assertEqual(shared.health()["kernel_launches"], 3 + 4001)
        self.assertEqual(sum(op["calls"] for op in shared.ops() if op["class"] == 5), 3 + 4001)
        # The first of a kind may wait for its code to be loaded.
        self.assertEqual({op["timed"] for op in shared.ops() if op["class"] == 5 and op["calls"] == 1}, {0})

    def test_kernels_of_a_library_call_are_its_own(self):
        _, shared = self.play("memory", "settle", "threads", "settle", FAKE_CALL_KERNELS="1")
        self.assertEqual(sum(op["calls"] for op in shared.ops() if op["m"] == 8), 8000)
        self.assertEqual(
            (shared.health()["kernel_launches"], sum(op["calls"] for op in shared.ops() if op["class"] == 5)), (3, 3)
        )

    def test_kernels_in_a_capture(self):
        _, shared = self.play("memory", "settle", "capture-kernels", "settle", level=FULL)
        self.assertEqual(
            [(op["calls"], op["timed"]) for op in shared.ops() if op["class"] == 5 and op["captured"] == 100], [(0, 0)]
        )
        self.assertEqual((shared.health()["kernel_launches"], shared.health()["captured"]), (3, 100))

    def test_kernels_that_the_driver_launches(self):
        _, shared = self.play("memory", "settle", "driver", "settle")
        self.assertEqual([shared.op(api)["calls"] for api in ("cuLaunchKernel", "cuLaunchKernelEx")], [1, 1])
        result, shared = self.play("missing", "driver", level=OFF)
        self.assertEqual(shared.health()["kernel_launches"], 0)

    def test_classes_without_kernels(self):
        def counting():
            made = Segment(FULL)
            made.set_untimed(1 << 5)
            return made
        _, shared = self.play("memory", "settle", "kernels", "settle", segments=counting)
        self.assertEqual({op["timed"] for op in shared.ops() if op["class"] == 5}, {0})
        self.assertEqual(shared.health()["kernel_launches"], 3 + 4001)

    def host_spans(self, *scenes, on=1, **env):
        def traced():
            made = Segment(FULL)
            made.set_untimed(0x7f)
            made.set_host_events(on)
            return made
        _, shared = self.play("memory", "settle", *scenes, "settle", segments=traced, **env)
        apis = {op["index"]: op["api"] for op in shared.ops() if op["class"] == 7}
        spans = {}
        for event in shared.drain():
            if event["op"] in apis:
                spans.setdefault(apis[event["op"]], []).append(event)
        return spans, shared

    def test_calls_on_the_host(self):
        spans, shared = self.host_spans("threads", "settle", "collectives")
        calls = spans["cublasSgemm_v2"]
        self.assertEqual(len(calls) + shared.health()["queue_full"] + shared.health()["ring_dropped"], 8000)
        self.assertGreater(len(calls), 1000)
        self.assertEqual([c["sequence"] for c in calls], list(range(len(calls))))
        self.assertEqual({(c["source"], c["flags"], c["stream"]) for c in calls}, {(3, 1, 0)})
        threads = {}
        for call in calls:
            threads.setdefault(call["delay_us"], []).append(call)
        self.assertLessEqual(len(threads), 8)
        for own in threads.values():
            for one, next_one in zip(own, own[1:]):
                self.assertGreaterEqual(next_one["begin_ns"], one["begin_ns"] + one["duration_ns"])
        self.assertEqual([len(spans[api]) for api in ("ncclAllReduce", "ncclReduce", "ncclCommInitRank")], [1, 1, 1])
        # They are counted once, with the calls.
        self.assertEqual(sum(op["calls"] for op in shared.ops() if op["api"] == "cublasSgemm_v2"), 8000)
        self.assertEqual({op["calls"] for op in shared.ops() if op["class"] == 7}, {0})

    def test_calls_on_the_host_that_the_program_made(self):
        spans, _ = self.host_spans("kernels", "threads", FAKE_CALL_KERNELS="1")
        # The program makes 3001 launches, the first perhaps too early to be seen. Launches inside the library's own
        # calls do not count.
        self.assertLessEqual(len(spans["cudaLaunchKernel"]), 3001)
        self.assertGreater(len(spans["cudaLaunchKernel"]), 100)

    def test_calls_on_the_host_are_no_events_unless_asked_for(self):
        spans, shared = self.host_spans("threads", on=0)
        self.assertEqual((spans, [op for op in shared.ops() if op["class"] == 7]), ({}, []))

    def test_capture_is_left_alone(self):
        _, shared = self.play("memory", "settle", "collectives", "capture", "settle", level=FULL)
        self.assertEqual([(op["calls"], op["captured"]) for op in shared.ops() if op["m"] == 900], [(0, 1)])
        self.assertEqual([(op["calls"], op["captured"]) for op in shared.ops() if op["m"] == 901], [(1, 0)])
        self.assertEqual(shared.comms()[0]["called"], 9)
        self.assertEqual(shared.health()["captured"], 3)

    def test_what_never_completes_hides_nothing_else(self):
        _, shared = self.play("memory", "settle", "collectives", "settle", level=FULL, FAKE_GPU_NEVER="9")
        comm, = shared.comms()
        self.assertEqual((comm["called"], comm["launched"]), (9, 9))
        self.assertLess(comm["done"], 9)
        self.assertNotIn(4, shared.state()[:1], "the rank ended by itself")

    def test_events_in_flight_are_counted(self):
        for never, stays in (("0", False), ("9", True)):
            with self.subTest(never=never):
                _, shared = self.play("memory", "settle", "collectives", "settle", level=FULL, FAKE_GPU_NEVER=never)
                made, in_flight = shared.events()
                health = shared.health()
                self.assertEqual(made, 4096)
                self.assertEqual(in_flight, health["samples"] + health["marks"] - health["completed"])
                self.assertEqual(in_flight > 0, stays)

    def test_events_that_fail_switch_nothing_but_us_off(self):
        result, shared = self.play("memory", "settle", "last-error", "matmuls", "last-error", "settle", level=FULL,
                                   FAKE_GPU_FAIL_EVENTS="999", XPURUN_RUN_EVENT_CORRECTION="1")
        self.assertEqual(shared.event_overhead(), (0, 0))
        self.assertEqual(result.stdout.count("last error 77"), 2)
        self.check_matmuls(shared)

    def test_the_programs_last_error_is_left_alone(self):
        result, _ = self.play("memory", "settle", "last-error", "collectives", "capture", "last-error", level=FULL)
        self.assertEqual(result.stdout.count("last error 77"), 2)

    def test_a_call_that_fails_is_not_counted(self):
        _, shared = self.play("lt", FAKE_CALL_STATUS="13")
        self.assertEqual({op["calls"] for op in shared.ops()}, {0})

    def test_missing_function(self):
        result, _ = self.play("missing")
        self.assertIn("missing 801", result.stdout)

    def test_fork(self):
        result, shared = self.play("memory", "settle", "fork", "settle")
        self.assertIn("child 0\n", result.stdout)
        self.assertEqual([op["m"] for op in shared.ops() if op["m"] >= 800], [801])

    def test_threads(self):
        for level in (LIGHT, FULL):
            _, shared = self.play("memory", "settle", "threads", "settle", level=level, budget_ppm=1000)
            self.assertEqual(sum(op["calls"] for op in shared.ops() if op["m"] == 8), 8000)
            self.assertEqual(sum(op["work"] for op in shared.ops() if op["m"] == 8), 8000 * 1024)

    def test_million_calls(self):
        """Counts stay exact, nothing leaks, and events that did not fit are counted."""
        _, shared = self.play("memory", "settle", "million", "settle", level=FULL, FAKE_GPU_WORK_US="1")
        op, = [op for op in shared.ops() if op["m"] == 16]
        health = shared.health()
        self.assertEqual((op["calls"], op["work"]), (1_000_000, 8192 * 1_000_000))
        self.assertGreater(op["timed"], 1000)
        self.assertEqual(health["samples"], health["completed"])
        self.assertEqual(len(shared.drain()) + health["ring_dropped"], health["completed"])

    def test_budget(self):
        """Where counting alone costs more than a thousandth of the time, nearly nothing is left to time."""
        shared = Segment(LIGHT, 1000)
        supervisor = FakeSupervisor(self.directory.name, lambda: shared)
        with self.busy_program(supervisor, "idle") as process:
            first = shared.state()[3]
            self.wait_for(lambda: shared.state()[3] > first)
            calls, samples = shared.health()["hooked_calls"], shared.health()["samples"]
            self.wait_for(lambda: shared.health()["hooked_calls"] > calls + 100_000)
            self.assertLess(shared.health()["samples"] - samples, 2_000)
            self.let_go(process)
            process.stdout.read()
        supervisor.close()
        os.unlink(supervisor.path)
        self.assertEqual(process.returncode, 0)

    def busy_program(self, supervisor, *scenes):
        """A program that calls cuBLAS until it is let go, then plays the scenes."""
        process = subprocess.Popen(
            [VICTIM, f"{BUILD}/tests/preload/libtiming_body13.so", "global", "memory", "settle", "busy", "wait",
             *scenes], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": PRELOAD, "XPURUN_RUN": supervisor.variable(), "FAKE_GPU_WORK_US": "1"})
        self.wait_for_program(process)
        return process

    @staticmethod
    def wait_for_program(process):
        while process.stdout.readline() not in ("waiting\n", ""):
            pass

    @staticmethod
    def let_go(process):
        process.stdin.write("\n")
        process.stdin.flush()

    def timed_calls(self, every, level):
        """Timed matmuls and collectives of a program whose earlier calls have used up its budget."""
        supervisor = FakeSupervisor(self.directory.name, lambda: Segment(LIGHT, 1))
        # Without `every` there is no pause before these calls: in a pause, the period would shrink again.
        pause = ["idle", "wait"] if every else ["end_calls"]
        with self.busy_program(supervisor, *pause, "matmuls", "collectives", "wait") as process:
            shared, = supervisor.segments.values()
            # The program calls on: the period grows until the budget is kept.
            self.wait_for(lambda: shared.state()[3] >= 256)
            shared.set_every(every)
            shared.set_level(level)
            self.wait_for(lambda: shared.state()[2] == level)
            polls = shared.health()["polls"]
            self.wait_for(lambda: shared.health()["polls"] >= polls + 2)
            self.let_go(process)
            if every:
                self.wait_for_program(process)
                self.wait_for(lambda: self.nothing_is_in_flight(shared.health()))
                self.let_go(process)
            self.wait_for_program(process)
            self.wait_for(lambda: self.nothing_is_in_flight(shared.health()))
            self.let_go(process)
            process.stdout.read()
        supervisor.close()
        os.unlink(supervisor.path)
        self.assertEqual(process.returncode, 0)
        ops = [op for op in shared.ops() if op["captured"] == 0 and op["m"] != 16]
        return [sum(op["timed"] for op in ops if op["class"] == kind) for kind in (1, 2)]

    @staticmethod
    def nothing_is_in_flight(health):
        """Each sample and each completion event has ended, or was lost because the poller was behind."""
        return health["completed"] + health["queue_full"] >= health["samples"] + health["marks"]

    def wait_for(self, condition):
        deadline = time.monotonic() + 30
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.005)
        self.assertTrue(condition())

    def test_some_calls_are_timed_whatever_they_cost(self):
        """A look times all collectives, a trace all calls; the budget would allow nearly none."""
        budget, look, trace = (self.timed_calls(*how) for how in ((0, LIGHT), (1, LIGHT), (2, FULL)))
        self.assertGreater(look[1], budget[1])
        self.assertEqual(look[1], trace[1])
        self.assertGreater(trace[0], look[0])

    def test_off_is_one_jump(self):
        """Every exported hook, as it is in the library: the landing pad and one jump through memory."""
        text = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", PRELOAD], capture_output=True, text=True, check=True
        ).stdout
        bodies = {name: body for name, body in re.findall(r"^[0-9a-f]+ <(\w+)>:\n((?:.+\n)+)", text, re.M)}
        for api in segment.apis():
            instructions = [line.split("\t")[1].split("#")[0].strip() for line in bodies[api].splitlines()]
            self.assertEqual(instructions[0], "endbr64", api)
            self.assertRegex(instructions[1], r"^jmp +\*0x[0-9a-f]+\(%rip\)$", api)

    def test_off_is_off(self):
        result, shared = self.play("matmuls", "collectives", level=OFF)
        self.assertEqual((shared.ops(), shared.comms(), shared.health()["hooked_calls"]), ([], [], 0))
        self.assertIn("events 0", result.stdout)

    def test_no_supervisor_and_another_version(self):
        def other():
            made = Segment()
            made.memory[8] = 99
            return made
        for make in (other, lambda: None):
            result, _ = self.play("matmuls", "collectives", segments=make)
            self.assertIn("events 0", result.stdout)

    def test_switched_while_it_runs(self):
        supervisor = FakeSupervisor(self.directory.name, lambda: Segment(OFF))
        self.addCleanup(supervisor.close)
        process = subprocess.Popen(
            [
                VICTIM,
                f"{BUILD}/tests/preload/libtiming_body13.so",
                "global",
                "collectives",
                "wait",
                "matmuls",
                "collectives",
                "wait",
                "matmuls",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": PRELOAD, "XPURUN_RUN": supervisor.variable()},
        )
        with process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            shared, = supervisor.segments.values()
            for level, calls in ((LIGHT, 0), (OFF, 1)):
                shared.set_level(level)
                deadline = time.monotonic() + 10
                while shared.state()[2] != level and time.monotonic() < deadline:
                    time.sleep(0.005)
                self.assertEqual(sum(op["calls"] for op in shared.ops() if op["api"] == "cublasHgemm"), calls)
                process.stdin.write("\n")
                process.stdin.flush()
                process.stdout.readline()
            process.wait(20)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(shared.op("cublasHgemm")["calls"], 1)
        # Two ranks cannot compare these counters: both ends of the communicator's life were not seen.
        self.assertEqual([comm["flags"] & 1 for comm in shared.comms()], [1])


if __name__ == "__main__":
    xpurun_test.in_shards(4)
