"""Healthy jobs that look still for a long time by every simple measure run to their end under --on-hang kill.

The jobs are in jobs/H_*.py. Those in QUICK run always, the others in the long lane (tests/support/lane.py).
"""

import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import xpurun_test  # noqa: E402
from attack import JOBS, job_command, needs_torch  # noqa: E402
from lane import LONG, long  # noqa: E402

TIMEOUT = 10 if LONG else 4
# Seconds of each job's work.
SECONDS = 2.2 * TIMEOUT
# Ranks that work while others wait for them, or without a moving main thread: they may take any time.
LASTING = ["H_child_downloads", "H_child_pauses_output", "H_child_pauses_run", "H_download_stalls", "H_encode_threads",
           "H_eval_moving", "H_eval_rank0", "H_matmul_rank0", "H_threadpool_io", "H_tokenize_pool"]
LONG_SECONDS = 4.2 * TIMEOUT

QUICK = ["H_child_gzip", "H_child_quiet", "H_http_server_idle", "H_pool_downloads", "H_queue_worker", "H_sleep_backoff",
         "H_child_reads_slowly", "H_idle_server_rank", "H_select_pipe", "H_threadpool_io"]
# The main thread waits for helpers that work: not even a suspicion.
SILENT = ["H_child_busy_nonpython", "H_child_gzip", "H_configure", "H_executor", "H_pool_downloads", "H_pool_map",
          "H_queue_worker", "H_subproc_installer"]
# No progress at all, and no rank waits for this rank.
IDLE = ["H_accept", "H_asyncio_server_idle", "H_child_quiet", "H_http_server_idle", "H_idle_server_rank", "H_poll_file",
        "H_poll_slowly", "H_stdin"]
# What the sentence names, while the rank works.
SAYS = {"H_eval_moving": "still working in evaluate (H_eval_moving.py:"}


class Healthy(xpurun_test.Case):
    def run_job(self, job):
        seconds = LONG_SECONDS if job in LASTING else SECONDS
        command, env = job_command(job, str(seconds))
        if needs_torch(job) and not xpurun_test.have_torch():
            self.skipTest("needs python3-torch")
        p = self.start_xpurun("--hang-timeout", TIMEOUT, "--on-hang", "kill", "--", *command, env=self.env(**env),
                              stdin=subprocess.PIPE)
        if job == "H_stdin":
            time.sleep(SECONDS)
        _, stderr = p.communicate(timeout=seconds * 4 + 60)
        self.assertEqual(p.returncode, 0, stderr)
        stalls = self.manifest()["stalls"]
        detail = json.dumps(stalls, indent=1) + stderr
        self.assertEqual({i["verdict"]["level"] for i in stalls} - {"suspected", ""}, set(), detail)
        self.assertEqual(self.verdict()["kind"], "none", detail)
        if job in SILENT:
            self.assertEqual(stalls, [], stderr)
        if job in SAYS:
            self.assertIn(SAYS[job], stderr)
        if job in IDLE:
            self.assertTrue(stalls, detail)


def add(job):
    test = lambda self: self.run_job(job)  # noqa: E731
    setattr(Healthy, f"test_{job[2:]}", test if job in QUICK else long(test))


for path in sorted(JOBS.glob("H_*.py")):
    add(path.stem)

if __name__ == "__main__":
    xpurun_test.main()
