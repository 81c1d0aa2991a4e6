"""xpurun-stackdump and PositionReader against live processes on every interpreter of this machine.

Paths of the programs under test come from the environment (XPURUN_STACKDUMP, XPURUN_LINE_TABLE_PROBE,
XPURUN_POSITION_PROBE).
"""

import functools
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

STACKDUMP = os.environ["XPURUN_STACKDUMP"]
LINE_TABLE_PROBE = os.environ["XPURUN_LINE_TABLE_PROBE"]
POSITION_PROBE = os.environ["XPURUN_POSITION_PROBE"]


def find_pythons():
    """{"3.11": path, ...} of pyenv, and "system"."""
    out = {}
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for minor in range(8, 14):
        found = sorted(glob.glob(f"{root}/versions/3.{minor}.*/bin/python3.{minor}"))
        out[f"3.{minor}"] = found[-1] if found else None
    out["system"] = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else None
    return out


PYTHONS = find_pythons()
ANY_PYTHON = PYTHONS["system"] or sys.executable


def need(program):
    if not shutil.which(program):
        raise unittest.SkipTest(f"{program} is not installed")


class Target:
    """A Python program that prints a line when it is where we want it."""

    def __init__(self, code, python=ANY_PYTHON, wait=True, env=None):
        self.dir = tempfile.mkdtemp(prefix="xpurun-live-")
        self.script = os.path.join(self.dir, "target.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(code))
        self.process = subprocess.Popen([python, self.script], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                        text=True, env=env)
        self.pid = self.process.pid
        self.first_line = ""
        if wait and select.select([self.process.stdout], [], [], 20)[0]:
            self.first_line = self.process.stdout.readline().strip()
        time.sleep(0.15)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self.process.kill()
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def state(self):
        with open(f"/proc/{self.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]


class Dump:
    def __init__(self, pid, *extra, prefix=()):
        with tempfile.TemporaryDirectory(prefix="xpurun-dump-") as d:
            out = os.path.join(d, "x.stacks.json")
            done = subprocess.run([*prefix, STACKDUMP, "--pid", str(pid), "--out", out, "--deadline-ms", "2000", *extra],
                                  capture_output=True, text=True, timeout=30)
            self.rc, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
            self.json = None
            if os.path.exists(out):
                with open(out, encoding="utf-8") as f:
                    self.json = json.load(f)

    @property
    def main(self):
        return next(t for t in self.json["threads"] if t["main"])

    def pause_ms(self):
        return self.json["pause_ns"] / 1e6


def python_frames(thread):
    return [f for f in thread["frames"] if f["kind"] == "python"]


def markers(thread):
    return [f["func"] for f in thread["frames"] if f["kind"] == "marker"]


def names(thread):
    return [f["func"] for f in thread["frames"]]


NESTED = """
    import functools, threading, time
    class Дом:
        def ждать(self, x):
            time.sleep(1000)
    def key(x):
        Дом().ждать(x)
    def part(x):
        return sorted([x, 2], key=key)
    def gen():
        yield functools.partial(part, 1)()
    def worker_naïve():
        time.sleep(1000)
    threading.Thread(target=worker_naïve, daemon=True).start()
    print("ready", flush=True)
    list(gen())
"""


def on_every_python(test):
    """Runs test(self, version, path) for each interpreter as a subtest."""

    @functools.wraps(test)
    def run(self):
        for version, path in PYTHONS.items():
            with self.subTest(python=version):
                if path is None:
                    self.skipTest(f"Python {version} is not installed")
                test(self, version, path)

    return run


class EveryInterpreter(unittest.TestCase):
    @on_every_python
    def test_nested_c_callbacks_merge(self, version, path):
        with Target(NESTED, path) as t:
            d = Dump(t.pid)
            self.assertEqual((d.rc, d.json["status"]), (0, "ok"), d.stderr)
            self.assertRegex(d.stdout, r"\Astopped \d+ \d+\ndone ok\n\Z")
            main = d.main
            frames = main["frames"]
            short = [f["func"].split(".")[-1] for f in python_frames(main)]
            self.assertEqual(short, ["ждать", "key", "part", "gen", "<module>"])
            self.assertEqual([f["line"] for f in python_frames(main)], [5, 7, 9, 11, 16])
            self.assertEqual(markers(main), [])
            # Each C callback is between its Python frames, and evaluation frames stand behind theirs.
            self.assertEqual(frames[-1]["func"], "_start")
            for i, f in enumerate(frames):
                if f.get("eval"):
                    self.assertEqual(frames[i - 1]["kind"], "python")
            # sorted() calls key, partial calls part, list() runs the generator: three ways through C code.
            is_python = [f["kind"] == "python" for f in frames]
            runs = sum(1 for a, b in zip(is_python, is_python[1:]) if a and not b)
            self.assertGreaterEqual(runs, 4)
            if version != "system":
                inside = names(main)
                self.assertLess(inside.index("key"), inside.index("builtin_sorted"))
                self.assertLess(inside.index("builtin_sorted"), inside.index("part"))
            other = [x for x in d.json["threads"] if not x["main"]]
            self.assertEqual(len(other), 1)
            self.assertEqual(python_frames(other[0])[0]["func"], "worker_naïve")
            self.assertEqual(markers(other[0]), [])
            if version == "system" or int(version.split(".")[1]) >= 11:
                self.assertEqual(python_frames(main)[0]["callee"], "time.sleep")
                self.assertEqual(python_frames(main)[0]["column"], 13 - 4)
                self.assertEqual(python_frames(main)[0]["func"], "Дом.ждать")

    @on_every_python
    def test_gil_holder_and_waiters(self, version, path):
        # With this switch interval the first to get the GIL keeps it: start() waits for ever.
        with Target("""
            import threading, sys
            sys.setswitchinterval(1000)
            def spin():
                while True:
                    pass
            print("ready", flush=True)
            threading.Thread(target=spin, daemon=True).start()
        """, path) as t:
            d = Dump(t.pid)
            self.assertEqual(d.json["status"], "ok")
            spin = [x for x in d.json["threads"] if "spin" in names(x)]
            self.assertEqual([x.get("gil") for x in spin], ["holder"])
            self.assertEqual(d.main.get("gil"), "waiting", names(d.main)[:8])

    @on_every_python
    def test_lines_agree_with_the_interpreter_over_its_stdlib(self, version, path):
        # Prints, for each code object, the input of the probe, and on the next line what Python itself says.
        reference = textwrap.dedent(r"""
            import dis, glob, os, sys, types
            minor = sys.version_info[1]
            def walk(code):
                yield code
                for c in code.co_consts:
                    if isinstance(c, types.CodeType):
                        for inner in walk(c): yield inner
            root = os.path.dirname(os.__file__)
            files = sorted(glob.glob(root + "/*.py"))[::3] + sorted(glob.glob(root + "/asyncio/*.py"))
            for path in files:
                try:
                    tree = compile(open(path, "rb").read(), path, "exec")
                except SyntaxError:
                    continue
                for code in walk(tree):
                    n = len(code.co_code) // 2
                    if minor >= 11:
                        fmt, table = "locations", code.co_linetable
                        want = [(l or 0, e or 0, 0 if c is None else c + 1, 0 if d is None else d + 1)
                                for l, e, c, d in code.co_positions()]
                    elif minor == 10:
                        fmt, table = "linetable", code.co_linetable
                        want = [(0, 0, 0, 0)] * n
                        for start, end, line in code.co_lines():
                            for i in range(start // 2, end // 2):
                                want[i] = (line or 0, 0, 0, 0)
                    else:
                        fmt, table = "lnotab", code.co_lnotab
                        # As dis.findlinestarts, but with unsigned address and signed line steps spelled out.
                        want, line, addr = [], code.co_firstlineno, 0
                        starts = {}
                        for a, s in zip(table[0::2], table[1::2]):
                            addr += a
                            line += s - 256 if s >= 128 else s
                            starts[addr] = line
                        line = code.co_firstlineno
                        for i in range(n):
                            line = starts.get(i * 2, line)
                            want.append((line, 0, 0, 0))
                    print(fmt, code.co_firstlineno, n, table.hex() or "-")
                    print("".join("%d %d %d %d;" % w for w in want[:n]))
        """)
        lines = subprocess.run([path, "-W", "ignore", "-c", reference], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        given, want = lines[0::2], lines[1::2]
        got = subprocess.run([LINE_TABLE_PROBE], input="\n".join(given) + "\n", capture_output=True, text=True,
                             check=True).stdout.splitlines()
        self.assertEqual(len(got), len(want))
        self.assertGreater(sum(int(g.split()[2]) for g in given), 50_000)
        wrong = [(g, w, x) for g, w, x in zip(given, want, got) if w != x]
        self.assertEqual(len(wrong), 0, f"{version}: {wrong[:1]}")


class Stopping(unittest.TestCase):
    def test_300_threads(self):
        with Target("""
            import threading, time
            def work(n):
                if n: return work(n - 1)
                time.sleep(1000)
            threading.stack_size(256 * 1024)
            for i in range(300):
                threading.Thread(target=work, args=(20,), daemon=True).start()
            print("ready", flush=True)
            time.sleep(1000)
        """) as t:
            d = Dump(t.pid)
            self.assertEqual(d.json["status"], "ok", d.stderr)
            self.assertEqual(len(d.json["threads"]), 301)
            workers = [x for x in d.json["threads"] if not x["main"]]
            self.assertTrue(all(len([f for f in python_frames(x) if f["func"] == "work"]) == 21 for x in workers))
            self.assertTrue(all(markers(x) == [] for x in workers))
            # The best of a few: the host may be busy with other tests.
            self.assertLess(min(d.pause_ms(), *(Dump(t.pid).pause_ms() for _ in range(4))), 100)

    def test_stopped_target_stays_stopped(self):
        with Target(NESTED) as t:
            os.kill(t.pid, signal.SIGSTOP)
            time.sleep(0.2)
            self.assertEqual(t.state(), "T")
            d = Dump(t.pid)
            self.assertEqual(d.json["status"], "ok", d.stderr)
            self.assertEqual(d.main["state"], "T")
            self.assertEqual(len(python_frames(d.main)), 5)
            time.sleep(0.2)
            self.assertEqual(t.state(), "T")
            os.kill(t.pid, signal.SIGCONT)
            time.sleep(0.2)
            self.assertEqual(t.state(), "S")

    def test_dumper_killed_leaves_target_running(self):
        # Kill it at many moments around the pause; the target must run on every time.
        with Target("""
            import sys, threading, time
            for i in range(100):
                threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            print("ready", flush=True)
            for line in sys.stdin:
                print("alive", flush=True)
        """) as t, tempfile.TemporaryDirectory() as d:
            hit = 0
            for delay in range(16):
                p = subprocess.Popen([STACKDUMP, "--pid", str(t.pid), "--out", f"{d}/x", "--barrier"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self.assertEqual(p.stdout.readline(), b"ready\n")
                p.stdin.write(b"x")
                p.stdin.flush()
                end = time.monotonic() + 0.5
                while delay and time.monotonic() < end:  # until it traces us
                    with open(f"/proc/{t.pid}/status") as f:
                        if "TracerPid:\t0\n" not in f.read():
                            hit += 1
                            break
                p.kill()
                p.communicate()
                t.process.stdin.write("\n")
                t.process.stdin.flush()
                self.assertEqual(t.process.stdout.readline(), "alive\n")
                with open(f"/proc/{t.pid}/status") as f:
                    self.assertIn("TracerPid:\t0\n", f.read())
                for tid in os.listdir(f"/proc/{t.pid}/task"):
                    with open(f"/proc/{t.pid}/task/{tid}/stat") as f:
                        self.assertNotIn(f.read().rsplit(")", 1)[1].split()[0], "tT")
            self.assertGreater(hit, 0)

    def test_vfork_parent_in_uninterruptible_sleep(self):
        with Target("""
            import ctypes, threading, time
            libc = ctypes.CDLL(None)
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            def stuck():
                print("ready", flush=True)
                pid = libc.syscall(58)  # vfork; the child sleeps and leaves without touching anything
                if pid == 0:
                    libc.sleep(4)
                    libc._exit(0)
                return pid
            stuck()
            time.sleep(1000)
        """) as t:
            deadline = time.monotonic() + 2
            while t.state() != "D" and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual(t.state(), "D")
            start = time.monotonic()
            d = Dump(t.pid)
            self.assertLess(time.monotonic() - start, 2)
            self.assertEqual(d.rc, 0, d.stderr)
            self.assertEqual(d.main["state"], "D")
            self.assertEqual(d.main.get("syscall"), "vfork")
            if os.geteuid() == 0:
                self.assertTrue([f for f in d.main["frames"] if f["kind"] == "kernel"])
            self.assertIn("stuck", [f["func"] for f in python_frames(d.main)])
            self.assertTrue(any("uninterruptible" in n for n in d.json["notes"]))
            self.assertLess(d.pause_ms(), 60)
            for _ in range(300):
                if t.state() != "D":
                    break
                time.sleep(0.02)
            time.sleep(0.2)
            self.assertEqual(t.state(), "S")

    def test_signals_sent_during_dumps_arrive(self):
        # Python's C handler writes a byte for each signal, so not a single one can get lost unseen.
        with Target("""
            import os, signal, sys, threading
            count = 0
            def counter():
                global count
                while True:
                    count += len(os.read(r, 1000))
            r, w = os.pipe()
            os.set_blocking(w, False)
            signal.signal(signal.SIGRTMIN, lambda *args: None)
            signal.set_wakeup_fd(w)
            threading.Thread(target=counter, daemon=True).start()
            print("ready", flush=True)
            for line in sys.stdin:
                print(count, flush=True)
        """) as t, tempfile.TemporaryDirectory() as d:
            sent = 0
            for i in range(30):
                p = subprocess.Popen([STACKDUMP, "--pid", str(t.pid), "--out", f"{d}/{i}"], stdout=subprocess.DEVNULL)
                while p.poll() is None:
                    os.kill(t.pid, signal.SIGRTMIN)
                    sent += 1
                    time.sleep(0.0002)
                self.assertEqual(p.returncode, 0)
            time.sleep(0.3)
            t.process.stdin.write("\n")
            t.process.stdin.flush()
            count = int(t.process.stdout.readline())
            self.assertGreater(sent, 100)
            self.assertEqual(count, sent)
            # One that is certainly pending while it is stopped must not get lost.
            os.kill(t.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(t.pid, signal.SIGRTMIN)
            self.assertEqual(Dump(t.pid).rc, 0)
            os.kill(t.pid, signal.SIGCONT)
            time.sleep(0.1)
            t.process.stdin.write("\n")
            t.process.stdin.flush()
            self.assertEqual(int(t.process.stdout.readline()), count + 1)

    def test_thread_churn(self):
        with Target("""
            import threading, time
            print("ready", flush=True)
            def short():
                time.sleep(0.001)
            while True:
                batch = [threading.Thread(target=short) for _ in range(8)]
                for t in batch: t.start()
                for t in batch: t.join()
        """) as t:
            for _ in range(20):
                d = Dump(t.pid)
                self.assertEqual(d.rc, 0, d.stderr)
                self.assertIn("<module>", [f["func"] for f in python_frames(d.main)])
            self.assertIsNone(t.process.poll())

    def test_already_traced(self):
        need("gdb")
        with Target(NESTED) as t:
            gdb = subprocess.Popen(["gdb", "-nx", "-q", "-iex", "set debuginfod enabled off", "-iex",
                                    "set auto-solib-add off", "-p", str(t.pid), "-ex", "continue"],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                for _ in range(200):
                    with open(f"/proc/{t.pid}/status") as f:
                        traced = f"TracerPid:\t{gdb.pid}\n" in f.read()
                    if traced and t.state() == "S":
                        break
                    time.sleep(0.05)
                time.sleep(0.5)
                d = Dump(t.pid)
                self.assertEqual((d.json["method"], d.json["status"]), ("no-stop", "partial"))
                self.assertIn("E-PTRACE-TRACED", d.json["reason"])
                self.assertIn("gdb", d.json["reason"])
                self.assertEqual(python_frames(d.main)[0]["func"], "Дом.ждать")
                self.assertTrue([f for f in d.main["frames"] if f["kind"] == "native"])
            finally:
                gdb.kill()
                gdb.communicate()

    def test_no_such_process_and_zombie(self):
        gone = subprocess.Popen(["true"])
        os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
        d = Dump(gone.pid)
        self.assertEqual((d.rc, d.json), (1, None))
        self.assertIn("zombie", d.stderr)
        self.assertIn("E-NO-PROCESS", d.stderr)
        self.assertRegex(d.stdout, r"\Adone failed .*\n\Z")
        gone.wait()
        d = Dump(gone.pid)
        self.assertEqual(d.rc, 1)
        self.assertIn("E-NO-PROCESS", d.stderr)

    def test_other_user(self):
        need("setpriv")
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        with Target(NESTED) as t, tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o777)
            copy = shutil.copy(STACKDUMP, d)  # the build folder may not be readable for others
            out = f"{d}/x.json"
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", copy, "--pid", str(t.pid),
                                   "--out", out], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("belongs to user 0, we are user 65534", done.stderr)
            self.assertIn("E-PTRACE-PERM", done.stderr)
            with open(out) as f:
                j = json.load(f)
            self.assertEqual((j["status"], j["method"]), ("failed", "kernel"))
            self.assertEqual(len(j["threads"]), 2)


C_LIBRARY = r"""
#include <stdlib.h>
#include <unistd.h>
typedef void (*callback)(void);
__attribute__((noinline)) void inner_of_library(callback f) { f(); __asm__ volatile(""); }
__attribute__((noinline)) void outer_of_library(callback f) { inner_of_library(f); __asm__ volatile(""); }
"""

CRASH_LIBRARY = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static char stack[65536];
static void handler(int s, siginfo_t *i, void *uc) {
  char line[64];
  int n = snprintf(line, sizeof line, "%ld %p\n", syscall(SYS_gettid), uc);
  write(1, line, n);
  for (;;) pause();
}
void install(void) {
  stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&ss, 0);
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = handler;
  sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &sa, 0);
}
__attribute__((noinline)) void write_to(volatile int *p) { *p = 1; }
__attribute__((noinline)) void crash_by_write(void) { write_to((int *)8); __asm__ volatile(""); }
__attribute__((noinline)) void crash_by_call(void (*f)(void)) { f(); __asm__ volatile(""); }
__attribute__((noinline)) int crash_by_depth(int n) { volatile char a[4096]; a[0] = n; return crash_by_depth(n + 1) + a[0]; }
"""


def build_library(folder, source, *flags):
    need("cc")
    c = os.path.join(folder, "lib.c")
    with open(c, "w") as f:
        f.write(source)
    so = os.path.join(folder, "libxpuruntest.so")
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", so, c, *flags], check=True)
    return so


class Native(unittest.TestCase):
    LOAD = """
        import ctypes, os, sys, time
        lib = ctypes.CDLL({so!r})
        if {unlink}: os.unlink({so!r})
        CALLBACK = ctypes.CFUNCTYPE(None)
        def called_back():
            print("ready", flush=True)
            time.sleep(1000)
        lib.outer_of_library(CALLBACK(called_back))
    """

    def dump_library(self, unlink, patch=None, prefix=()):
        with tempfile.TemporaryDirectory() as d:
            so = build_library(d, C_LIBRARY)
            if patch:
                patch(so)
            with Target(self.LOAD.format(so=so, unlink=unlink)) as t:
                return Dump(t.pid, prefix=prefix)

    def check_library(self, d):
        self.assertEqual(d.json["status"], "ok", d.stderr)
        self.assertEqual(markers(d.main), [])
        frames = names(d.main)
        self.assertIn("inner_of_library", frames)
        self.assertEqual(frames[frames.index("inner_of_library") + 1], "outer_of_library")
        self.assertLess(frames.index("called_back"), frames.index("inner_of_library"))
        self.assertLess(frames.index("outer_of_library"), frames.index("<module>"))

    def test_library(self):
        self.check_library(self.dump_library(False))

    def test_deleted_library(self):
        self.check_library(self.dump_library(True))

    def test_deleted_library_read_from_memory(self):
        # /proc/PID/map_files needs a capability; without it the image comes from the process's memory.
        need("setpriv")
        if os.geteuid() != 0:
            self.skipTest("nothing to drop")
        self.check_library(self.dump_library(
            True, prefix=["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore", "--inh-caps=-all"]))

    def test_table_that_cannot_be_searched(self):
        # .eh_frame_hdr with an omitted table (encoding 0xff): libunwind's own look-up aborts on it.
        def patch(so):
            out = subprocess.run(["readelf", "-SW", so], capture_output=True, text=True, check=True).stdout
            offset = int(re.search(r"\.eh_frame_hdr\s+PROGBITS\s+\w+\s+(\w+)", out).group(1), 16)
            with open(so, "r+b") as f:
                f.seek(offset + 3)
                f.write(b"\xff")

        need("readelf")
        self.check_library(self.dump_library(False, patch))

    def crash(self, what):
        with tempfile.TemporaryDirectory() as d:
            so = build_library(d, CRASH_LIBRARY)
            with Target(f"""
                import ctypes
                lib = ctypes.CDLL({so!r})
                def dies():
                    {what}
                lib.install()
                dies()
            """) as t:
                tid, context = t.first_line.split()
                return Dump(t.pid, "--crash-tid", tid, "--crash-ucontext", context)

    def test_crash_context(self):
        d = self.crash("lib.crash_by_write()")
        self.assertEqual(d.json["status"], "ok", d.stderr)
        self.assertTrue(d.main["crashed"])
        self.assertEqual(names(d.main)[:2], ["write_to", "crash_by_write"])
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])
        self.assertEqual(markers(d.main), [])

    def test_crash_by_calling_null(self):
        d = self.crash("lib.crash_by_call(None)")
        self.assertEqual(names(d.main)[1], "crash_by_call")
        self.assertEqual(d.main["frames"][0]["func"], "[unknown code]")
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])

    def test_crash_by_calling_garbage(self):
        d = self.crash("lib.crash_by_call(ctypes.c_void_p(0xdead00000000beef))")
        self.assertIn("crash_by_call", names(d.main))

    def test_crash_by_stack_overflow(self):
        d = self.crash("lib.crash_by_depth(0)")
        self.assertTrue(d.main["crashed"])
        self.assertEqual(names(d.main)[:3], ["crash_by_depth"] * 3)
        self.assertTrue(any("unwind stopped" in m for m in markers(d.main)))
        self.assertEqual([f["func"] for f in python_frames(d.main)], ["dies", "<module>"])

    def test_program_without_python(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            time.sleep(0.2)
            d = Dump(p.pid)
            self.assertEqual(d.json["status"], "ok")
            self.assertEqual(d.json["python_version"], "")
            self.assertNotIn("notes", d.json)
            self.assertTrue(d.main["frames"])
        finally:
            p.kill()
            p.wait()


class Watching(unittest.TestCase):
    def watch(self, pid, times=20, interval_ms=10):
        done = subprocess.run([POSITION_PROBE, str(pid), str(times), str(interval_ms)], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    @on_every_python
    def test_every_interpreter(self, version, path):
        with Target("""
            import threading, time
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            def waits():
                print("ready", flush=True)
                time.sleep(1000)
            waits()
        """, path) as t:
            rc, lines = self.watch(t.pid)
            self.assertEqual(rc, 0, lines)
            self.assertEqual(len(set(lines[:-1])), 1, lines)
            self.assertRegex(lines[0], rf"true waits {re.escape(t.script)} 6$")

    def test_loops_move(self):
        for body in ("while True: step(1); step(2)", "while True: x += 1"):
            with self.subTest(body=body), Target(f"""
                def step(n):
                    return sum(range(n))
                print("ready", flush=True)
                x = 0
                {body}
            """) as t:
                _, lines = self.watch(t.pid, 60, 3)
                self.assertGreater(len({l.split()[0] for l in lines[:-1]}), 1)

    def test_other_program(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            time.sleep(0.1)
            rc, lines = self.watch(p.pid)
            self.assertEqual(rc, 1)
            self.assertIn("no Python", lines[0])
        finally:
            p.kill()
            p.wait()

    def test_exec_and_exit_end_the_watch(self):
        for how in ("os.execv('/bin/sleep', ['sleep', '1000'])", "os._exit(0)"):
            with self.subTest(how=how), Target(f"""
                import os, sys
                print("ready", flush=True)
                sys.stdin.readline()
                {how}
            """) as t:
                p = subprocess.Popen([POSITION_PROBE, str(t.pid), "1000", "10"], stdout=subprocess.PIPE, text=True)
                time.sleep(0.2)
                t.process.stdin.write("\n")
                t.process.stdin.flush()
                out, _ = p.communicate(timeout=20)
                self.assertEqual(p.returncode, 1)
                self.assertIn("error", out.splitlines()[-1])

    def test_cost(self):
        with open(POSITION_PROBE, "rb") as f:
            if b"__asan_init" in f.read():
                self.skipTest("AddressSanitizer keeps freed memory")
        with Target("""
            import time
            def deep(n):
                if n: return sorted([n], key=lambda x: deep(n - 1))
                time.sleep(1000)
            print("ready", flush=True)
            deep(30)
        """) as t:
            _, few = self.watch(t.pid, 100, 0)
            _, many = self.watch(t.pid, 2100, 0)
            few_us, few_kib = map(int, few[-1].split()[1:])
            many_us, many_kib = map(int, many[-1].split()[1:])
            self.assertLess((many_us - few_us) / 2000, 1000)  # microseconds a read
            self.assertLess(many_kib - few_kib, 1024)         # does not grow


if __name__ == "__main__":
    unittest.main()
