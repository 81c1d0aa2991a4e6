"""The commands for runs and hosts, as a user calls them: doctor, runs, env, version."""

import ctypes
import errno
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import unittest
import unittest.mock

import make_run
import xpurun_test
from xpurun_test import PROGRAM, PYTHON


def forbid_ptrace():
    """A seccomp filter like that of some container runtimes: EPERM for ptrace and process_vm_readv (x86-64)."""
    load_number, jump_if_equal, give_back = 0x20, 0x15, 0x06
    refuse, allow = 0x00050000 | errno.EPERM, 0x7FFF0000
    steps = [(load_number, 0, 0, 0), (jump_if_equal, 2, 0, 101), (jump_if_equal, 1, 0, 310),
             (give_back, 0, 0, allow), (give_back, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    set_seccomp, filter_mode, no_new_privileges = 22, 2, 38
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_seccomp, filter_mode, program, 0, 0):
        os._exit(99)


class Tools(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        (self.dir / "home").mkdir()
        self.clean = {k: v for k, v in self.env().items() if not k.startswith("XPURUN_") or k == "XPURUN_E2E"}
        self.clean |= {"HOME": str(self.dir / "home"), "COLUMNS": "100"}
        self.clean.pop("XDG_CONFIG_HOME", None)
        self.clean.pop("LD_LIBRARY_PATH", None)  # the build's own, with fake vendor libraries for other tests

    def xpurun(self, *args, **env):
        return self.run_xpurun(*args, out=False, env={**self.clean, **env}, stdin=subprocess.DEVNULL)

    def ids(self):
        return [run["id"] for run in json.loads(self.xpurun("runs", "--json").stdout)["runs"]]


class Doctor(Tools):
    def checks(self, *command, **env):
        result = self.xpurun("doctor", "--json", *(["--", *command] if command else []), **env)
        document = json.loads(result.stdout)
        self.assertEqual(document["schema"], "xpurun.doctor/1")
        self.assertEqual(result.returncode, 0 if document["ok"] else 1)
        grades = [check["grade"] for check in document["checks"]]
        self.assertEqual(document["ok"], "fail" not in grades)
        for check in document["checks"]:
            self.assertTrue(check["text"])
            self.assertEqual(bool(check["lost"]), check["grade"] in ("warn", "fail"), check)
        return {check["check"]: check for check in document["checks"]}

    def test_this_host(self):
        checks = self.checks(PYTHON, "train.py")
        for name in ("ptrace", "memory", "preload", "command", "python", "kernel", "disk", "sockets"):
            self.assertIn(checks[name]["grade"], ("ok", "warn"), checks[name])
        self.assertIn("reported from", checks["preload"]["text"])
        for name in ("yama", "seccomp", "cuda", "nccl", "cublas", "container", "nofile", "memlock", "core", "gdb",
                     "cuda-gdb", "shm", "ports", "clock"):
            self.assertIn(name, checks)
        self.assertEqual(list(self.dir.iterdir()), [self.dir / "home"])

    def test_commands_that_cannot_be_reached(self):
        # A static program is an ELF header without a program interpreter.
        static = self.dir / "static"
        static.write_bytes(b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + b"\x02\0\x3e\0\x01\0\0\0" + bytes(40))
        script = self.dir / "script"
        script.write_text(f"#!{static}\n")
        for path in (static, script):
            path.chmod(0o755)
            check = self.checks(path)["command"]
            self.assertEqual(check["grade"], "warn")
            self.assertIn("static", check["text"])
        missing = self.checks("no-such-program")
        self.assertEqual(missing["command"]["grade"], "fail")
        pretender = self.dir / "python3"
        pretender.write_text("#!/bin/sh\nexit 3\n")
        pretender.chmod(0o755)
        check = self.checks(pretender, "x.py")
        self.assertEqual(check["command"]["grade"], "ok")

    def library(self, path, code="", *link):
        """Builds a shared library."""
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path, f"-Wl,-soname,{path.name}",
                        "-Wl,--no-as-needed", *link], input=code, text=True, check=True)
        return path

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_how_torch_is_linked(self):
        site = self.dir / "site"
        (site / "torch").mkdir(parents=True)
        (site / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
        env = {"PYTHONPATH": str(site)}
        without = self.checks(PYTHON, "x.py", **env)["cublas"]
        self.assertEqual(without["grade"], "n/a")
        self.assertIn("without CUDA", without["text"])
        torch = self.library(site / "torch/lib/libtorch_cuda.so")
        checks = self.checks(PYTHON, "x.py", **env)
        self.assertEqual(checks["cublas"]["grade"], "warn")
        self.assertEqual(checks["cublas"]["text"], "torch links cuBLAS statically")
        if "NCCL linked" not in checks["nccl"]["text"]:
            self.assertIn("libnccl", checks["nccl"]["text"])  # the host also has its own NCCL
        libraries = [self.library(self.dir / "lib" / name) for name in ("libcublas.so.12", "libcublasLt.so.12")]
        version = "int ncclGetVersion(int* v) { *v = %d; return 0; }"
        nccl = self.library(site / "nvidia/nccl/lib/libnccl.so.2", version % 22809)
        (nccl.parent.parent / "__init__.py").touch()
        self.library(torch, "", *libraries, nccl)
        checks = self.checks(PYTHON, "x.py", **env)
        self.assertEqual(checks["cublas"]["grade"], "ok")
        self.assertEqual(checks["nccl"]["grade"], "ok")
        self.assertIn("2.28.9", checks["nccl"]["text"])
        self.assertNotIn("triton", checks)
        (site / "triton").mkdir()
        (site / "triton" / "__init__.py").write_text("raise SystemExit('imported')")
        self.assertIn("neither counted nor timed", self.checks(PYTHON, "x.py", **env)["triton"]["text"])
        self.library(nccl, version % 23003)
        self.assertEqual(self.checks(PYTHON, "x.py", **env)["nccl"]["grade"], "warn")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_command_that_belongs_to_another_user(self):
        path = self.dir / "helper"
        shutil.copy("/bin/true", path)
        os.chown(path, 12345, 12345)
        path.chmod(0o4755)
        check = self.checks(path)["command"]
        self.assertEqual(check["grade"], "warn")
        self.assertIn("set-user-id", check["text"])

    def test_under_a_filter_that_forbids_it(self):
        document = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, env=self.clean,
                                             cwd=self.dir, timeout=90, preexec_fn=forbid_ptrace).stdout)
        checks = {check["check"]: check for check in document["checks"]}
        for name in ("ptrace", "memory", "seccomp"):
            self.assertEqual(checks[name]["grade"], "fail", checks[name])
        self.assertIn("SYS_PTRACE", checks["seccomp"]["remedy"])
        self.assertFalse(document["ok"])

    def test_text_and_settings(self):
        (self.dir / "xpurun.conf").write_text("graze = 1\n")
        result = self.xpurun("doctor", COLUMNS="40")
        self.assertEqual(result.returncode, 1)
        self.assertIn("fail  settings\n", result.stdout)
        self.assertIn("did you mean grace?", result.stdout)
        self.assertRegex(result.stdout, r"\n\d+ ok, (\d+ n/a, )?\d+ warn, [1-9] fail\n")


class Source(Tools):
    def test_lines_only_on_request_escaped_and_without_secrets(self):
        script = self.dir / "train.py"
        lines = [""] * 60
        lines[30] = "    batch = load('<b>&', api_key='do-not-show-this')  # a & b"
        script.write_text("\n".join(lines))
        run = self.dir / "run"
        with unittest.mock.patch.object(make_run, "TRAIN", str(script)):
            make_run.make(run, make_run.parse([str(run)]))
        for options, shown in (([], False), (["--source"], True), (["--no-source"], False)):
            self.assertEqual(self.xpurun("report", run, "--quiet", *options).returncode, 0)
            text = "".join((run / name).read_text() for name in ("report.html", "report.json", "verdict.json"))
            self.assertNotIn("do-not-show-this", text)
            self.assertNotIn("'<b>", text.split("</style>")[1].split("<script")[0])
            self.assertEqual("api_key=" in text, shown)
            classes = json.loads((run / "report.json").read_text())["classes"]
            source = [f["source"] for c in classes for f in c["frames"] if "source" in f and f["file"] == str(script)]
            self.assertEqual(source, ["batch = load('<b>&', api_key='****')  # a & b"] if shown else [])
            if shown:
                self.assertIn("&lt;b&gt;&amp;", text)


class Runs(Tools):
    def test_list_show_and_prune(self):
        for code in range(3):
            self.xpurun("--name", f"job{code}", "--grace", "7", "--", "sh", "-c", f"exit {code}")
        ids = self.ids()
        self.assertEqual([run.split("-")[1] for run in ids], ["job2", "job1", "job0"])
        table = self.xpurun("runs", COLUMNS="160").stdout.splitlines()
        self.assertEqual(len(table), 4)
        self.assertIn("exit 2", table[1])
        self.assertIn("VERDICT", table[0])
        narrow = self.xpurun("runs", COLUMNS="80").stdout.splitlines()
        self.assertEqual(len(narrow), 7)
        self.assertTrue(all(len(line) <= 80 for line in narrow))
        self.assertEqual([line[:6] for line in narrow[2::2]], ["  exit", "  exit", "  the "], narrow)
        shown = self.xpurun("runs", "show", ids[1]).stdout
        self.assertIn("option     grace = 7 (command line)", shown)
        self.assertIn("sh -c 'exit 1'", shown)
        elsewhere = self.xpurun("runs", "show", "--runs-dir", "other")
        self.assertEqual(elsewhere.returncode, 1)
        self.assertIn("no run in other [E-NO-RUN]", elsewhere.stderr)
        manifest = json.loads(self.xpurun("runs", "show", "--json").stdout)
        self.assertEqual(manifest["id"], ids[0])
        self.assertIn({"name": "grace", "value": "7", "source": "command line", "typed": "--grace=7"},
                      manifest["options"])

        refused = self.xpurun("runs", "prune", "--keep", "1")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--yes", refused.stderr)
        dry = self.xpurun("runs", "prune", "--keep", "1", "--dry-run")
        self.assertIn("would remove 2 runs", dry.stdout)
        self.assertEqual(len(self.ids()), 3)
        done = self.xpurun("runs", "prune", "--keep", "1", "--yes")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.ids(), ids[:1])
        self.assertEqual(os.readlink(self.dir / "xpurun-runs" / "latest"), ids[0])
        for wrong in (["prune"], ["prune", "--keep", "0"], ["prune", "--max-size", "lots"], ["remove"], ["list", "x"]):
            self.assertEqual(self.xpurun("runs", *wrong).returncode, 2, wrong)

    def test_it_asks_on_a_terminal(self):
        self.xpurun("true")
        for answer, left in ((b"n\n", 1), (b"y\n", 0)):
            master, slave = pty.openpty()
            process = subprocess.Popen([PROGRAM, "runs", "prune", "--max-size", "0"], stdin=slave, cwd=self.dir,
                                       env=self.clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            os.close(slave)
            os.write(master, answer)
            _, err = process.communicate(timeout=30)
            os.close(master)
            self.assertIn(b"remove 1 runs", err)
            self.assertEqual(process.returncode, left)
            self.assertEqual(len(self.ids()), left)

    def test_what_lives_stays(self):
        going = self.start_xpurun("--name", "going", "--", PYTHON, "-c", "import time; time.sleep(60)", out=False,
                                  env=self.clean)
        self.wait_for(lambda: list(self.dir.glob("xpurun-runs/latest/run.json")), "run")
        out = json.loads(self.xpurun("runs", "--json").stdout)["runs"]
        self.assertEqual([(run["outcome"], run["removable"]) for run in out], [("running", False)])
        run = self.dir / "xpurun-runs" / out[0]["id"]
        # Even if run.json says otherwise: the lock decides.
        (run / "saved.json").write_text((run / "run.json").read_text())
        self.assertEqual(self.xpurun("runs", "prune", "--max-size", "0", "--yes").stdout, "nothing to remove\n")
        job = self.wait_for(lambda: json.loads((run / "run.json").read_text())["main_pid"], "the job's pid")
        going.kill()
        going.wait()
        # Immediately, although the writer holds its lock until it notices the end of its supervisor.
        self.assertEqual(json.loads(self.xpurun("runs", "--json").stdout)["runs"][0]["outcome"], "left alone")
        self.assertEqual(self.xpurun("runs", "prune", "--max-size", "0", "--yes").stdout, "nothing to remove\n")
        os.kill(job, 9)
        self.wait_for(lambda: json.loads(self.xpurun("runs", "--json").stdout)["runs"][0]["outcome"] == "killed", "end")
        self.assertIn("removed 1", self.xpurun("runs", "prune", "--max-size", "0", "--yes").stdout)
        self.assertFalse(run.exists())


class EnvAndVersion(Tools):
    def test_env(self):
        (self.dir / "xpurun.conf").write_text("grace = 3\n")
        result = self.xpurun("env", XPURUN_POLL="2", XPURUN_GRAZE="1", XPURUN_TOTALLY_OTHER="1")
        lines = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line}
        self.assertEqual(lines["grace"], ["3", "xpurun.conf"])
        self.assertEqual(lines["poll"], ["2", "XPURUN_POLL"])
        self.assertEqual(lines["hang-timeout"], ["300s", "default"])
        self.assertEqual(lines["xpurun.conf:"], ["read"])
        self.assertEqual(result.stderr.splitlines(), [
            "xpurun: warning: XPURUN_E2E is not known",
            "xpurun: warning: XPURUN_GRAZE is not known; did you mean XPURUN_GRACE?",
            "xpurun: warning: XPURUN_TOTALLY_OTHER is not known"])
        document = json.loads(self.xpurun("env", "--json", XPURUN_POLL="2").stdout)
        self.assertIn({"name": "poll", "value": "2", "source": "XPURUN_POLL", "variable": "XPURUN_POLL"},
                      document["options"])
        self.assertEqual(self.xpurun("env", XPURUN_POLL="soon").returncode, 1)
        program = self.xpurun("env", "A=b", "true")
        self.assertEqual(program.returncode, 2)
        self.assertIn("xpurun -- env", program.stderr)

    def test_version(self):
        text = self.xpurun("version", "--verbose").stdout
        self.assertRegex(text, r"\Axpurun \d+\.\d+\.\d+\n")
        for part in ("library", "dumper", "formats", "libc", "host"):
            self.assertRegex(text, rf"(?m)^{part} ")
        for line in text.splitlines():
            if line.startswith(("program", "library", "dumper")):
                self.assertTrue(pathlib.Path(line.split(maxsplit=1)[1]).exists(), line)
        self.assertEqual(json.loads(self.xpurun("version", "--json").stdout)["schema"], "xpurun.version/1")


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
