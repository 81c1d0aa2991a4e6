"""A process under the preload library lives and dies as without the library; the supervisor gets a notice."""

import dataclasses
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

BUILD = os.environ["XPURUN_TEST_BUILD"]
PRELOAD = f"{BUILD}/preload/libxpurun_preload.so"
VICTIM = f"{BUILD}/tests/preload/preload_victim"
PYTHON = "/usr/bin/python3"

HELLO, CRASH = 1, 2
STACK_OVERFLOW = 2  # flag of a notice
FORMAT = struct.Struct("=IHHIiiiiiQQQQ")


@dataclasses.dataclass
class Notice:
    magic: int
    version: int
    kind: int
    flags: int
    pid: int
    tid: int
    signal: int
    code: int
    sender_pid: int
    address: int
    ucontext: int
    mono_ns: int
    reserved: int


class Supervisor:
    """The supervisor's end of the socket. The test chooses the reaction to a crash: reply, hang_up or stay silent."""

    def __init__(self, path, on_crash="reply"):
        self.path = path
        self.notices = []
        self.on_crash = on_crash
        self.kept = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            data = connection.recv(4096)
            if data == b"stop":
                connection.close()
                return
            notice = Notice(*FORMAT.unpack(data))
            self.notices.append(notice)
            if notice.kind != CRASH or self.on_crash == "hang_up":
                connection.close()
            elif self.on_crash == "reply":
                connection.send(b"\0")
                self.kept.append(connection)
            else:
                self.kept.append(connection)

    def stop(self):
        """Returns after all earlier notices were received."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(self.path)
            last.send(b"stop")
            self.thread.join()
        self.listener.close()
        for connection in self.kept:
            connection.close()

    def of(self, kind):
        return [notice for notice in self.notices if notice.kind == kind]


@dataclasses.dataclass
class Outcome:
    pid: int
    status: int  # raw wait status, core flag included
    output: str
    hellos: list
    crashes: list
    seconds: float


class PreloadTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        # The core flag of a wait status is part of the comparison.
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="xpurun-preload-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.count = 0

    def environment(self, run=None, rank=True):
        env = {name: value for name, value in os.environ.items()
               if name not in ("RANK", "LOCAL_RANK", "LD_PRELOAD", "XPURUN_RUN")}
        if rank:
            env.update(RANK="0", LOCAL_RANK="0")
        if run is not None:
            env.update(LD_PRELOAD=PRELOAD, XPURUN_RUN=run)
        return env

    def finish(self, process, during=None):
        begun = time.monotonic()
        ready = process.stdout.readline()
        if during:
            during(process)
        output = (ready + process.stdout.read()).decode()
        process.stdout.close()
        _, status = os.waitpid(process.pid, 0)
        process.returncode = 0  # reaped
        return status, output, time.monotonic() - begun

    def start(self, argv, env):
        return subprocess.Popen(argv, env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                restore_signals=True)

    def plain(self, argv, during=None):
        status, output, _ = self.finish(self.start(argv, self.environment()), during)
        return status, output

    def preloaded(self, argv, during=None, on_crash="reply", wait_ms=5000, supervisor_pid=999999, rank=True):
        self.count += 1
        path = f"{self.dir}/{self.count}.sock"
        supervisor = Supervisor(path, on_crash)
        env = self.environment(f"1:{supervisor_pid}:{wait_ms}:{path}", rank)
        process = self.start(argv, env)
        status, output, seconds = self.finish(process, during)
        supervisor.stop()
        return Outcome(process.pid, status, output, supervisor.of(HELLO), supervisor.of(CRASH), seconds)

    def assert_same(self, argv, during=None, **kwargs):
        outcome = self.preloaded(argv, during, **kwargs)
        self.assertEqual((outcome.status, outcome.output), self.plain(argv, during), argv)
        return outcome


class Deaths(PreloadTest):
    SYNCHRONOUS = {"null": signal.SIGSEGV, "divide": signal.SIGFPE, "illegal": signal.SIGILL, "bus": signal.SIGBUS}
    SENT = {"raise-segv": signal.SIGSEGV, "raise-abrt": signal.SIGABRT, "raise-bus": signal.SIGBUS,
            "raise-fpe": signal.SIGFPE, "raise-ill": signal.SIGILL, "raise-term": signal.SIGTERM,
            "kill-segv": signal.SIGSEGV, "kill-term": signal.SIGTERM, "queue-fpe": signal.SIGFPE,
            "abort": signal.SIGABRT}

    def check(self, death, number, where):
        outcome = self.assert_same([VICTIM, death, where])
        self.assertEqual(os.WTERMSIG(outcome.status), number)
        self.assertEqual([notice.signal for notice in outcome.crashes], [number])
        notice = outcome.crashes[0]
        self.assertEqual((notice.magic, notice.version, notice.flags), (0x4E525058, 1, 0))
        self.assertEqual(notice.pid, outcome.pid)
        if not death.startswith(("kill", "queue")):  # for these, the kernel picks the thread
            self.assertEqual(notice.tid == outcome.pid, where == "main")
        self.assertNotEqual(notice.ucontext, 0)
        self.assertLess(abs(time.monotonic_ns() - notice.mono_ns), 60e9)
        return notice

    def test_faults_keep_their_status_and_are_reported(self):
        for death, number in self.SYNCHRONOUS.items():
            for where in ("main", "thread"):
                with self.subTest(death=death, where=where):
                    notice = self.check(death, number, where)
                    self.assertGreater(notice.code, 0)
                    self.assertEqual(notice.sender_pid, 0)
                    self.assertEqual(notice.address == 0, death == "null")
                    self.assertFalse(notice.flags & STACK_OVERFLOW)

    def test_sent_signals_keep_their_status_and_are_reported(self):
        for death, number in self.SENT.items():
            for where in ("main", "thread"):
                with self.subTest(death=death, where=where):
                    notice = self.check(death, number, where)
                    self.assertLessEqual(notice.code, 0)
                    self.assertEqual((notice.sender_pid, notice.address), (notice.pid, 0))

    def test_the_status_says_that_a_core_was_dumped_where_it_does_without_us(self):
        if resource.getrlimit(resource.RLIMIT_CORE)[0] == 0:
            self.skipTest("core files are not allowed here")
        status, _ = self.plain([VICTIM, "null", "main"])
        if not os.WCOREDUMP(status):
            self.skipTest("core files go nowhere here")
        for death in ("null", "abort", "raise-bus"):
            self.assertTrue(os.WCOREDUMP(self.preloaded([VICTIM, death, "main"]).status), death)

    def test_stack_overflow_of_the_main_thread_is_reported(self):
        outcome = self.assert_same([VICTIM, "overflow", "main"])
        self.assertEqual([notice.signal for notice in outcome.crashes], [signal.SIGSEGV])
        self.assertTrue(outcome.crashes[0].flags & STACK_OVERFLOW)

    def test_stack_overflow_of_another_thread_dies_as_it_would(self):
        self.assertEqual(os.WTERMSIG(self.assert_same([VICTIM, "overflow", "thread"]).status), signal.SIGSEGV)

    def test_threads_that_crash_together_make_one_report(self):
        for _ in range(5):
            outcome = self.assert_same([VICTIM, "together", "main"])
            self.assertEqual(len(outcome.crashes), 1)

    def test_signals_that_we_do_not_know_are_left_alone(self):
        outcome = self.assert_same([VICTIM, "raise-usr1", "main"])
        self.assertEqual(outcome.crashes, [])

    def test_a_normal_end_is_not_reported(self):
        outcome = self.assert_same([VICTIM, "exit", "main"])
        self.assertEqual((outcome.status, len(outcome.hellos), outcome.crashes), (0, 1, []))

    def test_a_signal_let_through_by_sigsuspend_still_kills(self):
        outcome = self.assert_same([VICTIM, "suspend", "main", "block-until-suspend"])
        self.assertEqual([notice.signal for notice in outcome.crashes], [signal.SIGTERM])


class Waiting(PreloadTest):
    def test_a_reply_ends_the_wait(self):
        self.assertLess(self.preloaded([VICTIM, "null", "main"], wait_ms=30000).seconds, 10)

    def test_the_end_of_the_connection_ends_the_wait(self):
        self.assertLess(self.preloaded([VICTIM, "null", "main"], wait_ms=30000, on_crash="hang_up").seconds, 10)

    def test_a_silent_supervisor_costs_the_crash_wait_and_no_more(self):
        outcome = self.assert_same([VICTIM, "null", "main"], wait_ms=700, on_crash="silent")
        self.assertGreater(outcome.seconds, 0.69)
        self.assertLess(outcome.seconds, 5)

    def test_without_a_supervisor_nobody_waits(self):
        env = self.environment(f"1:999999:30000:{self.dir}/nobody.sock")
        status, _, seconds = self.finish(self.start([VICTIM, "null", "main"], env))
        self.assertEqual(os.WTERMSIG(status), signal.SIGSEGV)
        self.assertLess(seconds, 10)

    def test_what_the_supervisor_sends_kills_at_once_and_unreported(self):
        def send(process):
            os.kill(process.pid, signal.SIGTERM)

        outcome = self.preloaded([VICTIM, "hold", "main"], send, on_crash="silent", wait_ms=30000,
                                 supervisor_pid=os.getpid())
        self.assertEqual((os.WTERMSIG(outcome.status), outcome.crashes), (signal.SIGTERM, []))
        self.assertLess(outcome.seconds, 10)

    def test_what_somebody_else_sends_is_reported_with_the_sender(self):
        outcome = self.preloaded([VICTIM, "hold", "main"], lambda process: os.kill(process.pid, signal.SIGTERM))
        self.assertEqual([notice.sender_pid for notice in outcome.crashes], [os.getpid()])

    def test_a_signal_from_the_supervisor_ends_the_wait_of_another(self):
        def send(process):
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and not self.blocks(process.pid, signal.SIGSEGV):
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)

        outcome = self.preloaded([VICTIM, "null", "main"], send, on_crash="silent", wait_ms=30000,
                                 supervisor_pid=os.getpid())
        self.assertEqual(os.WTERMSIG(outcome.status), signal.SIGKILL)
        self.assertLess(outcome.seconds, 10)

    def blocks(self, pid, number):
        with open(f"/proc/{pid}/status") as status:
            mask = next(line for line in status if line.startswith("SigBlk:"))
        return int(mask.split()[1], 16) >> (number - 1) & 1


class Dispositions(PreloadTest):
    def test_every_way_to_ask_says_default(self):
        outcome = self.assert_same([VICTIM, "exit", "main", "query"])
        lines = outcome.output.splitlines()
        self.assertEqual(len(lines), 7)
        for line in lines[:-1]:
            self.assertRegex(line, r"^\d+ default flags=0( default/ignore){5}$")

    def test_ours_stands_behind_the_default_and_only_there(self):
        for setups, kernel in ((["query-kernel"], "000000"), (["ignore", "query-kernel"], "000000"),
                               (["exiting-handler", "default", "query-kernel"], "000000")):
            self.assertIn(kernel, self.preloaded([VICTIM, "exit", "main", *setups]).output)
        self.assertIn("111111", self.plain([VICTIM, "exit", "main", "query-kernel"])[1])

    def test_query_puts_ours_back(self):
        outcome = self.assert_same([VICTIM, "null", "main", "query"])
        self.assertEqual(len(outcome.crashes), 1)

    def test_a_user_handler_is_the_only_one(self):
        outcome = self.assert_same([VICTIM, "null", "main", "exiting-handler"])
        self.assertEqual((os.WEXITSTATUS(outcome.status), outcome.crashes), (7, []))

    def test_a_user_handler_that_restores_the_default_is_still_reported(self):
        for death in ("null", "abort", "raise-term"):
            with self.subTest(death=death):
                outcome = self.assert_same([VICTIM, death, "main", "restoring-handler"])
                self.assertIn("user handler", outcome.output)
                self.assertEqual(len(outcome.crashes), 1)

    def test_ignored_signals_stay_ignored(self):
        for setups in (["ignore"], ["exiting-handler", "ignore"]):
            outcome = self.assert_same([VICTIM, "raise-term", "main", *setups])
            self.assertEqual((outcome.status, outcome.crashes), (0, []))

    def test_a_signal_ignored_by_the_parent_stays_ignored(self):
        argv = ["/bin/sh", "-c", f"trap '' TERM; exec {VICTIM} raise-term main"]
        self.assertEqual(self.assert_same(argv).status, 0)


class Families(PreloadTest):
    def test_parent_and_child_are_reported_each_for_itself(self):
        for death in ("after-fork", "after-vfork"):
            with self.subTest(death=death):
                outcome = self.assert_same([VICTIM, death, "main"])
                self.assertEqual(len(outcome.crashes), 2)
                self.assertNotEqual(outcome.crashes[0].pid, outcome.pid)
                self.assertEqual(outcome.crashes[1].pid, outcome.pid)

    def test_a_child_ended_by_its_parent_is_nobodys_business(self):
        outcome = self.assert_same([VICTIM, "end-child", "main"], on_crash="silent", wait_ms=30000)
        self.assertEqual(outcome.crashes, [])
        self.assertLess(outcome.seconds, 10)


class Python(PreloadTest):
    def python(self, source):
        return [PYTHON, "-c", "print('ready', flush=True)\n" + source]

    def test_python_is_python_without_a_rank(self):
        outcome = self.preloaded(self.python("import os; os.abort()"), rank=False)
        self.assertEqual([notice.flags for notice in outcome.hellos + outcome.crashes], [1, 1])
        self.assertEqual(os.WTERMSIG(outcome.status), signal.SIGABRT)

    def test_getsignal_says_default(self):
        outcome = self.assert_same(self.python(
            "import signal\n"
            "for s in ('SEGV', 'ABRT', 'BUS', 'FPE', 'ILL', 'TERM'):\n"
            "    n = getattr(signal, 'SIG' + s)\n"
            "    print(repr(signal.getsignal(n)), repr(signal.signal(n, signal.SIG_DFL)))\n"))
        self.assertEqual(outcome.output.count("<Handlers.SIG_DFL: 0> <Handlers.SIG_DFL: 0>"), 6)

    def test_null_pointer_in_c(self):
        outcome = self.assert_same(self.python("import ctypes; ctypes.string_at(0)"))
        self.assertEqual([notice.signal for notice in outcome.crashes], [signal.SIGSEGV])

    def test_faulthandler_writes_and_then_we_report(self):
        for cause in ("faulthandler._sigsegv()", "faulthandler._sigabrt()", "faulthandler._sigfpe()",
                      "faulthandler._stack_overflow()"):
            with self.subTest(cause=cause):
                script = f"{self.dir}/crash.py"
                with open(script, "w") as file:
                    file.write(f"import faulthandler\nprint('ready', flush=True)\nfaulthandler.enable()\n{cause}\n")
                argv = [PYTHON, script]
                outcome = self.preloaded(argv)
                status, output = self.plain(argv)
                self.assertEqual(outcome.status, status)
                # Addresses differ from run to run.
                self.assertEqual(outcome.output.splitlines()[:1], output.splitlines()[:1])
                self.assertIn("Fatal Python error", outcome.output)
                self.assertEqual(len(outcome.crashes), 1, outcome.output)

    def test_faulthandler_can_be_turned_off_again(self):
        outcome = self.assert_same(self.python(
            "import faulthandler, os\nfaulthandler.enable(); faulthandler.disable(); os.abort()"))
        self.assertEqual(len(outcome.crashes), 1)

    def test_a_python_handler_for_sigterm_runs(self):
        outcome = self.assert_same(
            self.python("import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
                        "signal.raise_signal(signal.SIGTERM)"))
        self.assertEqual((os.WEXITSTATUS(outcome.status), outcome.crashes), (3, []))

    def test_terminated_pool_is_quick_and_quiet(self):
        outcome = self.assert_same(self.python(
            "import multiprocessing, time\n"
            "with multiprocessing.get_context('fork').Pool(4) as pool:\n"
            "    print(pool.map(abs, [-1, -2]))\n"), on_crash="silent", wait_ms=30000)
        self.assertEqual((outcome.status, outcome.crashes), (0, []))
        self.assertLess(outcome.seconds, 15)


class Invisible(PreloadTest):
    """Processes that are neither Python nor a rank, or have no valid XPURUN_RUN, are left unchanged."""

    def test_shells_and_coreutils_without_a_rank(self):
        outcome = self.preloaded(["/bin/sh", "-c", "echo ready; /bin/true; kill -SEGV $$"], rank=False)
        self.assertEqual((outcome.hellos, outcome.crashes), ([], []))
        outcome = self.preloaded([VICTIM, "null", "main", "query-kernel"], rank=False)
        self.assertEqual((outcome.hellos, outcome.crashes), ([], []))
        self.assertIn("111111", outcome.output)

    def test_the_shell_around_a_rank(self):
        outcome = self.assert_same(["/bin/sh", "-c", "echo ready; kill -TERM $$"])
        self.assertEqual((outcome.hellos, outcome.crashes), ([], []))

    def test_every_launcher_marks_a_rank(self):
        for name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
            outcome = self.preloaded(["/usr/bin/env", f"{name}=3", VICTIM, "exit", "main"], rank=False)
            self.assertEqual(len(outcome.hellos), 1, name)

    def test_no_descriptor_and_no_thread_is_left(self):
        outcome = self.assert_same([PYTHON, "-c", "import os\nprint(sorted(os.listdir('/proc/self/fd')), "
                                    "os.listdir('/proc/self/task') == [str(os.getpid())])"])
        self.assertIn("True", outcome.output)

    def test_malformed_instructions_switch_it_off(self):
        path = f"{self.dir}/never.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(8)
        listener.setblocking(False)
        argv = [VICTIM, "null", "main", "query-kernel"]
        plain = self.plain(argv)
        for run in ("", "1", f"2:5:1000:{path}", f"1:0:1000:{path}", f"1:-5:1000:{path}", f"1:5::{path}", "1:5:1000:",
                    "1:5:1000:relative.sock", f"1:99999999999:1000:{path}", f"1:5:99999999999:{path}",
                    f" 1:5:1000:{path}", f"1:5:1000:/{'x' * 108}", "1:5:1000", ":::"):
            with self.subTest(run=run):
                status, output, _ = self.finish(self.start(argv, self.environment(run)))
                self.assertEqual((status, output), plain)
                self.assertRaises(BlockingIOError, listener.accept)

    def test_without_instructions_it_is_off(self):
        env = self.environment("unused")
        del env["XPURUN_RUN"]
        argv = [VICTIM, "null", "main", "query-kernel"]
        status, output, _ = self.finish(self.start(argv, env))
        self.assertEqual((status, output), self.plain(argv))

    def test_process_1_of_a_namespace_still_ignores_sigterm(self):
        unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no PID namespaces here")
        outcome = self.preloaded([*unshare, VICTIM, "kill-term", "main"])
        self.assertEqual((outcome.status, outcome.crashes), (0, []))


if __name__ == "__main__":
    unittest.main()
