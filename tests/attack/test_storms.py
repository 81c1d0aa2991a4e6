"""Cases 70 to 73: ranks that start very many processes, and output whose relay is killed."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import attack
import lane
from attack import PROGRAM, PYTHON

CHILDREN = """
import subprocess, sys, time
children = [subprocess.Popen(["sleep", "300"]) for _ in range(int(sys.argv[1]))]
def wait(): time.sleep(0.01)
def work(): wait()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: wait(); work()
for child in children: child.kill()
for child in children: child.wait()
print("ok")
"""
FORKS = """
import os, sys
def children(number, status):
    for _ in range(number):
        child = os.fork()
        if child == 0: os._exit(status)
        os.waitpid(child, 0)
def collate(batch): return batch["label"]
children(700, 0)
children(700, 3)
collate({})
"""
TALK = """
import os, sys, time
for i in range(200):
    print("line", i, flush=True)
    print("error", i, file=sys.stderr, flush=True)
    time.sleep(0.01)
open("done-" + os.environ["RANK"], "w").close()
"""
LAUNCH = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "RANK": str(i), "LOCAL_RANK": str(i),
         "WORLD_SIZE": "2"}) for i in range(2)]
sys.exit(max(r.wait() for r in ranks))
"""


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ManyProcesses(attack.Case):
    def healthy(self, children, seconds, most_cpu_s):
        job = self.start_xpurun("--hang-timeout", "4", "--on-hang", "kill", "--", PYTHON, "-c", CHILDREN,
                                str(children), str(seconds), env=self.rank_env())
        used = 0
        while job.poll() is None:
            try:
                used = cpu_s(job.pid)
            except (OSError, IndexError):
                break
            time.sleep(0.1)
        out, err = job.communicate(timeout=90)
        self.assertEqual((job.returncode, out), (0, "ok\n"), err)
        log = (self.out / "xpurun.log").read_text()
        for false in ("stopped or suspended", "has not answered", "hang"):
            self.assertNotIn(false, log + err)
        self.assertLess(used, most_cpu_s)

    def test_case_70_a_rank_with_many_children_is_not_hung_and_costs_little(self):
        self.healthy(700, 10, 2)

    @lane.long
    def test_case_70_a_rank_with_thousands_of_children(self):
        self.healthy(2500, 20, 3)

    def test_case_71_forked_children_hide_no_exception_and_fill_no_file(self):
        result = self.run_xpurun("--", PYTHON, "-c", LAUNCH, FORKS, env=self.env(), timeout=120)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(self.verdict()["kind"], "exception", self.verdict())
        self.assertIn("KeyError", self.verdict()["sentence"])
        self.assertLess((self.out / "xpurun.log").stat().st_size, 20000)
        self.assertLess((self.out / "run.json").stat().st_size, 100000)

    def test_case_72_programs_that_a_rank_starts_are_not_announced(self):
        """They have the rank's variables, too. Each announcement would cost xpurun work."""
        program = self.compile(
            "#include <sys/wait.h>\n#include <unistd.h>\nint main(int argc, char** argv) {\n  if (argc > 1) return 0;\n"
            "  for (int i = 0; i < 40; ++i) {\n    if (vfork() == 0) { execl(argv[0], argv[0], \"x\", (char*)0); "
            "_exit(1); }\n    wait(0);\n  }\n  return 0;\n}\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.dir / "socket"))
            listener.listen(64)
            listener.setblocking(False)
            library = pathlib.Path(os.environ["XPURUN_TEST_BUILD"]) / "preload/libxpurun_preload.so"
            hooked = {"LD_PRELOAD": str(library), "XPURUN_RUN": f"1:{os.getpid()}:0:{self.dir}/socket"}
            announced = []
            # A rank, a program that the rank starts as another rank, and the same rank again after exec.
            for more in ({}, {"RANK": "1", "LOCAL_RANK": "1"}):
                subprocess.run([program], env={**self.rank_env(), **hooked, **more}, check=True)
            inner = f"RANK=1 LOCAL_RANK=1 {program} x; exec {program} x"
            subprocess.run(["env", "/bin/sh", "-c", inner], env={**self.rank_env(), **hooked}, check=True)
            try:
                while True:
                    announced.append(listener.accept()[0].close())
            except BlockingIOError:
                pass
        # Each announces itself, and asks for the memory in which its host memory is sampled.
        self.assertEqual(len(announced), 2 * 4)


class KilledRelays(attack.Case):
    def processes(self):
        """{pid: (comm, arguments)} of everything that belongs to this test."""
        out = {}
        for pid in self.strays():
            try:
                place = pathlib.Path(f"/proc/{pid}")
                out[pid] = (place.joinpath("comm").read_text().strip(), place.joinpath("cmdline").read_bytes())
            except OSError:
                continue
        return out

    def talk(self, chosen):
        """Kills the processes that `chosen` chooses while two ranks write. Returns xpurun's process when both ranks
        have ended by themselves."""
        for path in self.dir.glob("done-*"):
            path.unlink()
        job = self.start(PROGRAM, "--runs-dir", self.dir / "runs", "--logs", "--no-report", "--", PYTHON, "-c", LAUNCH,
                         TALK, stdout=open(self.dir / "out", "wb"), stderr=open(self.dir / "err", "wb"), env=self.env())
        self.wait_for(lambda: b"line 30\n" in (self.dir / "out").read_bytes(), "lines")
        victims = [pid for pid, process in self.processes().items() if chosen(pid, *process)]
        self.assertTrue(victims)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: len(list(self.dir.glob("done-*"))) == 2, "the end of both ranks", 60)
        job.wait(60)
        self.wait_for(lambda: not list(self.strays()), "the end of the relay", 60)
        return job

    def check_lines(self):
        """Each byte is there, or bytes that are as many are noted as missing. Python writes a line in two pieces."""
        run = next(p for p in (self.dir / "runs").iterdir() if not p.is_symlink())
        note = r"\n\[xpurun: (\d+) bytes of output are missing here[^\n]*\n"
        for rank in range(2):
            for stream, word in (("stdout", "line"), ("stderr", "error")):
                log = (run / f"ranks/{rank}/{stream}.log").read_text()
                noted = sum(map(int, re.findall(note, log)))
                self.assertGreaterEqual(len(re.sub(note, "", log)) + noted, self.length(word), log)
        said = (self.dir / "err").read_text()
        noted = sum(map(int, re.findall(r"(\d+) bytes of output of rank \d+ are missing", said)))
        repeated = (self.dir / "out").read_text()
        self.assertGreaterEqual(len(repeated) + noted, 2 * self.length("line"), repeated)

    @staticmethod
    def length(word):
        return sum(len(f"{word} {i}\n") for i in range(200))

    def one(self, *names):
        job = self.talk(lambda pid, name, arguments: name in names)
        self.assertEqual(job.returncode, 0, (self.dir / "err").read_text())
        self.check_lines()

    def test_case_73_relay(self):
        for _ in range(10 if lane.LONG else 2):
            self.one("log-relay")
            subprocess.run(["rm", "-rf", self.dir / "runs"], check=True)

    def test_case_73_keeper(self):
        self.one("log-keeper")

    def test_case_73_deputy(self):
        self.one("log-deputy")

    def test_case_73_relay_and_keeper(self):
        self.one("log-relay", "log-keeper")

    def test_case_73_everything_that_pkill_finds_by_name(self):
        """pkill -9 -f xpurun, without harm to the xpurun of others."""
        self.talk(lambda pid, name, arguments: b"xpurun" in arguments)
        self.check_lines()


if __name__ == "__main__":
    attack.main()
