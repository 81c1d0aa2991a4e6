"""Case 36 and the basic promise: output, exit status and time of 50 commands are the same with and without
xpurun, under conditions that are bad for xpurun itself.

Each command waits for a gate, so that a condition can be set while the supervisors already run. The commands of one
condition run concurrently, in batches. xpurun's own lines on stderr begin with "xpurun: " and are ignored.
"""

import contextlib
import subprocess
import tempfile
import time

import attack
from attack import PROGRAM, PYTHON, as_nobody, limits
from lane import LONG

GATE = 'while ! test -e "$GATE"; do sleep 0.05; done; exec "$@"'


def sh(script):
    return ["sh", "-c", script]


def bash(script):
    return ["bash", "-c", script]


def py(code):
    return [PYTHON, "-S", "-c", code]


# name: (argv, bytes on standard input)
COMMANDS = {
    "true": (["true"], b""),
    "false": (["false"], b""),
    "echo": (["echo", "a  b", "", "c\n"], b""),
    "printf without newline": (["printf", "abc"], b""),
    "exit 255": (sh("exit 255"), b""),
    "exit 3 from a subshell": (sh("(exit 3)"), b""),
    "command not found": (sh("/nonexistent/program"), b""),
    "cat": (["cat"], b"line\n\x00\xffbinary"),
    "cat of nothing": (["cat", "/nonexistent"], b""),
    "wc": (["wc", "-c"], b"x" * 100_000),
    "pipeline": (sh("cat | tr a-z A-Z | rev"), b"abc\ndef\n"),
    "pipefail": (bash("set -o pipefail; false | cat; echo $?; exit 9"), b""),
    "early end of a reader": (bash("yes | head -3; echo ${PIPESTATUS[0]}"), b""),
    "here document": (sh("cat <<E\nhere\nE"), b""),
    "seq": (["seq", "20000"], b""),
    "five megabytes": (["head", "-c", "5000000", "/dev/zero"], b""),
    "tee": (sh("tee /dev/null"), b"both\n"),
    "sort": (["sort", "-n"], b"3\n1\n2\n"),
    "xargs": (["xargs", "-n1", "echo"], b"a b c"),
    "xargs that fails": (["xargs", "-n1", "false"], b"a"),
    "find": (["find", "/dev/null"], b""),
    "dd": (sh("dd bs=10 count=2 2>/dev/null"), b"0123456789abcdefghij"),
    "env": (sh("env | grep '^ATTACK_'"), b""),
    "cleared environment": (["env", "-i", "A=b", "/usr/bin/env"], b""),
    "directory": (["pwd"], b""),
    "umask": (sh("umask"), b""),
    "limits": (bash("ulimit -c -d -f -l -m -n -s -t -v"), b""),
    "terminal": (sh("for n in 0 1 2; do test -t $n; echo $?; done"), b""),
    "sleep": (["sleep", "0.3"], b""),
    "timeout": (["timeout", "0.2", "sleep", "5"], b""),
    "killed by TERM": (sh("kill -TERM $$"), b""),
    "killed by KILL": (sh("kill -KILL $$"), b""),
    "killed by SEGV": (sh("kill -SEGV $$"), b""),
    "killed by USR1": (sh("kill -USR1 $$"), b""),
    "killed by PIPE": (sh("kill -PIPE $$"), b""),
    "trap": (sh("trap 'echo trapped; exit 4' TERM; kill -TERM $$; sleep 1"), b""),
    "background": (sh("(sleep 0.1; echo late) & wait; echo done"), b""),
    "daemon": (sh("setsid sleep 0.5 </dev/null >/dev/null 2>&1 & echo left"), b""),
    "nohup": (sh("nohup echo x 2>/dev/null"), b""),
    "python": (py("print('hi')"), b""),
    "python reads": (py("import sys; print(sys.stdin.read()[::-1])"), b"abc"),
    "python raises": (py("def f(): raise ValueError('no')\nf()"), b""),
    "python exits with a message": (py("import sys; sys.exit('message')"), b""),
    "python _exit": (py("import os; os.write(1, b'raw'); os._exit(17)"), b""),
    "python aborts": (py("import os; os.abort()"), b""),
    "python both streams": (
        py("import sys\nfor i in range(50): print(i, flush=True); print(-i, file=sys.stderr, flush=True)"),
        b"",
    ),
    "python threads": (
        py(
            "import threading\nt = [threading.Thread(target=lambda: sum(range(9999))) for _ in range(4)]\n"
            "[x.start() for x in t]; [x.join() for x in t]; print('joined')"
        ),
        b"",
    ),
    "python subprocess": (
        py("import subprocess as s; print(s.run(['sh', '-c', 'echo in; exit 6'], stdout=s.PIPE))"),
        b"",
    ),
    "python forks": (py("import os\np = os.fork()\nif p == 0: os._exit(5)\nprint(os.waitpid(p, 0)[1])"), b""),
    "python signal": (
        py(
            "import os, signal\nsignal.signal(signal.SIGTERM, lambda *a: print('got'))\nos.kill(os.getpid(),"
            " 15)\nprint('on')"
        ),
        b"",
    ),
}
QUICK = [
    "true",
    "exit 255",
    "cat",
    "pipeline",
    "early end of a reader",
    "five megabytes",
    "limits",
    "killed by TERM",
    "killed by SEGV",
    "daemon",
    "python",
    "python raises",
    "python both streams",
    "python aborts",
    "python subprocess",
]


class Disk:
    """Nothing happens to the run directories."""

    def __init__(self, case):
        self.runs = case.dir / "runs"

    def spoil(self):
        pass

    def repair(self):
        pass


class FullDisk(Disk):
    def __init__(self, case):
        self.case, self.disk = case, case.tmpfs("size=2m")
        self.runs = self.disk / "runs"

    def spoil(self):
        self.case.fill(self.disk)

    def repair(self):
        (self.disk / "filler").unlink()


class ReadOnlyDisk(Disk):
    """For jobs of a user other than root, because root may write everywhere."""

    def chmod(self, mode):
        for place in [self.runs, *(p for p in self.runs.rglob("*") if p.is_dir() and not p.is_symlink())]:
            place.chmod(mode)

    def spoil(self):
        self.chmod(0o555)

    def repair(self):
        self.chmod(0o777)


class StalledDisk(Disk):
    def __init__(self, case):
        self.fs = case.stalling()
        self.runs = self.fs.path / "runs"

    def spoil(self):
        self.fs.stall()

    def repair(self):
        self.fs.go_on()


class SameAsBare(attack.Case):
    BATCH = 10

    def setUp(self):
        super().setUp()
        assert len(COMMANDS) >= 50

    def play(self, names, argv_of, redirection, preexec, disk):
        """{name: (status, stdout, stderr)} and the duration in seconds with the gates open."""
        told, seconds = {}, 0.0
        for at in range(0, len(names), self.BATCH):
            with contextlib.ExitStack() as files:
                took = self.play_batch(names[at:at + self.BATCH], argv_of, redirection, preexec, disk, files, told)
            seconds += took
        return told, seconds

    def play_batch(self, batch, argv_of, redirection, preexec, disk, files, told):
        gate = self.dir / f"gate-{len(self.started)}"
        running = {}
        for name in batch:
            argv, stdin = COMMANDS[name]
            feed, out, err = (files.enter_context(tempfile.TemporaryFile("a+b")) for _ in range(3))
            feed.write(stdin)
            feed.seek(0)
            whole = ["sh", "-c", f'exec "$@" {redirection}', "sh", *argv_of(name), "sh", "-c", GATE, "sh", *argv]
            process = subprocess.Popen(
                [str(w) for w in whole],
                stdin=feed,
                stdout=out,
                stderr=err,
                cwd=self.dir / "work",
                env=self.env(GATE=str(gate), ATTACK_A="b", HOME="/tmp"),
                preexec_fn=preexec,
            )
            self.started.append(process)
            running[name] = (process, out, err)
        if disk is not None:
            self.wait_for(lambda: all((disk.runs / self.directory(n) / "run.json").exists() for n in batch),
                          "supervisors", 60)
            time.sleep(0.2)
            disk.spoil()
        start = time.monotonic()
        gate.touch()
        try:
            for name, (process, out, err) in running.items():
                try:
                    status = process.wait(timeout=max(0.1, start + 60 - time.monotonic()))
                except subprocess.TimeoutExpired:
                    status = "did not end within 60 s"
                out.seek(0), err.seek(0)
                told[name] = (
                    128 - status if isinstance(status, int) and status < 0 else status,
                    out.read(),
                    err.read(),
                )
        finally:
            if disk is not None:
                disk.repair()
        return time.monotonic() - start

    def directory(self, name):
        return name.replace(" ", "-")

    def compare(self, disk=None, redirection="", preexec=None, needed_disk=True):
        names = list(COMMANDS) if LONG else QUICK
        (self.dir / "work").mkdir()
        (self.dir / "work").chmod(0o777)
        disk = disk or Disk(self)
        disk.runs.mkdir(exist_ok=True)
        disk.runs.chmod(0o777)
        bare, bare_seconds = self.play(names, lambda name: [], redirection, preexec, None)
        ours, seconds = self.play(
            names,
            lambda name: [PROGRAM, "--out", disk.runs / self.directory(name), "--"],
            redirection,
            preexec,
            disk if needed_disk else None,
        )
        for name in names:
            with self.subTest(command=name):
                status, out, err = ours[name]
                own = [line for line in err.splitlines(keepends=True) if line.startswith(b"xpurun: ")]
                rest = b"".join(line for line in err.splitlines(keepends=True) if not line.startswith(b"xpurun: "))
                self.assertEqual(status, bare[name][0], err.decode(errors="replace"))
                self.assertEqual(out, bare[name][1])
                self.assertEqual(rest, bare[name][2], own)
        # A crash has its dump and report, on a machine that may be loaded.
        self.assertLess(seconds, 5 * bare_seconds + len(names) + 5)

    def test_as_it_is(self):
        self.compare()

    def test_closed_standard_output(self):
        self.compare(redirection=">&-")

    def test_closed_standard_error(self):
        self.compare(redirection="2>&-")

    def test_full_disk(self):
        self.compare(disk=FullDisk(self))

    def test_read_only_run_directory(self):
        self.open_to_all()
        self.compare(disk=ReadOnlyDisk(self), preexec=as_nobody())

    def test_stalled_file_system(self):
        self.compare(disk=StalledDisk(self))

    def test_limit_of_files(self):
        self.compare(preexec=limits(NOFILE=24))

    def test_limit_of_file_size(self):
        self.compare(preexec=limits(FSIZE=1024), needed_disk=False)

    def test_limit_of_processes(self):
        self.open_to_all()
        # All processes of one user count together: those of a batch, their supervisors and helpers, with some room.
        self.compare(preexec=as_nobody(limits(NPROC=14 * self.BATCH)))

    def test_limit_of_memory(self):
        self.compare(preexec=limits(AS=600 << 20))


if __name__ == "__main__":
    attack.main()
