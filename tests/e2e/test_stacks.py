"""xpurun stacks on live processes: the choice of processes, every output format, and the messages for processes
that cannot be dumped."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from stackdump_live import Target

PROGRAM = os.environ["XPURUN_PROGRAM"]

CODE = """
import threading, time

class Worker:
    def serve(self, batch=17, api_token="do-not-show-this"):
        time.sleep(1000)

def callback(x):
    Worker().serve()
    return x

threading.Thread(target=lambda: sorted([1, 2], key=callback), name="Wörker", daemon=True).start()
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

def spin():
    n = 0
    while True:
        n += 1
        if n % 3 == 0:
            n += 2

threading.Thread(target=spin, name="spin", daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


def xpurun(*args, **kwargs):
    if {"-p", "--pid", "--pid-file"} & set(args):
        args = ("--deadline", "10s", *args)  # a busy machine shall cost time, not frames
    return subprocess.run([PROGRAM, "stacks", *map(str, args)], capture_output=True, timeout=60, **kwargs)


def text_of(result):
    return result.stdout.decode()


def proto_fields(data):
    """{field: [values]} of a protobuf message: numbers, or bytes."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            assert tag & 7 == 2, tag
            size = varint()
            value = data[at:at + size]
            at += size
        out.setdefault(tag >> 3, []).append(value)
    return out


def packed(data):
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            out.append(value)
            value = shift = 0
    return out


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = Target(CODE)
        cls.pid = cls.target.pid
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-stacks-"))

    @classmethod
    def tearDownClass(cls):
        cls.target.__exit__()
        shutil.rmtree(cls.dir)

    def test_text_for_people(self):
        text = text_of(xpurun("--pid", self.pid))
        self.assertTrue(text.startswith(f"Process {self.pid}: "))
        self.assertIn(self.target.script, text.splitlines()[0])
        self.assertIn("4 threads, stopped for", text)
        self.assertRegex(text, rf'Thread {self.pid} ".*".*, main: \w+\n')
        self.assertRegex(text, r"\n    spin \(target.py:\d+\)")
        self.assertLess(text.index("serve (target.py"), text.index("callback (target.py"))
        self.assertRegex(text, r"    clock_nanosleep \(\S+\)\n")
        only = text_of(xpurun("--pid", self.pid, "--view", "python"))
        self.assertNotIn("libc.so.6", only)
        self.assertIn("callback", only)
        native = text_of(xpurun("--pid", self.pid, "--view", "native"))
        self.assertIn("_PyEval_EvalFrameDefault", native)
        self.assertNotIn("target.py:", native)

    def test_locals_only_on_request_and_without_secrets(self):
        for view in ("text", "json", "html", "pyspy"):
            plain = text_of(xpurun("--pid", self.pid, "--format", view))
            asked = text_of(xpurun("--pid", self.pid, "--format", view, "--locals"))
            for text in (plain, asked):
                self.assertNotIn("do-not-show-this", text, view)
            self.assertNotIn("api_token", plain, view)
            self.assertEqual("api_token" in asked, view in ("text", "json", "pyspy"), view)
        text = text_of(xpurun("--pid", self.pid, "--locals"))
        self.assertIn("api_token = ****", text)
        self.assertIn("batch = 17", text)

    def test_samples_tell_stuck_from_moving(self):
        done = xpurun("--pid", self.pid, "--samples", "8", "--interval", "20ms", "--format", "json")
        (process,) = json.loads(done.stdout)["processes"]
        motion = {f["func"]: t["motion"] for t in process["threads"] for f in t["frames"] if f["kind"] == "python"}
        self.assertEqual(motion["Worker.serve" if "Worker.serve" in motion else "serve"], "stuck")
        self.assertEqual(motion["<module>"], "stuck")
        self.assertEqual(motion["spin"], "moving")
        text = text_of(xpurun("--pid", self.pid, "--samples", "3", "--interval", "30ms"))
        self.assertRegex(text, r"main: \w+, stuck\n")
        once = json.loads(xpurun("--pid", self.pid, "--format", "json").stdout)
        self.assertNotIn("motion", once["processes"][0]["threads"][0])

    def test_speedscope(self):
        data = json.loads(xpurun("--pid", self.pid, "--format", "speedscope").stdout)
        self.assertEqual(data["$schema"], "https://www.speedscope.app/file-format-schema.json")
        self.assertEqual(len(data["profiles"]), 4)
        frames = data["shared"]["frames"]
        for frame in frames:
            self.assertIsInstance(frame["name"], str)
            self.assertLessEqual(set(frame), {"name", "file", "line", "col"})
            self.assertNotRegex(frame["name"], r" \(\S+:\d+\)$")
        for profile in data["profiles"]:
            self.assertEqual(profile["type"], "sampled")
            self.assertEqual(set(profile), {"type", "name", "unit", "startValue", "endValue", "samples", "weights"})
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["endValue"] - profile["startValue"], sum(profile["weights"]))
            self.assertTrue(all(0 <= i < len(frames) for sample in profile["samples"] for i in sample))
        names = [[frames[i]["name"] for i in p["samples"][0]] for p in data["profiles"]]
        main = next(n for n in names if "<module>" in n)
        self.assertLess(main.index("<module>"), [i for i, n in enumerate(main) if n.endswith("wait")][-1])

    def test_pprof(self):
        out = self.dir / "now.pb.gz"
        self.assertEqual(xpurun("--pid", self.pid, "--out", out).returncode, 0)
        profile = proto_fields(gzip.decompress(out.read_bytes()))
        strings = [s.decode() for s in profile[6]]
        self.assertEqual(strings[0], "")
        functions = {f[1][0]: strings[f[2][0]] for f in map(proto_fields, profile[5])}
        locations = {}
        for location in map(proto_fields, profile[4]):
            line = proto_fields(location[4][0])
            locations[location[1][0]] = (functions[line[1][0]], line.get(2, [0])[0])
        # The place is in fields of its own, so that a function adds up. pprof demangles a name that equals the
        # system's.
        for function in map(proto_fields, profile[5]):
            name = strings[function[2][0]]
            self.assertNotRegex(name, r" \(\S+\)$")
            self.assertNotEqual(strings[function.get(3, [0])[0]], name)
        pairs = [(strings[f[2][0]], f.get(4)) for f in map(proto_fields, profile[5])]
        self.assertEqual(len(pairs), len(set(map(str, pairs))))
        mappings = {m[1][0]: strings[m[5][0]] for m in map(proto_fields, profile[3])}
        self.assertIn("libc.so.6", [path.rsplit("/", 1)[-1] for path in mappings.values()])
        used = [location for location in map(proto_fields, profile[4]) if 2 in location]
        self.assertTrue(used)
        for location in used:
            self.assertIn(location[2][0], mappings)
            self.assertGreater(location[3][0], 0)
        self.assertEqual(len(profile[2]), 4)
        stacks, labels = [], []
        for sample in map(proto_fields, profile[2]):
            self.assertEqual(packed(sample[2][0]), [1])
            stacks.append([locations[i] for i in packed(sample[1][0])])
            labels.append({strings[f[1][0]]: strings[f[2][0]] for f in map(proto_fields, sample[3])})
        self.assertEqual({label["pid"] for label in labels}, {str(self.pid)})
        self.assertEqual(sum(label["thread"] == "MainThread" for label in labels), 1)
        worker = next(s for s in stacks if any(n.endswith("serve") for n, _ in s))
        names = [n for n, _ in worker]
        self.assertLess(names.index(next(n for n in names if n.endswith("serve"))), names.index("callback"))
        self.assertIn(("callback", CODE.splitlines().index("    Worker().serve()") + 1), worker)
        type_ = proto_fields(profile[1][0])
        self.assertEqual((strings[type_[1][0]], strings[type_[2][0]]), ("threads", "count"))

    def test_files_and_directories(self):
        svg = self.dir / "x.svg"
        self.assertEqual(xpurun("-p", self.pid, "-o", svg).stdout, b"")
        self.assertIn("<svg", svg.read_text()[:200])
        out = self.dir / "kept"
        xpurun("-p", self.pid, "-o", out, "-q")
        (dump,) = out.glob("*.stacks.json")
        self.assertEqual(json.loads(dump.read_text())["pid"], self.pid)
        self.assertTrue((out / "merged.svg").exists())
        again = xpurun("--format", "text", out)
        self.assertIn("callback (target.py", text_of(again))
        for name in ("tree", "json", "pyspy", "folded", "speedscope", "svg", "html"):
            with self.subTest(format=name):
                live, dead = xpurun("-p", self.pid, "--format", name), xpurun(out, "--format", name)
                self.assertEqual((live.returncode, dead.returncode), (0, 0))
                self.assertIn(b"callback", live.stdout)
                self.assertIn(b"callback", dead.stdout)
        (out / "from-another-host").mkdir()
        (out / "from-another-host" / "rank-9.json").write_text('[{"pid":1,"frames":[{"name":')
        done = xpurun(out, "--format", "html")
        page = text_of(done)
        self.assertRegex(page, r"<title>Stacks of [^<]* – xpurun</title>")
        self.assertIn(b"rank-9.json", done.stderr)
        self.assertIn("rank-9.json", page.split('id="findings"')[1].split("</section>")[0])
        for word in ("Running", "Ran for", 'href="#environment"', "report.json", 'href="stacks/merged.svg"'):
            self.assertNotIn(word, page.split("<style>")[0] + page.split("</style>")[1].split("<script")[0])
        folded = text_of(xpurun("-p", self.pid, "--format", "folded", "--view", "python"))
        self.assertRegex(folded, r"(?m)^other/[^;]+;.*callback \(target.py:\d+\);(Worker\.)?serve \(target.py:\d+\) 1$")

    def test_a_process_that_is_no_job(self):
        tree = text_of(xpurun("--pid", self.pid, "--format", "tree"))
        self.assertTrue(tree.startswith(f"Stacks of process {self.pid}: "), tree[:100])
        self.assertRegex(tree, r"\A[^\n]*\n\nmain, outermost frame first\n1 process\n")
        for word in ("Ranks by", "other: "):
            self.assertNotIn(word, tree)
        svg = text_of(xpurun("--pid", self.pid, "--format", "svg"))
        self.assertIn('data-colors="frames"', svg)
        self.assertIn(">Threads of the process<", svg)
        self.assertNotIn("Launcher", svg)
        self.assertLess(svg.index(">main<"), svg.index(">spin<"))
        page = text_of(xpurun("--pid", self.pid, "--format", "html"))
        self.assertIn("colour says Python or native", page)
        self.assertIn("1 process, complete", page)

    def test_snapshots_are_resolved_again(self):
        out = self.dir / "snapshots"
        self.assertEqual(xpurun("-p", self.pid, "-o", out, "--snapshots", "-q").returncode, 0)
        (snapshot,) = out.glob("*.snapshot")

        def frames(*args):
            data = json.loads(xpurun("--format", "json", *args).stdout)["processes"][0]
            return {t["tid"]: [f["func"] for f in t["frames"]] for t in data["threads"]}

        at_once = frames(out)
        self.assertIn("callback", str(at_once))
        self.assertEqual(frames(snapshot), at_once)
        self.assertEqual(frames("--sysroot", "/", out), at_once)
        # On a host without these files nothing is lost: the snapshot also has the frames resolved at the dump.
        self.assertEqual(frames("--sysroot", self.dir, out), at_once)
        nothing = xpurun("--symbols", "/", self.dir / "none-here")
        self.assertEqual(nothing.returncode, 1)
        for wrong in (["-p", self.pid, "--snapshots"], ["-p", self.pid, "--sysroot", "/"],
                      ["--unwinder", "gdb", out], ["--gpu-stacks", "auto", out]):
            self.assertEqual(xpurun(*wrong).returncode, 2, wrong)

    def test_an_interrupt_leaves_nothing_behind(self):
        place = self.dir / "interrupted"
        place.mkdir()
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([PROGRAM, "stacks", "-p", str(self.pid), "--samples", "100", "--interval", "500ms"],
                                  env=os.environ | {"TMPDIR": str(place)}, stdout=subprocess.DEVNULL) as p:
                limit = time.monotonic() + 20
                while not list(place.glob("xpurun-stacks*/*")) and time.monotonic() < limit:
                    time.sleep(0.02)
                self.assertNotEqual(list(place.iterdir()), [])
                p.send_signal(number)
                self.assertEqual(p.wait(20), -number)
            self.assertEqual(list(place.iterdir()), [])

    def test_a_reader_that_is_gone_leaves_nothing_behind(self):
        with Target(CODE) as target, tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "TMPDIR": folder}
            read_end, write_end = os.pipe()
            os.close(read_end)
            done = subprocess.run(
                [PROGRAM, "stacks", "--pid", str(target.pid)],
                stdout=write_end,
                timeout=60,
                env=env,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
            )
            os.close(write_end)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))
            self.assertEqual(os.listdir(folder), [])
            # The next run removes the files left by SIGKILL.
            os.mkdir(os.path.join(folder, "xpurun-stacks-abc123"), 0o700)
            self.assertEqual(xpurun("--pid", target.pid, env=env).returncode, 0)
            self.assertEqual(os.listdir(folder), [])

    def test_no_stop(self):
        kinds = []
        # On a busy machine a thread that the previous dump stopped may not have resumed its wait yet.
        limit = time.monotonic() + 20
        while "native" not in kinds and time.monotonic() < limit:
            data = json.loads(xpurun("-p", self.pid, "--no-stop", "--format", "json").stdout)["processes"][0]
            self.assertEqual((data["method"], data["pause_ns"]), ("no-stop", 0))
            main = next(t for t in data["threads"] if t["main"])
            kinds = [f["kind"] for f in main["frames"]]
            self.assertIn("python", kinds)
        self.assertIn("native", kinds)

    def test_an_option_that_the_helper_refuses_surfaces(self):
        done = xpurun("-p", self.pid, "--deadline", "1000h")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"--deadline-ms", done.stderr)


class Trees(unittest.TestCase):
    def test_children_and_pid_files(self):
        code = """
            import os, sys, time
            if os.fork() == 0:
                if os.fork() == 0:
                    def grandchild(): time.sleep(15)
                    grandchild()
                    os._exit(0)
                def child(): time.sleep(15)
                child()
                os._exit(0)
            time.sleep(0.3)
            print("ready", flush=True)
            def parent(): sys.stdin.read()
            parent()
        """
        with Target(code) as target, tempfile.TemporaryDirectory() as folder:
            pids = os.path.join(folder, "pids")
            with open(pids, "w") as f:
                f.write(f"{target.pid}\n")
            done = xpurun("--pid-file", pids, "--children")
            text = text_of(done)
            self.assertEqual(done.returncode, 0)
            for name in ("parent", "child", "grandchild"):
                self.assertRegex(text, rf"    {name} \(target.py")
            self.assertEqual(text.count("Process "), 3)
            alone = text_of(xpurun("--pid-file", pids))
            self.assertNotIn("child (", alone)
            for pid in set(re.findall(r"(?m)^Process (\d+):", text)) - {str(target.pid)}:
                os.kill(int(pid), signal.SIGKILL)

    def test_a_zombie_child_is_no_failure(self):
        code = """
            import os, sys
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            print(child, flush=True)
            sys.stdin.read()
        """
        with Target(code) as target:
            done = xpurun("--pid", target.pid, "--children")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(text_of(done).count("Process "), 1)
            # An ended process given by pid is still an error.
            self.assertEqual(xpurun("--pid", f"{target.pid},{target.first_line}", "--children").returncode, 1)

    def test_ranks_of_two_jobs_and_their_workers(self):
        code = """
            import os, time
            pid = os.fork()
            if pid == 0:
                time.sleep(1000)
            print(pid, flush=True)
            time.sleep(1000)
        """
        env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
        with Target(code, env=env) as one, Target(code, env=env) as two:
            data = json.loads(xpurun("--pid", f"{one.pid},{two.pid}", "--children", "--format", "json").stdout)
            roles = sorted((p["role"], p["rank"]) for p in data["processes"])
            self.assertEqual(roles, [("rank", 3), ("rank", 3), ("worker", 3), ("worker", 3)])
            stops = [p["mono_ns"] for p in data["processes"]]
            self.assertLess((max(stops) - min(stops)) / 1e6, 1000)
            for target in (one, two):
                os.kill(int(target.first_line), signal.SIGKILL)


class RunDirectory(unittest.TestCase):
    """Files of other tools in the directory."""

    def test_no_link_is_followed_for_output_and_no_fifo_waited_for(self):
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)") as target, \
                tempfile.TemporaryDirectory() as folder:
            run, elsewhere = pathlib.Path(folder, "run"), pathlib.Path(folder, "elsewhere")
            self.assertEqual(xpurun("--pid", target.pid, "--quiet", "--out", run).returncode, 0)
            elsewhere.mkdir()
            (run / "stacks").symlink_to(elsewhere)
            refused = xpurun(run)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(b"symbolic link", refused.stderr)
            self.assertEqual(list(elsewhere.iterdir()), [])
            (run / "stacks").unlink()
            os.mkfifo(run / "rank-7.stacks.json")
            done = xpurun(run)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"not a regular file", done.stderr)
            self.assertTrue((run / "stacks" / "merged.svg").exists())
            os.mkfifo(run / "run.json")
            report = subprocess.run([PROGRAM, "report", str(run)], capture_output=True, timeout=60)
            self.assertEqual(report.returncode, 1)
            self.assertIn(b"not a regular file", report.stderr)


class Refused(unittest.TestCase):
    """A clear reason and a remedy for the failed process, stacks for the others, and an exit status."""

    def check(self, pid, *words, program=(), **kwargs):
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)") as good:
            done = subprocess.run([*program, PROGRAM, "stacks", "--pid", f"{pid},{good.pid}"], capture_output=True,
                                  timeout=60, **kwargs)
            self.assertEqual(done.returncode, 1, done.stderr)
            errors = done.stderr.decode()
            self.assertIn(str(pid), errors)
            for word in words:
                self.assertIn(word, errors)
            return errors, done.stdout.decode(), good.pid

    def test_missing(self):
        _, text, good = self.check(2 ** 22 - 7, "no such process", "E-NO-PROCESS", "try: ")
        self.assertIn(f"Process {good}: ", text)
        self.assertIn("<module> (target.py:3)", text)
        self.assertIn("no stacks", text)

    def test_zombie(self):
        zombie = subprocess.Popen(["true"])
        time.sleep(0.3)
        _, text, _ = self.check(zombie.pid, "zombie")
        self.assertIn("<module> (target.py:3)", text)
        zombie.wait()

    def test_kernel_thread(self):
        if os.geteuid() != 0 or pathlib.Path("/proc/2/comm").read_text().strip() != "kthreadd":
            self.skipTest("sees no kernel threads")
        self.check(2, "kernel thread")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_process_of_another_user(self):
        with Target("import time\nprint('ready', flush=True)\ntime.sleep(1000)") as root:
            nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            readable = subprocess.run([*nobody, "test", "-x", PROGRAM], check=False).returncode == 0
            if not readable:
                self.skipTest("nobody may not run the program")
            done = subprocess.run([*nobody, PROGRAM, "stacks", "--pid", str(root.pid)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("belongs to user 0, xpurun runs as user 65534", done.stderr)
            self.assertIn("try: run as that user or as root", done.stderr)

    def test_wrong_usage(self):
        for args in (["--pid", "x"], ["--pid", "0"], ["--pid-file", "/nonexistent"], ["--pid", "1", "."]):
            self.assertEqual(xpurun(*args).returncode, 2, args)


if __name__ == "__main__":
    unittest.main()
