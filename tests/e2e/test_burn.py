"""xpurun doctor --burn on a simulated machine (tests/fakes/replay, fake_nvml)."""

import json
import os
import pathlib
import subprocess

import xpurun_test
from xpurun_test import PROGRAM

BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
FAKES = f"{BUILD}/tests/fakes/replay:{BUILD}/tests/fakes"


class Burn(xpurun_test.Case):
    def burn(self, *args, status=0, state="0 gpus 2\n", libraries=FAKES, **environment):
        (self.dir / "state").write_text(state)
        env = {"COLUMNS": "120", "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": libraries, "FAKE_REPLAY_TFLOPS": "700",
               "FAKE_NVML_STATE": str(self.dir / "state")}
        env |= {name: str(value) for name, value in environment.items()}
        done = subprocess.run([PROGRAM, "doctor", "--burn", "1s", *args], capture_output=True, text=True, timeout=100,
                              cwd=self.dir, env=env)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def json(self, *args, **options):
        return json.loads(self.burn("--json", *args, **options))

    def test_healthy_gpus(self):
        told = self.json()
        self.assertEqual(told["schema"], "xpurun.burn/1")
        self.assertEqual((told["ok"], told["faults"], told["findings"], told["notes"]), (True, [], [], []))
        self.assertEqual([gpu["index"] for gpu in told["gpus"]], [0, 1])
        gpu = told["gpus"][1]
        self.assertEqual((gpu["serial"], gpu["results"], gpu["bad_copies"]), ("165300001", "equal", 0))
        self.assertGreaterEqual(gpu["matmul"]["rounds"], 3)
        # A matmul of 2 x 1024 x 1024 x 4096 FLOP, with 5 us for the launch.
        flop = 2 * 1024 * 1024 * 4096
        self.assertAlmostEqual(gpu["matmul"]["median"] / (flop / (flop / 700e12 + 5e-6)), 1, delta=0.01)
        self.assertAlmostEqual(gpu["memory"]["median"] / 4e12, 1, delta=0.01)
        self.assertAlmostEqual(gpu["to_gpu"]["median"] / 50e9, 1, delta=0.01)
        self.assertAlmostEqual(gpu["peer"]["median"] / 400e9, 1, delta=0.01)
        self.assertAlmostEqual(told["all_reduce_bus_bytes_s"] / 100e9, 1, delta=0.01)
        self.assertEqual((gpu["sm_clock_mhz"], gpu["nvlinks"], gpu["power_limit_w"]), (1980, 18, 700))
        self.assertIn("The GPUs work as fast as each other, and with equal results.", self.burn())

    def test_a_slower_gpu_and_why(self):
        text = self.burn(status=1, state="0 gpus 2\n1 power_limit 500000\n", FAKE_REPLAY_SLOW="1:1.14")
        self.assertIn("GPU 1 (serial 165300001) is 12 % slower in bf16 matmul: power limit 500 W instead of 700 W",
                      " ".join(text.split()))
        told = self.json(status=1, state="0 gpus 2\n1 reasons 64\n", FAKE_REPLAY_SLOW="1:1.14")
        self.assertFalse(told["ok"])
        self.assertEqual({(f["kind"], f["gpu"]) for f in told["faults"]}, {("slow", 1)})
        self.assertIn("hardware_thermal for 100 % of the time", told["faults"][0]["sentence"])
        self.assertEqual(told["gpus"][1]["throttled"], {"hardware_thermal": 1})

    def test_silent_corruption(self):
        told = self.json(status=1, FAKE_REPLAY_WRONG=1, FAKE_REPLAY_DEVICES=3, state="0 gpus 3\n")
        self.assertEqual([(f["kind"], f["gpu"]) for f in told["faults"]], [("wrong", 1)])
        self.assertEqual([gpu["results"] for gpu in told["gpus"]], ["equal", "wrong", "equal"])
        text = " ".join(self.burn(status=1, FAKE_REPLAY_WRONG=1).split())
        self.assertIn("the same matmuls give different bits on GPU 0 (serial 165300000), GPU 1 (serial 165300001)",
                      text)

    def test_broken_hardware_fails_at_full_speed(self):
        told = self.json(status=1, state="0 gpus 2\n0 ecc_uncorrected 0\n1 remap_failed 1\n")
        self.assertEqual(told["faults"], [])
        self.assertEqual([f["title"] for f in told["findings"]],
                         ["GPU 1 has damaged memory and no spare rows left"])

    def test_one_gpu_and_none(self):
        told = self.json(FAKE_REPLAY_DEVICES=1, state="0 gpus 1\n")
        self.assertEqual(len(told["gpus"]), 1)
        self.assertEqual(told["gpus"][0]["peer"]["rounds"], 0)
        self.assertIsNone(told["all_reduce_bus_bytes_s"])
        self.assertIn("E-NO-GPU", self.burn(status=1, FAKE_REPLAY_DEVICES=0))
        self.assertIn("E-NO-GPU", self.burn(status=1, libraries=str(self.dir)))

    def test_without_nvml(self):
        told = self.json(libraries=f"{BUILD}/tests/fakes/replay")
        self.assertTrue(told["ok"])
        self.assertIsNone(told["gpus"][0]["sm_clock_mhz"])


class Checks(xpurun_test.Case):
    def doctor(self, state):
        (self.dir / "state").write_text("0 gpus 4\n" + state)
        env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": FAKES, "FAKE_NVML_STATE": str(self.dir / "state")}
        done = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=200, cwd=self.dir,
                              env=env)
        return [c for c in json.loads(done.stdout)["checks"] if c["check"] == "gpus"]

    def test_gpus(self):
        healthy = self.doctor("")
        self.assertEqual([c["grade"] for c in healthy], ["ok"])
        self.assertIn("connected by NV18 between 6 pairs", healthy[0]["text"])
        broken = self.doctor("2 remap_pending 1\n1 link.7.up 0\n0 persistence 0\n")
        self.assertEqual([c["grade"] for c in broken], ["warn", "warn", "ok", "ok"])
        self.assertEqual({c["text"] for c in broken[:2]},
                         {"GPU 1 NVLink 7 is down", "GPU 2 has damaged memory that waits for a reset to be replaced"})
        self.assertIn("persistence mode is off", broken[3]["text"])


if __name__ == "__main__":
    xpurun_test.main()
