"""xpurun replay: event files, replayed on a simulated machine (tests/fakes/replay)."""

import json
import os
import pathlib
import subprocess

import make_events
import xpurun_test
from make_events import BF16_CUDA, BF16_NCCL, COLLECTIVE, MATMUL, signed, text, varint
from xpurun_test import PROGRAM

BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
FAKES = f"{BUILD}/tests/fakes/replay:{BUILD}/tests/fakes"
STEPS = 60
FP32, FP8 = 0, 28
LAUNCH_NS = 5_000  # of each matmul of the simulated GPU


def matmul(number, function, shape, types=(BF16_CUDA,) * 4, trans=1, epilogue=0, batch=1, compute=68, flags=0):
    m, n, k = shape
    body = varint(number) + text(function) + varint(MATMUL) + varint(flags) + varint(2 * m * n * k * batch)
    body += b"".join(varint(t) for t in types) + varint(compute) + varint(trans) + varint(epilogue) + varint(batch)
    body += b"".join(signed(size) for size in shape) + varint(0) + signed(-1) + varint(0) + varint(0)
    return make_events.record(0x80, body)


# Entry, nanoseconds of a call.
GEMM, LT, BATCHED, FP8_TN, FP8_NN, GROUPED, LARGE = range(7)
ALL_REDUCE, GATHER, SEND = 10, 11, 12
DURATIONS = {GEMM: 90_000, LT: 50_000, BATCHED: 40_000, FP8_TN: 20_000, FP8_NN: 10_000, GROUPED: 5_000, LARGE: 4_000}


def entries(rank, world):
    return (make_events.communicator(0, 0x77, rank, world, "dp")
            + matmul(GEMM, "cublasGemmEx", (1024, 2048, 512), trans=0x01)
            + matmul(LT, "cublasLtMatmul", (512, 1024, 256), trans=0x10, epilogue=164)
            + matmul(BATCHED, "cublasGemmStridedBatchedEx", (128, 128, 64), batch=16, trans=0)
            + matmul(FP8_TN, "cublasLtMatmul", (256, 256, 256), types=(FP8, FP8, BF16_CUDA, BF16_CUDA), epilogue=1,
                     flags=3)
            + matmul(FP8_NN, "cublasLtMatmul", (256, 256, 128), types=(FP8, FP8, BF16_CUDA, BF16_CUDA), epilogue=1,
                     trans=0)
            + matmul(GROUPED, "cublasGemmGroupedBatchedEx", (64, 64, 64), batch=4, flags=8)
            + matmul(LARGE, "cublasGemmEx", (32768, 32768, 64))
            + make_events.entry(ALL_REDUCE, "ncclAllReduce", COLLECTIVE, 1 << 20, BF16_NCCL, (0, 0, 1 << 19), comm=0)
            + make_events.entry(GATHER, "ncclAllGather", COLLECTIVE, 1 << 20, BF16_NCCL, (0, 0, 1 << 18), comm=0)
            + make_events.entry(SEND, "ncclSend", COLLECTIVE, 1 << 20, BF16_NCCL, (0, 0, 1 << 19), comm=0))


def events_of(rank, slowness, matmuls):
    out = make_events.Events()
    for step in range(STEPS):
        at = 1_000_000_000 + step * 500_000
        for i, number in enumerate(matmuls):
            out.add(number, at + i * 50_000, round(DURATIONS[number] * slowness) + (step * 7919) % 100, sequence=step)
        # The rank that arrives last has the shortest time.
        late = 30_000 if rank == 0 else 0
        source = make_events.SOURCE_PROFILER
        out.add(ALL_REDUCE, at + 400_000 + late, 80_000 - late, sequence=2 * step + 1, stream=2, source=source)
        out.add(GATHER, at + 480_000, 10_000, sequence=2 * step + 2, stream=2, source=source)
        out.add(SEND, at + 490_000, 5_000, sequence=0, stream=2, source=source)
    return out


class Replay(xpurun_test.Case):
    def make_run(self, slowness, matmuls=tuple(DURATIONS), name="run"):
        """`slowness`: by rank."""
        run = self.dir / name
        for rank, factor in enumerate(slowness):
            path = run / "ranks" / str(rank) / "events-1.xev"
            path.parent.mkdir(parents=True)
            path.write_bytes(make_events.header(rank, "node0", rank)
                             + make_events.block(entries(rank, len(slowness)))
                             + make_events.block(events_of(rank, factor, matmuls).data))
        (run / "run.json").write_text(json.dumps({"schema": "xpurun.run/1", "outcome": "exit", "elapsed_s": 3,
                                                  "started_wall_ns": make_events.WALL}))
        return run

    def replay(self, *args, status=0, columns=80, libraries=FAKES, **environment):
        env = {"COLUMNS": str(columns), "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": libraries}
        env |= {name: str(value) for name, value in environment.items()}
        done = subprocess.run([PROGRAM, "replay", *map(str, args)], capture_output=True, text=True, timeout=100,
                              cwd=self.dir, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        for word in ("LEAK", "FREE of"):
            self.assertNotIn(word, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def json(self, *args, **environment):
        return json.loads(self.replay("--format", "json", *args, **environment))

    def test_every_kind_of_matmul(self):
        log = self.dir / "log"
        told = self.json(self.make_run([1, 1]), FAKE_REPLAY_LOG=log)
        self.assertEqual(told["schema"], "xpurun.replay/1")
        self.assertEqual(told["all_matmuls"], len(DURATIONS))
        calls = log.read_text().splitlines()
        for line in ("cublasGemmEx TN 1024x2048x512 batch 1 types 14 14 14 compute 68 epilogue 1",
                     "cublasLtMatmul NT 512x1024x256 batch 1 types 14 14 14 compute 68 epilogue 164",
                     "cublasGemmStridedBatchedEx NN 128x128x64 batch 16 types 14 14 14 compute 68 epilogue 1",
                     "cublasLtMatmul TN 256x256x256 batch 1 types 28 28 14 compute 68 epilogue 1"):
            self.assertIn(line, calls)
        by_shape = {m["shape"]: m for m in told["matmuls"]}
        # The most time first.
        self.assertEqual(told["matmuls"][0]["shape"], "1024x2048x512")
        self.assertEqual(by_shape["512x1024x256"]["epilogue"], "gelu, bias")
        self.assertIn("no algorithm", by_shape["256x256x128"]["replay"]["skipped"])
        self.assertIn("events add", by_shape["16 x 128x128x64"]["replay"]["skipped"])
        self.assertIn("grouped", by_shape["4 x 64x64x64 grouped"]["replay"]["skipped"])
        self.assertIn("out of memory of the GPU: needs 2", by_shape["32768x32768x64"]["replay"]["skipped"])
        first = told["matmuls"][0]
        self.assertGreaterEqual(first["replay"]["repeats"], 20)
        # Of events in bf16, 6.9 us are subtracted, as in a run; the pair of the simulated GPU takes 1 us.
        flop = 2 * 1024 * 2048 * 512
        seconds = flop / 100e12 + (LAUNCH_NS + 1_000 - 6_900) * 1e-9
        self.assertAlmostEqual(first["replay"]["median_s"] * 1e6, seconds * 1e6, delta=0.1)
        self.assertAlmostEqual(first["replay_tflops"], flop / seconds / 1e12, delta=1)
        self.assertAlmostEqual(first["of_replay"], seconds / first["median_s"], delta=0.001)
        self.assertAlmostEqual(first["share"], 90 / sum(DURATIONS.values()) * 1000, delta=0.01)
        self.assertEqual(told["device"]["sm_clock_mhz"], 345)
        self.assertEqual(told["device"]["libraries"][0], "cuBLAS 13.0.2: libcublas.so.13")
        self.assertEqual(told["slow"], [])

    def test_a_slow_rank(self):
        run = self.make_run([1, 1, 1.25, 1], matmuls=(GEMM, LT))
        told = self.json(run)
        self.assertEqual(told["slow"], [2])
        self.assertEqual([r["slow"] for r in told["ranks"]], [False, False, True, False])
        self.assertAlmostEqual(told["ranks"][2]["of_median"], 0.8, delta=0.01)
        self.assertEqual(told["ranks"][2]["slow_shapes"], 2)
        self.assertEqual([r["slow"] for r in told["matmuls"][1]["ranks"]], [False, False, True, False])
        self.assertTrue(told["sentence"].startswith("rank 2 is slower than 0.90 x the median"), told["sentence"])
        self.assertEqual(self.json("--factor", "0.75", run)["slow"], [])
        self.assertEqual([r["rank"] for r in self.json("--ranks", "1,3", run)["ranks"]], [1, 3])
        self.assertEqual(len(self.json("--top", "1", run)["matmuls"]), 1)
        self.assertEqual(self.json("--device", "1", run)["device"]["index"], 1)

    def test_all_ranks_are_slower_than_the_replay(self):
        run = self.make_run([1, 1], matmuls=(GEMM,))
        sentence = self.json(run, FAKE_REPLAY_TFLOPS=50)["sentence"]
        self.assertIn("no rank is slower", sentence)
        reached = int(sentence.rsplit("reached ", 1)[1].split(" %")[0])
        self.assertAlmostEqual(reached, (2 * 1024 * 2048 * 512 / 50e12 * 1e9 - 900) / 90_050 * 100, delta=1)

    def test_collectives(self):
        log = self.dir / "log"
        told = self.json("--collectives", self.make_run([1, 1], matmuls=(GEMM,)), FAKE_REPLAY_LOG=log)
        reduce, gather = told["collectives"]
        self.assertEqual((reduce["operation"], reduce["bytes"], reduce["size"], reduce["devices"]),
                         ("AllReduce", 1 << 20, 2, 2))
        # From the last rank's arrival on.
        self.assertAlmostEqual(reduce["transfer_s"], 50e-6, delta=1e-7)
        self.assertAlmostEqual(reduce["bus_gb_s"], (1 << 20) / 50e-6 / 1e9, delta=0.1)
        self.assertAlmostEqual(reduce["replay_bus_gb_s"], 100, delta=1)
        self.assertEqual(gather["operation"], "AllGather")
        self.assertEqual(told["all_collectives"], 2)
        lines = log.read_text().splitlines()
        self.assertIn("ncclAllReduce count 524288 type 9 ranks 2", lines)
        self.assertIn("ncclAllGather count 262144 type 9 ranks 2", lines)
        self.assertIn("NCCL 2.28.9", told["device"]["libraries"][1])
        alone = self.replay("--collectives", self.make_run([1, 1], name="b"), status=1, FAKE_REPLAY_DEVICES=1)
        self.assertIn("two GPUs", alone)

    def test_the_text(self):
        run = self.make_run([1, 1, 1.25, 1])
        for columns in (40, 80, 120):
            out = self.replay("--collectives", run, columns=columns)
            self.assertLessEqual(max(map(len, out.splitlines())), columns, out)
            self.assertTrue(out.startswith("rank 2 is slower"), out)
        words = " ".join(self.replay(run).split())
        for part in ("NVIDIA H200, 256 MiB, SM clock 345 MHz of 1980", "limited by", "7 of 7 distinct ones",
                     "Matmuls", "Ranks", "skipped", "grouped", "note", "1024x2048x512 bf16 TN 23.8 104 22.8"):
            self.assertIn(part, words)

    def test_without_a_gpu(self):
        run = self.make_run([1, 1])
        # Neither the directory nor the machine of the tests has a libcuda.so.1.
        for environment, wanted in (({"FAKE_REPLAY_DEVICES": 0}, "no GPU that programs may use"),
                                    ({"FAKE_REPLAY_INIT": 3}, "cuInit fails with error 3")):
            told = self.replay(run, status=1, **environment)
            self.assertIn("E-NO-GPU", told)
            self.assertIn(wanted, told)
        self.assertIn("there is no GPU 2", self.replay("--device", "2", run, status=1))

    def test_missing_libraries(self):
        run = self.make_run([1, 1])
        half = self.dir / "half"
        half.mkdir()
        for name in ("libcuda.so.1", "libcublasLt.so.13", "libfake_replay.so"):
            (half / name).symlink_to(BUILD / "tests/fakes/replay" / name)
        told = self.replay(run, status=1, libraries=str(half))
        self.assertIn("E-GPU-LIBRARY", told)
        self.assertIn("libcublas.so.13", told)
        self.assertIn("--python", told)

    def test_nothing_to_replay(self):
        run = self.make_run([1, 1], matmuls=())
        told = self.replay(run, status=1)
        self.assertIn("no timed matmuls", told)
        self.assertIn("E-NO-DATA", told)
        self.assertEqual(len(self.json("--collectives", run)["collectives"]), 2)
        self.assertIn("missing", self.replay(self.dir / "missing", status=1))
        # Nothing of the run can be replayed.
        self.replay(self.make_run([1, 1], matmuls=(GROUPED,), name="b"), status=1)

    def test_wrong_use(self):
        run = self.make_run([1, 1])
        for words in (["--factor", "1.5"], ["--factor", "x"], ["--ranks", "x"], ["--device", "-1"], ["--top", "0"],
                      ["--format", "html"]):
            self.replay(*words, run, status=2)


if __name__ == "__main__":
    xpurun_test.main()
