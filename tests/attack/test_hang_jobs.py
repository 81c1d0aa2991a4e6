"""Jobs that hang are found, with the right rank and the right kind, regardless of their other activity.

The jobs are in jobs/G_*.py. Those in QUICK run always, the others in the long lane (tests/support/lane.py).
"""

import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import xpurun_test  # noqa: E402
from attack import job_command, needs_torch  # noqa: E402
from lane import LONG, long  # noqa: E402

TIMEOUT = 5 if LONG else 2

QUICK = ["G_asyncio_forever", "G_beside_loop", "G_communicate", "G_cond_lost", "G_heartbeat", "G_idle_deadlock",
         "G_last_rank", "G_pool_stuck", "G_spin_beside_loop", "G_two_locks"]
# id of the verdict, ranks
EXPECTED = {
    "G_all_in_barrier_waiting_store": ("hang.not_entered", [0]),
    "G_asyncio_forever": ("hang.stuck", [0]),
    "G_barrier_missing": ("hang.mismatch", [3]),
    "G_beside_loop": ("hang.lock", [1]),
    "G_busy_helper": ("hang.busy", [0]),
    "G_c_loop_rank3": ("hang.busy", [3]),
    "G_c_loop_single": ("hang.busy", [0]),
    "G_communicate": ("hang.lock", [0]),
    "G_cond_lost": ("hang.lock", [0]),
    "G_cpp_mutex": ("hang.stuck", [0]),
    "G_cpp_mutex_rank1": ("hang.stuck", [1]),
    "G_dataloader_stuck": ("hang.lock", [0]),
    "G_dataloader_stuck_rank2": ("hang.lock", [2]),
    "G_fifo_read": ("hang.stuck", [0]),
    "G_flock_rank2": ("hang.stuck", [2]),
    "G_fork_lock": ("hang.lock", [0]),
    "G_gil_held": ("hang.stuck", [0]),
    "G_heartbeat": ("hang.lock", [0]),
    "G_http_unresponsive": ("hang.stuck", [0]),
    "G_idle_deadlock": ("hang.lock", [0, 1]),
    "G_import_lock": ("hang.lock", [0]),
    "G_last_rank": ("hang.stuck", [1]),
    "G_lost_thread_rank": ("hang.lock", [1]),
    "G_mismatch_order": ("hang.mismatch", [1]),
    "G_mpqueue_full": ("hang.lock", [0]),
    "G_pool_stuck": ("hang.lock", [0]),
    "G_py_loop_rank1": ("hang.busy", [1]),
    "G_rank_left": ("hang.left_early", [2]),
    "G_recv": ("hang.mismatch", [1]),
    "G_sigstop_rank1": ("hang.stopped", [1]),
    "G_spin_beside_loop": ("hang.busy", [1]),
    "G_two_locks": ("hang.lock", [0]),
}
# Found, but an external event might end the wait: ended with --hang-idle only.
IDLE = ["G_asyncio_forever"]
# Found, but these ranks might be working: ended with --busy-timeouts only.
WORK = ["G_busy_helper", "G_c_loop_rank3", "G_c_loop_single", "G_heartbeat", "G_py_loop_rank1", "G_spin_beside_loop"]
# Parts of the sentence: the position of the helper or thread that the rank waits for.
SAYS = {
    "G_dataloader_stuck": ["its dataloader worker pid", "read_sample"],
    "G_dataloader_stuck_rank2": ["its dataloader worker pid", "read_sample"],
    "G_gil_held": ["Thread-1", "holds the GIL", "G_gil_held.py:8: libc.sleep"],
    "G_pool_stuck": ["its process pid", "read_sample"],
}


class Hang(xpurun_test.Case):
    def run_job(self, job):
        command, env = job_command(job)
        if needs_torch(job) and not xpurun_test.have_torch():
            self.skipTest("needs python3-torch")
        options = ["--hang-timeout", TIMEOUT, "--on-hang", "kill", "--grace", "3s"]
        if job in IDLE + WORK:
            self.check_suspected(job, options, command, env)
            self.out = self.dir / "counts"
            options += ["--hang-idle"] if job in IDLE else ["--busy-timeouts", 2]
        result = self.run_xpurun(*options, "--", *command, env=self.env(**env), timeout=TIMEOUT * 4 + 90)
        detail = json.dumps(self.verdict(), indent=1) + result.stderr
        self.assertEqual(result.returncode, 124, detail)
        if job not in WORK:
            stall = next(s for s in self.manifest()["stalls"] if s.get("action") == "kill")
            self.assertLess(stall["at_s"] - stall["since_s"], TIMEOUT + 3, detail)
        self.assertEqual((self.verdict()["id"], self.verdict()["ranks"], self.verdict()["level"]),
                         (*EXPECTED[job], "confirmed"), detail)
        for piece in SAYS.get(job, []):
            self.assertIn(piece, self.verdict()["sentence"], detail)

    def stall_of(self, ranks):
        stalls = self.manifest()["stalls"] if (self.out / "run.json").exists() else []
        return next((s for s in stalls if s["verdict"]["ranks"] == ranks), None)

    def check_suspected(self, job, options, command, env):
        p = self.start_xpurun(*options, "--", *command, env=self.env(**env))
        ranks = EXPECTED[job][1]
        self.wait_for(lambda: self.stall_of(ranks), "verdict", 60)
        stall = self.stall_of(ranks)
        self.assertEqual((stall["verdict"]["kind"], stall["verdict"]["level"]), ("hang", "suspected"), stall)
        if job in WORK:
            self.assertIn("--busy-timeouts", stall["verdict"]["sentence"])
        self.assertLess(stall["at_s"] - stall["since_s"], TIMEOUT + 3, stall)
        for process in self.manifest()["processes"]:
            try:
                os.kill(process["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass
        p.communicate(timeout=60)


def add(job):
    test = lambda self: self.run_job(job)  # noqa: E731
    setattr(Hang, f"test_{job[2:]}", test if job in QUICK else long(test))


for name in EXPECTED:
    add(name)

if __name__ == "__main__":
    xpurun_test.main()
