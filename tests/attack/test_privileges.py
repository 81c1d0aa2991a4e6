"""Cases 18 to 22: other users, missing capabilities, processes that may not be read, seccomp, namespaces."""

import os
import shutil
import subprocess

import attack
import lane
from attack import HANG, PROGRAM, PYTHON, as_nobody

# Refuses the system calls of argv[1] (numbers, commas) with EPERM, then becomes the rest of argv.
SECCOMP = r"""
import ctypes, os, struct, sys
code = [struct.pack("HBBI", 0x20, 0, 0, 0)]
for number in map(int, sys.argv[1].split(",")):
    code += [struct.pack("HBBI", 0x15, 0, 1, number), struct.pack("HBBI", 6, 0, 0, 0x00050001)]
code.append(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(b"".join(code))
class Fprog(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Fprog(len(code), ctypes.addressof(program))), 0, 0) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""
X86_64 = {"ptrace": 101, "process_vm_readv": 310, "pidfd_open": 434, "clone3": 435, "socket": 41, "signalfd4": 289}
DUMPABLE_OFF = "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + HANG


class Users(attack.Case):
    def test_case_18_nobody_without_capabilities(self):
        self.open_to_all()
        result = self.hang(12, env=self.rank_env(HOME="/tmp"), preexec_fn=as_nobody())
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")
        self.assertIn("stuck", self.first_stall()["where"]["function"])

    def test_case_18_root_without_ptrace(self):
        attack.need_root()
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        argv = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace",
                *self.command("--hang-timeout", "1", "--", PYTHON, "-c", HANG, "12")]
        result = self.run_hang(argv)
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_19_not_dumpable_as_root(self):
        attack.need_root()
        result = self.run_hang(self.command("--hang-timeout", "1", "--", PYTHON, "-c", DUMPABLE_OFF, "12"))
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assertIn("stuck", self.first_stall()["where"]["function"])

    def test_case_19_not_dumpable_as_nobody_names_no_stale_place(self):
        self.open_to_all()
        result = self.run_xpurun(
            "--hang-timeout",
            "1",
            "--",
            PYTHON,
            "-c",
            DUMPABLE_OFF,
            "4",
            env=self.rank_env(HOME="/tmp"),
            preexec_fn=as_nobody(),
        )
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assertNotIn("importlib", result.stderr)
        for stall in self.manifest()["stalls"]:
            self.assertNotIn("importlib", stall["verdict"]["sentence"])

    def test_case_20_stacks_of_another_users_process(self):
        self.open_to_all()
        target = self.python("import time; print('up', flush=True); time.sleep(100)")
        result = self.stacks("--pid", target.pid, preexec_fn=as_nobody())
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(str(target.pid), result.stderr)
        self.assertIn("root", result.stderr)

    def test_case_20_a_child_that_changes_its_user(self):
        attack.need_root()
        code = "import os\nos.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)\n" + HANG
        result = self.run_hang(self.command("--hang-timeout", "1", "--", PYTHON, "-c", code, "12"))
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")


class StrangersFiles(attack.Case):
    """Case 74: configuration files that are another user's, or that cannot be read."""

    KILLS = "hang-timeout = 1s\non-hang = kill\n"
    JOB = ("--", PYTHON, "-c", "import time; time.sleep(4); print('job done')")

    def setUp(self):
        super().setUp()
        attack.need_root()
        self.conf = self.dir / "xpurun.conf"
        self.conf.write_text(self.KILLS)

    def test_case_74_a_strangers_file_ends_no_job(self):
        os.chown(self.conf, 65534, 65534)
        result = self.run_xpurun(*self.JOB)
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assertIn("xpurun: warning: xpurun.conf is ignored: it belongs to another user, 65534; to use it: "
                      "--config xpurun.conf", result.stderr)

    def test_case_74_who_may_write_decides(self):
        def used(**env):
            text = self.run_xpurun("--print-config", out=False, env=self.env(**env)).stdout
            return "xpurun.conf" in text

        self.assertTrue(used())
        for mode, uid, gid, expected in ((0o666, 0, 0, False), (0o664, 0, 100, False), (0o664, 0, 0, True),
                                         (0o644, 65534, 0, False)):
            with self.subTest(mode=oct(mode), uid=uid, gid=gid):
                os.chown(self.conf, uid, gid)
                self.conf.chmod(mode)
                self.assertEqual(used(), expected)
        # As git: the user that has become root for this command.
        self.assertTrue(used(SUDO_UID="65534"))
        self.assertTrue(used(XPURUN_CONFIG="xpurun.conf"))
        # A link of a stranger to a file of the user.
        os.chown(self.conf, 0, 0)
        self.conf.rename(self.dir / "other.conf")
        self.conf.symlink_to("other.conf")
        self.assertTrue(used())
        os.lchown(self.conf, 65534, 65534)
        self.assertFalse(used())

    def test_case_74_a_file_that_cannot_be_read_starts_the_job(self):
        self.open_to_all()
        self.conf.unlink()
        home = self.dir / "home-of-root"
        (home / ".config" / "xpurun").mkdir(parents=True)
        (home / ".config").chmod(0o700)
        result = self.run_xpurun("--", "echo", "started", env=self.env(HOME=home), preexec_fn=as_nobody())
        self.assertEqual((result.stdout, result.returncode), ("started\n", 0), result.stderr)
        self.assertIn("xpurun.conf is ignored: it cannot be read", result.stderr)

    def test_case_74_a_pipe_does_not_keep_the_job_waiting(self):
        self.conf.unlink()
        os.mkfifo(self.conf)
        result = self.run_xpurun("--", "echo", "started", timeout=30)
        self.assertEqual((result.stdout, result.returncode), ("started\n", 0), result.stderr)
        self.assertIn("xpurun.conf is ignored: it is no regular file", result.stderr)

    def test_case_74_a_named_file_must_be_there(self):
        result = self.run_xpurun("--config", "none.conf", "true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("none.conf", result.stderr)


class SharedRuns(attack.Case):
    """Case 75: --share group in a directory of several users."""

    def share(self, runs):
        return self.run_xpurun("--share", "group", "--runs-dir", runs, "--", PYTHON, "-c", "raise KeyError('label')",
                               out=False, env=self.rank_env())

    def test_case_75_the_directory_of_runs_stays_as_it_is(self):
        attack.need_root()
        for mode, gid in ((0o2775, 100), (0o1777, 0), (0o755, 0), (0o700, 0)):
            with self.subTest(mode=oct(mode)):
                runs = self.dir / f"runs-{mode:o}"
                runs.mkdir()
                os.chown(runs, 0, gid)
                runs.chmod(mode)
                result = self.share(runs)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(runs.stat().st_mode & 0o7777, mode)
                run = (runs / "latest").resolve()
                page = run / "report.html"
                self.assertEqual(page.stat().st_mode & 0o777, 0o640)
                self.assertEqual((run.stat().st_gid, page.stat().st_gid), (gid, gid) if mode & 0o2000 else (0, 0))
                self.assertEqual(run.stat().st_mode & 0o777, 0o750)
                self.assertEqual((run / "run.json").stat().st_mode & 0o777, 0o600)
                warning = f"the group cannot enter {runs}; try: chmod g+x {runs}"
                self.assertEqual(warning in result.stderr, mode == 0o700, result.stderr)

    def test_case_75_a_new_directory_of_runs_can_be_entered(self):
        runs = self.dir / "new"
        self.share(runs)
        self.assertEqual(runs.stat().st_mode & 0o777, 0o750)


class Seccomp(attack.Case):
    def setUp(self):
        super().setUp()
        if os.uname().machine != "x86_64":
            self.skipTest("numbers of system calls of x86-64")

    def refused(self, *calls):
        return [PYTHON, "-c", SECCOMP, ",".join(str(X86_64[c]) for c in calls)]

    def test_case_21_a_job_with_seccomp(self):
        result = self.run_hang(
            self.command(
                "--hang-timeout",
                "1",
                "--",
                *self.refused("ptrace", "socket", "process_vm_readv"),
                PYTHON,
                "-c",
                HANG,
                "12"
            )
        )
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")

    def test_case_21_xpurun_with_seccomp(self):
        more = ("pidfd_open", "clone3", "socket") if lane.LONG else ()
        for call in ("ptrace", "process_vm_readv", *more):
            with self.subTest(refused=call):
                out = self.dir / call
                argv = [*self.refused(call), PROGRAM, "--out", out, "--hang-timeout", "1", "--", PYTHON, "-c", HANG,
                        "3" if call == "process_vm_readv" else "10"]
                result = self.run_hang(argv)
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                if call != "process_vm_readv":  # without process_vm_readv the rank is silent
                    self.assert_told(result.stderr, "rank 0")

    def test_case_21_without_signalfd_it_refuses_before_the_job_starts(self):
        argv = [*self.refused("signalfd4"), *self.command("--", "echo", "ran")]
        result = subprocess.run(argv, capture_output=True, text=True, env=self.env(), cwd=self.dir, timeout=30)
        self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
        self.assertIn("xpurun: ", result.stderr)


class Namespaces(attack.Case):
    def test_case_22_jobs_in_namespaces(self):
        for options in (["-U"], ["-p", "-f"], ["-p", "-f", "-m", "-r", "--mount-proc"]):
            with self.subTest(unshare=options):
                if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode != 0:
                    self.skipTest("no namespaces here")
                out = self.dir / "-".join(o.strip("-") for o in options)
                result = self.run_hang(
                    [PROGRAM, "--out", out, "--hang-timeout", "1", "--", "unshare", *options, PYTHON, "-c", HANG, "12"]
                )
                self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
                self.assert_told(result.stderr, "rank 0")

    def test_case_22_xpurun_as_the_first_process_of_a_namespace(self):
        options = ["-p", "-f", "-m", "-r", "--mount-proc"]
        if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces here")
        argv = ["unshare", *options, *self.command("--hang-timeout", "1", "--", PYTHON, "-c", HANG, "12")]
        result = self.run_hang(argv)
        self.assertEqual((result.stdout, result.returncode), ("job done\n", 0), result.stderr)
        self.assert_told(result.stderr, "rank 0")


if __name__ == "__main__":
    attack.main()
