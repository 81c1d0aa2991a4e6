"""What NVML counts while a job runs, on the stand-in for NVML: gpu-health.json, findings of the report, tables."""

import json
import os
import subprocess

import xpurun_test
from xpurun_test import PROGRAM

BUILD = os.environ["XPURUN_TEST_BUILD"]
VICTIM = [f"{BUILD}/tests/preload/timing_victim", f"{BUILD}/tests/preload/libtiming_body13.so", "local"]


class GpuHealth(xpurun_test.Case):
    def test_a_fault_in_the_middle_of_a_run(self):
        state = self.dir / "state"
        state.write_text("0 gpus 2\n1 rows_corrected 5\n")
        libraries = f"{BUILD}/tests/fakes/cuda13:{BUILD}/tests/fakes"
        env = self.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LD_LIBRARY_PATH=libraries, FAKE_NVML_STATE=str(state))
        job = subprocess.Popen([PROGRAM, "--out", "run", "--", *VICTIM, "matmuls", "wait"], cwd=self.dir,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=env)
        run = self.dir / "run"
        self.wait_for(lambda: (run / "gpu-health.json").exists() and "counted" in (run / "gpu-health.json").read_text(),
                      "the first reading")
        top = subprocess.run([PROGRAM, "top", "--machine", "--once", "run"], cwd=self.dir, capture_output=True,
                             text=True, env=env, timeout=60)
        self.assertEqual(top.returncode, 0, top.stderr)
        self.assertRegex(top.stdout, r"(?m)^GPU 1 +load +100 % +[0-9]+ MHz +55 °C +[0-9]+ W$")
        state.write_text("0 gpus 2\n1 rows_corrected 5\n1 link.3.recoveries 4\n1 remap_pending 1\n0 xid 63\n")
        # The end of the job asks for the last reading.
        job.communicate("\n", timeout=60)
        health = json.loads((run / "gpu-health.json").read_text())
        self.assertEqual([unit["serial"] for unit in health["inventory"]["units"]], ["165300000", "165300001"])
        self.assertEqual(health["inventory"]["units"][1]["rows_corrected"], 5)
        self.assertEqual(health["inventory"]["paths"], [{"from": 0, "to": 1, "path": "NV18"}])
        tracks = {(t["use"], t["object"]): t["values"] for t in health["counted"]["use"]["tracks"]}
        self.assertEqual(tracks["gpu_temperature", "GPU 1"][0], 55)
        self.assertEqual(tracks["gpu_load", "GPU 0"][0], 1)
        page = (run / "report.html").read_text()
        self.assertIn("GPU 1, Temperature: 55 °C to 55 °C", page)
        facts = {(s["fact"], s["object"]): s for s in health["counted"]["series"]}
        recovered = facts["nvlink_recoveries", "GPU 1 NVLink 3"]
        self.assertEqual((recovered["first"], recovered["last"], recovered["times"]), (0, 4, 1))
        self.assertEqual(recovered["spells"][0]["amount"], 4)
        self.assertIn(("remap_pending", "GPU 1"), facts)
        self.assertIn(("xid", "GPU 0 Xid 63"), facts)
        rows = self.query("SELECT fact, object, serial, amount FROM gpu_health WHERE times > 0 ORDER BY fact")
        self.assertEqual([row[:3] for row in rows],
                         [["nvlink_recoveries", "GPU 1 NVLink 3", "165300001"], ["remap_pending", "GPU 1", "165300001"],
                          ["xid", "GPU 0 Xid 63", "165300000"]])
        # Without spans, the steps are not known.
        self.assertEqual(self.query("SELECT DISTINCT step FROM gpu_health"), [[None]])
        self.assertEqual(self.query("SELECT gpu, name, power_limit_w, nvlinks, ecc FROM gpus"),
                         [[f"GPU {i}", "NVIDIA H200", 700, 18, 1] for i in (0, 1)])
        self.assertEqual(self.query("SELECT gpu, other, path FROM gpu_paths"), [["GPU 0", "GPU 1", "NV18"]])
        report = json.loads((run / "report.json").read_text())
        found = {f["id"]: f["title"] for f in report["findings"]}
        self.assertEqual(found["machine.nvlink_recoveries"], "GPU 1 NVLink 3, recoveries of the link: 4")
        self.assertIn("machine.remap_pending", found)

    def query(self, sql):
        done = subprocess.run([PROGRAM, "query", "--format", "json", sql, "run"], cwd=self.dir, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [list(json.loads(line).values()) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    xpurun_test.main()
