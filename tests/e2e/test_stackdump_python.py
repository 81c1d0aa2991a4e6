"""Python frames of a dump, compared with the answers of each interpreter of this machine about itself."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from lane import LONG
from stackdump_live import ANY_PYTHON, Dump, Target, markers, names, need, on_every_python, python_frames, scene


LINE_TABLE_PROBE = os.environ["XPURUN_LINE_TABLE_PROBE"]
EVERY = 1 if LONG else 5  # every n-th module of the standard library
REFERENCE = os.path.join(os.environ["XPURUN_TEST_SOURCE"], "tests/support/line_table_reference.py")


def place(frame):
    return [frame["func"], frame.get("file", "")] + [frame.get(k, 0) for k in
                                                    ("line", "column", "end_line", "end_column")]


class LineTables(unittest.TestCase):
    @on_every_python
    def test_instructions_of_the_standard_library(self, version, path):
        with tempfile.TemporaryDirectory(prefix="xpurun-lines-") as d:
            modules = subprocess.run([path, "-W", "ignore", REFERENCE, f"{d}/tables", str(EVERY)], capture_output=True,
                                     text=True)
            self.assertEqual(modules.returncode, 0, modules.stderr)
            self.assertGreater(int(modules.stdout), 150 / EVERY)
            probe = subprocess.run([LINE_TABLE_PROBE, f"{d}/tables"], capture_output=True, text=True)
        self.assertEqual(probe.returncode, 0, probe.stderr)
        instructions, wrong = map(int, probe.stdout.split())
        self.assertGreater(instructions, 300_000 / EVERY / 2)  # modules differ in length
        self.assertEqual(wrong, 0, f"{version}: {probe.stderr}")


class Scene(unittest.TestCase):
    @on_every_python
    def test_every_thread_stands_where_the_interpreter_says(self, version, path):
        with Target(scene(), path, name="Пример 𝒟/naïve.py") as t:
            told = json.loads(t.first_line)
            d = Dump(t.pid)
        self.assertEqual((d.rc, d.json["status"]), (0, "ok"), d.stderr)
        self.assertEqual(d.json["python_version"], told["version"])
        by_name = {x.get("python_name"): x for x in d.json["threads"]}
        self.assertEqual(set(by_name) - {None},
                         {"MainThread", "naïve", "глубоко", "too 𐐼eep", "loop", "values", "observer"})
        self.assertTrue(by_name["MainThread"]["main"])
        for want in told["threads"]:
            with self.subTest(thread=want["name"]):
                got = by_name[want["name"]]
                frames = [place(f) for f in python_frames(got)]
                if want["name"] == "too 𐐼eep":
                    self.assertEqual(frames, want["frames"][:2048])
                    self.assertIn("[Python frames end here: more frames than are shown]", markers(got))
                else:
                    self.assertEqual(frames, want["frames"])
                    if want["name"] != "глубоко":  # more native frames than are shown
                        self.assertEqual(markers(got), [])
                self.assertNotIn("gil", got)
        # The one without Python.
        plain = [x for x in d.json["threads"] if "python_name" not in x]
        self.assertEqual(len(plain), 1)
        self.assertEqual(python_frames(plain[0]), [])
        self.assertEqual(d.json["interpreters"], [{"id": 0}])


HANDLED = """
    import sys, time
    def read(path):
        raise %s
    def close(done):
        print("ready", flush=True)
        time.sleep(1000)
    def work():
        try:
            read("shard")
        finally:
            close(False)
    def numbers():
        try:
            int("x")
        except ValueError:
            yield 1
    first = next(numbers())
    %s
    work()
"""


class Handled(unittest.TestCase):
    """The exception that a `finally` block is about to pass on, in every version's layout."""

    def handled(self, path, exception, before=""):
        with Target(HANDLED % (exception, before), path) as t:
            self.assertEqual(t.first_line, "ready")
            d = Dump(t.pid)
        self.assertEqual(d.json["status"], "ok", d.stderr)
        return d.main.get("handling")

    @on_every_python
    def test_type_message_and_traceback(self, version, path):
        handling = self.handled(path, "ValueError('record 17 is damaged')")
        self.assertEqual((handling["type"], handling["message"]), ("ValueError", "record 17 is damaged"))
        self.assertEqual([(f["function"], f["line"]) for f in handling["frames"]], [("work", 10), ("read", 4)])
        for exception, message in (("KeyError('label')", "'label'"), ("OSError(2, 'gone')", "(2, 'gone')"),
                                   ("RuntimeError()", ""), ("ValueError(7)", "7")):
            with self.subTest(exception=exception):
                self.assertEqual(self.handled(path, exception)["message"], message)

    def test_an_exception_of_the_program(self):
        handling = self.handled(ANY_PYTHON, "Damaged('кадр 3')", "class Damaged(Exception): pass")
        self.assertEqual((handling["type"], handling["message"]), ("Damaged", "кадр 3"))

    def test_nothing_is_handled(self):
        with Target("""
            import time
            try:
                int("x")
            except ValueError:
                pass
            print("ready", flush=True)
            time.sleep(1000)
        """) as t:
            d = Dump(t.pid)
        self.assertNotIn("handling", d.main)

    def test_secrets_are_masked(self):
        handling = self.handled(ANY_PYTHON, "ValueError('https://u:hunter2hunter2@host/x')")
        self.assertNotIn("hunter2", handling["message"])


TWO_TEXT_SEGMENTS = "int Py_BytesMain(int, char**); int main(int n, char** v) { return Py_BytesMain(n, v); }"


class Builds(unittest.TestCase):
    @on_every_python
    def test_the_evaluation_loop_in_a_text_segment_of_its_own(self, version, path):
        """As in optimised builds: the distance between file and memory differs between segments."""
        for tool in ("gcc", "ar", "objcopy", "readelf"):
            need(tool)
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(path)))
        found = glob.glob(f"{prefix}/lib/python{version}/config-*/libpython{version}.a")
        if not found:
            self.skipTest(f"Python {version} comes without a static library")
        code = """
            import time
            def callback(x):
                print("ready", flush=True)
                time.sleep(1000)
            sorted([1], key=callback)
        """
        with tempfile.TemporaryDirectory(prefix="xpurun-two-") as d:
            def tool(*command):
                done = subprocess.run(command, cwd=d, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            with open(f"{d}/main.c", "w", encoding="utf-8") as f:
                f.write(TWO_TEXT_SEGMENTS)
            tool("ar", "x", found[0], "ceval.o")
            tool("objcopy", "--rename-section", ".text=.text_far", "ceval.o", "far.o")
            tool("gcc", "-no-pie", "-rdynamic", "-o", "python", "main.c", "far.o", found[0], "-Wl,-z,muldefs",
                 "-Wl,--section-start=.text_far=0x10000000", "-lm", "-ldl", "-lutil", "-lpthread", "-lz")
            segments = [
                line for line in tool("readelf", "-lW", "python").splitlines() if re.search("LOAD .* R E ", line)
            ]
            self.assertEqual(len(segments), 2, segments)
            stacks = []
            for program in (f"{d}/python", path):
                with Target(code, program, env=os.environ | {"PYTHONHOME": prefix}) as t:
                    self.assertEqual(t.first_line, "ready")
                    dump = Dump(t.pid)
                self.assertEqual(dump.json["status"], "ok", dump.stderr)
                self.assertEqual(markers(dump.main), [])
                stacks.append(names(dump.main))
        two, usual = stacks
        self.assertIn("callback", usual)
        # The interpreter's own main() jumps to Py_BytesMain and leaves no frame.
        self.assertEqual([n for n in two if n != "main"], [n for n in usual if n != "main"])


SUBINTERPRETERS = """
    import os, sys, threading, time
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    sys.setswitchinterval(1000)
    asleep = "import time\\ndef inside(): time.sleep(1000)\\nlist(map(lambda x: inside(), [1]))"
    r, w = os.pipe()
    spinning = "import os\\nos.write(%d, b'x')\\ndef spin():\\n while True: pass\\nspin()" % w
    def enter(text, made=None):
        interpreters.run_string(made or interpreters.create(), text)
    for i, made in enumerate((None, None, interpreters.create())):
        threading.Thread(target=enter, args=(asleep, made), name="asleep-%d" % i, daemon=True).start()
    time.sleep(0.5)
    print("ready", flush=True)
    threading.Thread(target=enter, args=(spinning,), name="spinning", daemon=True).start()
    os.read(r, 1)
    def outside():
        while True:
            pass
    outside()
"""


class Interpreters(unittest.TestCase):
    @on_every_python
    def test_subinterpreters_and_their_gil(self, version, path):
        with Target(SUBINTERPRETERS, path) as t:
            self.assertEqual(t.first_line, "ready")
            time.sleep(0.5)
            d = Dump(t.pid)
        self.assertEqual(d.json["status"], "ok", d.stderr)
        threads = {x["python_name"]: x for x in d.json["threads"]}
        minor = int(d.json["python_version"].split(".")[1])
        # The last interpreter was made by another thread, which frames without anchors do not show.
        for name in ("asleep-0", "asleep-1", "asleep-2")[:3 if minor >= 11 else 2]:
            short = [f["func"].split(".")[-1] for f in python_frames(threads[name])]
            self.assertEqual(
                short, ["inside", "<lambda>", "<module>", "enter", "run", "_bootstrap_inner", "_bootstrap"]
            )
            self.assertEqual(markers(threads[name]), [])
            self.assertNotIn("gil", threads[name])
            inner, outer = threads[name]["interpreters"]
            self.assertGreater(inner, 0)
            self.assertEqual(outer, 0)
        found = {i["id"]: i for i in d.json["interpreters"]}
        self.assertEqual(found[0]["gil_holder"] in (d.json["pid"], threads["spinning"]["tid"]), True)
        if minor >= 12:  # each interpreter has its own GIL, so both spin
            self.assertEqual(len(found), 5)
            self.assertEqual(found[0]["gil_holder"], d.json["pid"])
            own = threads["spinning"]["interpreters"][0]
            self.assertEqual(found[own]["gil_holder"], threads["spinning"]["tid"])
            self.assertEqual([x.get("gil") for x in (d.main, threads["spinning"])], ["holder", "holder"])
        else:
            states = sorted(x.get("gil", "") for x in (d.main, threads["spinning"]))
            self.assertEqual(states, ["holder", "waiting"])
            self.assertEqual(len({i["gil_holder"] for i in d.json["interpreters"]}), 1)

    @on_every_python
    def test_garbage_collection(self, version, path):
        program = """
            import gc, threading, time
            class Holding:
                def __del__(self):
                    print("ready", flush=True)
                    {0}
            def collect():
                a = Holding()
                a.self = a
                del a
                gc.collect()
            gc.disable()
            threading.Thread(target=collect, name="collector", daemon=True).start()
            time.sleep(1000)
        """
        for label, body in {"with the GIL": "while True: pass", "without": "time.sleep(1000)"}.items():
            with self.subTest(label), Target(program.format(body), path) as t:
                self.assertEqual(t.first_line, "ready")
                d = Dump(t.pid)
                collector = next(x for x in d.json["threads"] if x["python_name"] == "collector")
                self.assertEqual([i.get("gc") for i in d.json["interpreters"]], [True])
                self.assertNotIn("gc", d.main)
                if label == "with the GIL" or "pyenv" in path:  # else its functions have no names
                    self.assertTrue(collector.get("gc"), names(collector))
                self.assertEqual(collector.get("gil"), "holder" if label == "with the GIL" else None)


class Locating(unittest.TestCase):
    """Interpreters without an exported _PyRuntime: the name is corrupted in a copy of the image."""

    PROGRAM = """
        import threading, time
        def here():
            time.sleep(1000)
        threading.Thread(target=here, daemon=True).start()
        print("ready", flush=True)
        time.sleep(1000)
    """

    def hidden(self, path, folder, keep_sections):
        """A command that runs `path` with an interpreter without exported symbols."""
        ask = "import sys; print(sys.base_prefix); print(sys.executable)"
        prefix, exe = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=True).stdout.split("\n")[
            :2
        ]
        program = os.path.join(folder, "trainer")
        shutil.copy(os.path.realpath(exe), program)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        library = re.search(r"(libpython3\.\S+) => (\S+)", linked)
        if library:
            shutil.copy(library.group(2), os.path.join(folder, library.group(1)))
        image = os.path.join(folder, library.group(1)) if library else program
        if keep_sections:
            subprocess.run(["strip", image], check=True)
        with open(image, "r+b") as f:
            data = f.read()
            self.assertIn(b"\0_PyRuntime\0", data)
            f.seek(0)
            # A name with the same hash, so that the image still finds its own symbol.
            f.write(data.replace(b"\0_PyRuntime\0", b"\0_PyRuntinD\0"))
            if not keep_sections:
                f.seek(0x28)
                f.write(bytes(8))  # e_shoff
                f.seek(0x3C)
                f.write(bytes(4))  # e_shnum, e_shstrndx
        return program, {**os.environ, "LD_LIBRARY_PATH": folder, "PYTHONHOME": prefix}

    def check(self, version, path, keep_sections):
        with tempfile.TemporaryDirectory(prefix="xpurun-hidden-") as d:
            program, env = self.hidden(path, d, keep_sections)
            with Target(self.PROGRAM, program, env=env) as t:
                self.assertEqual(t.first_line, "ready")
                d = Dump(t.pid)
        self.assertRegex(d.json["python_version"], r"^3\.\d+\.\d+", f"{version}: {d.json.get('notes')}")
        self.assertEqual(python_frames(d.main)[0]["func"], "<module>")
        self.assertEqual([python_frames(x)[0]["func"] for x in d.json["threads"] if not x["main"]], ["here"])

    @on_every_python
    def test_nothing_exported_and_no_sections(self, version, path):
        need("ldd")
        need("strip")
        self.check(version, path, keep_sections=False)

    def test_section(self):
        need("strip")
        self.check("system", ANY_PYTHON, keep_sections=True)


class Tasks(unittest.TestCase):
    SCENE = """
        import asyncio
        async def leaf():
            await asyncio.get_running_loop().create_future()
        async def middle():
            await leaf()
        async def sync_weights(a, b):
            async with a:
                await asyncio.sleep(0.05)
                async with b:
                    pass
        async def refresh_cache(a, b):
            async with b:
                await asyncio.sleep(0.05)
                async with a:
                    pass
        async def follow(task):
            await task
        async def main():
            a, b = asyncio.Lock(), asyncio.Lock()
            deep = asyncio.ensure_future(middle())
            deep.set_name("deep")
            asyncio.get_running_loop().call_later(0.3, lambda: print("ready", flush=True))
            await asyncio.gather(sync_weights(a, b), refresh_cache(a, b), follow(deep))
        asyncio.run(main())
        """

    @on_every_python
    def test_the_chains_of_the_tasks_and_who_awaits_whom(self, version, path):
        with Target(self.SCENE, path) as t:
            self.assertEqual(t.first_line, "ready")
            d = Dump(t.pid)
        tasks = {x["frames"][-1]["func"]: x for x in d.json["tasks"]}
        chains = {name: [f["func"] for f in task["frames"]] for name, task in tasks.items()}
        self.assertEqual(set(chains), {"main", "middle", "sync_weights", "refresh_cache", "follow"})
        self.assertEqual(chains["middle"], ["leaf", "middle"])
        self.assertEqual(tasks["middle"]["name"], "deep")
        self.assertEqual([f["line"] for f in tasks["middle"]["frames"]], [4, 6])
        self.assertEqual(tasks["follow"]["awaits"], tasks["middle"]["id"])
        self.assertEqual(tasks["main"]["object"], "_GatheringFuture")
        self.assertEqual(chains["sync_weights"][-1], "sync_weights")
        self.assertIn("acquire", chains["sync_weights"][0])
        if version.partition(" ")[0] in ("3.11", "3.12", "3.13", "3.14", "3.15"):
            self.assertEqual(tasks["sync_weights"]["awaits"], tasks["refresh_cache"]["id"])
            self.assertEqual(tasks["refresh_cache"]["awaits"], tasks["sync_weights"]["id"])


class Locals(unittest.TestCase):
    @on_every_python
    def test_only_on_request_short_and_without_secrets(self, version, path):
        with Target(scene(), path) as t:
            d = Dump(t.pid)
            self.assertNotIn('"locals"', json.dumps(d.json))
            d = Dump(t.pid, "--locals")
        self.assertNotIn("do-not-show-this", json.dumps(d.json))
        self.assertNotIn("hidden", json.dumps(d.json))
        thread = next(x for x in d.json["threads"] if x.get("python_name") == "values")
        frame = python_frames(thread)[0]
        have = {x["name"]: x["value"] for x in frame["locals"]}
        self.assertEqual(have, {
            "count": "3", "args": "<tuple of 0>", "flag": "True", "options": "<dict of 0>", "number": "42",
            "negative": "-7", "huge": "<int, large>", "real": "1.5", "text": "'täxt\\n'",
            "long_text": "'" + 80 * "x" + "'...", "raw": "b'\\x00raw'", "items": "<list of 7>",
            "pair": "<tuple of 2>", "table": "<dict of 1>", "nothing": "None", "api_token": "****",
            "url": "'https://****@host/path'", "dom": "<Дом>", "closure": "<function>", "unique": "<set of 2>"})
        main = python_frames(d.main)
        first = main[0]["locals"][0]
        self.assertEqual((first["name"], first["value"], first["argument"]), ("self", "<Дом>", True))
        self.assertEqual({x["name"]: x["value"] for x in main[0]["locals"]}["café"], "'naïve'")


if __name__ == "__main__":
    unittest.main()
