"""Python's bootstrap under every installed CPython: its reports, and that the program does not notice it."""

import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
LIBRARY = BUILD / "preload" / "libxpurun_preload.so"
OLDEST = (3, 8)
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
NOTICE_BYTES = 64
PYTHON_NOTICE = 4

RAISE = "def collate(batch):\n    return batch['label']\ndef main():\n    collate({})\nmain()\n"
CHAIN = ("def f():\n    try: {}['a']\n    except KeyError as e: raise ValueError('bo\\nom \\u00e4 \\udcff') from e\n"
         "try: f()\nexcept ValueError: 1 / 0\n")
OUT_OF_MEMORY = (
    "import sys, types\nsys.modules['torch'] = torch = types.ModuleType('torch')\n"
    "def blocks(*sizes): return [{'size': n, 'state': 'inactive' if n < 9 else 'active_allocated'} for n in sizes]\n"
    "torch.cuda = types.SimpleNamespace(current_device=lambda: 1, memory_snapshot=lambda: [\n"
    "    {'device': 0, 'blocks': blocks(8)}, {'device': 1, 'blocks': blocks(5, 99, 7)}, {'device': 1, 'blocks': []}])\n"
    "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')\n")
THREAD = "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='feeder')\nt.start(); t.join()\n"
UNRAISABLE = "class A:\n    def __del__(self): 1 / 0\na = A()\ndel a\nprint('on')\n"
USERS_HOOK = "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1 / 0\n"
CHAINED_HOOK = ("import sys\ndef hook(*a):\n    print('mine')\n    sys.__excepthook__(*a)\n"
                "assert sys.excepthook is sys.__excepthook__\nsys.excepthook = hook\n1 / 0\n")
CAUGHT_EXIT = "import sys, traceback\ntry: sys.exit(4)\nexcept SystemExit: traceback.print_exc()\n"
FORK = ("import multiprocessing\nif __name__ == '__main__':\n    multiprocessing.set_start_method('fork')\n"
        "    p = multiprocessing.Process(target=print, args=('child',))\n    p.start(); p.join(); print(p.exitcode)\n")
TRACES = ("import os, sys\nprint(sys.path, sorted(set(sys.modules) - {'atexit'}), os.environ.get('PYTHONPATH'), "
          "sorted(k for k in os.environ if 'PYTHON' in k), sorted(sys.path_importer_cache))\n"
          "import subprocess\n"
          "print(subprocess.run(['/bin/sh', '-c', 'echo $PYTHONPATH'], capture_output=True).stdout)\n")
SUBINTERPRETERS = ("import sys\n"
                   "try: import _interpreters as made\nexcept ImportError: import _xxsubinterpreters as made\n"
                   "for _ in range(2):\n    one = made.create()\n"
                   "    made.run_string(one, 'import os, sys; print(sys.path, sorted(sys.path_importer_cache), "
                   "os.environ.get(\"PYTHONPATH\"), \"sitecustomize\" in sys.modules, sys.exit, os._exit, "
                   "flush=True)')\n"
                   "    made.destroy(one)\n")
# What coverage.py sees: the files whose code runs while the program does, without the standard library and the import
# hook of setuptools.
TRACED = ("import atexit, os, sys\nfiles = set()\n"
          "def trace(frame, event, argument):\n    files.add(frame.f_code.co_filename)\n"
          "def told():\n    sys.settrace(None)\n"
          "    print(sorted(f for f in files if (f[0] != '<' or f == '<string>') and "
          "'_distutils_hack' not in f and not f.startswith(os.path.dirname(os.__file__))))\n"
          "atexit.register(told)\nsys.settrace(trace)\nsys.%s\n")
# Who logs is the first caller outside of logging's file, as handlers that look for it find. A future that somebody
# waits for, and a line that has been told of, are not told of.
CAUGHT = (
    "import concurrent.futures as cf, inspect, logging, sys, threading, traceback\n"
    "class Handler(logging.Handler):\n    def emit(self, record):\n        frame = logging.currentframe()\n"
    "        while frame.f_code.co_filename == logging.__file__: frame = frame.f_back\n"
    "        print(record.funcName, frame.f_code.co_name, inspect.signature(logging.Logger.handle))\n"
    "logging.getLogger().addHandler(Handler())\n"
    "def lost():\n    try: {}['a']\n    except KeyError: logging.exception('lost')\n"
    "for _ in range(3): lost()\n"
    "go = threading.Event()\ndef divide():\n    go.wait()\n    1 / 0\n"
    "pool = cf.ThreadPoolExecutor(1)\nwaited = pool.submit(divide)\n"
    "threading.Timer(0.2, go.set).start()\nprint(type(waited.exception()))\n"
    "kept = pool.submit(int, 'x')\npool.shutdown()\n"
    "try: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc(file=sys.stdout)\n")
FORKED = "import os\nif os.fork() == 0:\n    %s\nprint(os.wait()[1])\n"
# A signal comes in each of five collections, which take 20 ms and more.
SIGNALS_IN_COLLECTIONS = (
    "import gc, os, signal, time\nimport torch\n"
    "assert len(gc.callbacks) == ('LD_PRELOAD' in os.environ), gc.callbacks\n"
    "def late(*_): raise TimeoutError('late')\n"
    "signal.signal(signal.SIGALRM, late)\nindex = [[{}] for i in range(200000)]\ncaught = 0\n"
    "for _ in range(5):\n    try:\n        signal.setitimer(signal.ITIMER_REAL, 0.002)\n        gc.collect()\n"
    "        signal.pause() if signal.getitimer(signal.ITIMER_REAL)[0] else time.sleep(0)\n"
    "    except TimeoutError:\n        caught += 1\nprint(caught)\n")
SHADOWS = "import os\nraise ValueError('x')\n"


def interpreters():
    more = filter(None, os.environ.get("XPURUN_TEST_PYTHONS", "").split(":"))
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    places = [pathlib.Path("/usr/bin/python3"), *sorted(root.glob("versions/3.*/bin/python3"))]
    places += map(pathlib.Path, more)
    found = {}
    for place in places:
        if place.exists():
            text = subprocess.run([place, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True,
                                  text=True, check=True).stdout
            found[str(place)] = tuple(int(n) for n in re.findall(r"\d+", text))
    return {place: version for place, version in found.items() if version >= OLDEST}


class Listener:
    """What the supervisor would hear."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(64)
        self.socket.setblocking(False)

    def records(self):
        out = []
        while True:
            try:
                connection, _ = self.socket.accept()
            except BlockingIOError:
                return out
            message = connection.recv(1 << 17)
            connection.close()
            if int.from_bytes(message[6:8], "little") == PYTHON_NOTICE:
                out.append(json.loads(message[NOTICE_BYTES:]))


class Hooks(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-hooks-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.listener = Listener(self.dir / "socket")
        self.addCleanup(self.listener.socket.close)
        self.names = itertools.count()

    def env(self, **more):
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("XPURUN", "RANK", "LOCAL_RANK", "WORLD", "LD_PRELOAD", "PYTHONPATH"))}
        return {**env, "PYTHONDONTWRITEBYTECODE": "1", **more}

    def both(self, python, *args, **more):
        """Runs bare, then under the library; the output must be the same. Returns the reports."""
        runs = []
        hooked = {"LD_PRELOAD": str(LIBRARY), "XPURUN_RUN": f"1:{os.getpid()}:0:{self.listener.path}"}
        for extra in ({}, hooked):
            run = subprocess.run([python, *map(str, args)], env=self.env(**more, **extra), cwd=self.dir,
                                 capture_output=True, text=True, errors="surrogateescape", timeout=60)
            runs.append((run.returncode, ADDRESS.sub("0x", run.stdout), ADDRESS.sub("0x", run.stderr)))
        self.assertEqual(runs[0], runs[1], python)
        return self.listener.records()

    def script(self, source):
        path = self.dir / f"job{next(self.names)}.py"
        path.write_text(source)
        return path

    @staticmethod
    def each():
        found = interpreters()
        assert found
        for python, version in found.items():
            yield python, version

    def one(self, records):
        self.assertEqual(len(records), 1, records)
        return records[0]

    def test_exception_of_the_main_thread(self):
        path = self.script(RAISE)
        for python, _ in self.each():
            told = self.one(self.both(python, path))
            self.assertEqual((told["kind"], told["thread"]), ("raised", "MainThread"))
            link = self.one(told["chain"])
            self.assertEqual((link["type"], link["message"]), ("KeyError", "'label'"))
            self.assertEqual([(f["line"], f["function"], f["source"]) for f in link["frames"]],
                             [(5, "<module>", "main()"), (4, "main", "collate({})"),
                              (2, "collate", "return batch['label']")])

    def test_what_signal_handlers_raise_in_collections(self):
        """A stand-in for torch, which all these interpreters lack: its import installs the hook on collections."""
        (self.dir / "torch").mkdir()
        (self.dir / "torch" / "__init__.py").write_text("import ctypes\n")
        path = self.script(SIGNALS_IN_COLLECTIONS)
        for python, _ in self.each():
            with self.subTest(python=python):
                self.assertEqual(self.both(python, path), [])

    def test_largest_free_block_of_the_gpu(self):
        path = self.script(OUT_OF_MEMORY)
        for python, _ in self.each():
            link = self.one(self.one(self.both(python, path))["chain"])
            self.assertEqual(link["largest_free"], 7)

    def test_chain_with_characters_that_json_cannot_hold(self):
        for python, _ in self.each():
            told = self.one(self.both(python, "-c", CHAIN))
            self.assertEqual([(link["relation"], link["type"]) for link in told["chain"]],
                             [("", "ZeroDivisionError"), ("context", "ValueError"), ("cause", "KeyError")])
            self.assertEqual(told["chain"][1]["message"], "bo\nom ä ?")

    def test_exception_of_another_thread(self):
        for python, _ in self.each():
            told = self.one(self.both(python, "-c", THREAD))
            self.assertEqual((told["kind"], told["thread"], told["chain"][0]["type"]),
                             ("thread", "feeder", "ZeroDivisionError"))

    def test_unraisable_exception(self):
        for python, _ in self.each():
            told = self.one(self.both(python, "-c", UNRAISABLE))
            self.assertEqual((told["kind"], told["chain"][0]["type"]), ("unraisable", "ZeroDivisionError"))

    def test_hooks_of_the_user_run_after_ours(self):
        for python, _ in self.each():
            for source in (USERS_HOOK, CHAINED_HOOK):
                told = self.one(self.both(python, "-c", source))
                self.assertEqual((told["kind"], told["chain"][0]["type"]), ("raised", "ZeroDivisionError"))

    def test_exceptions_that_were_caught(self):
        path = self.script(CAUGHT)
        for python, _ in self.each():
            told = [(one["kind"], one["chain"][0]["type"]) for one in self.both(python, path)]
            self.assertEqual(told, [("logged", "KeyError"), ("kept", "ValueError"), ("logged", "ZeroDivisionError")],
                             python)

    def test_calls_that_end_the_process(self):
        for python, _ in self.each():
            for source, kind, code, text in (("import sys\nsys.exit('no data')", "sys_exit", 1, "no data"),
                                             ("import sys\nsys.exit(7)", "sys_exit", 7, ""),
                                             ("from os import _exit\n_exit(status=3)", "os_exit", 3, "")):
                told = self.one(self.both(python, "-c", source))
                self.assertEqual((told["kind"], told["code"], told["chain"][0]["message"]), (kind, code, text))
                self.assertEqual(told["chain"][0]["frames"][-1]["line"], 2)
            self.both(python, "-c", "import sys\nsys.exit(1, 2)")
            self.assertEqual(self.one(self.both(python, "-c", CAUGHT_EXIT))["code"], 4)

    def test_ends_that_are_no_errors(self):
        for python, _ in self.each():
            for source in ("pass", "import sys; sys.exit()", "import sys; sys.exit(0)", "import os; os._exit(0)",
                           FORK):
                self.assertEqual(self.both(python, self.script(source)), [], source)
            # Ctrl-C is no error, but the verdict names the interrupted place.
            told = self.one(self.both(python, self.script("raise KeyboardInterrupt")))
            self.assertEqual((told["kind"], told["chain"][0]["type"]), ("raised", "KeyboardInterrupt"))
            # Of a rank the place is of interest all the same: it may have left early.
            told = self.one(self.both(python, "-c", "import sys; sys.exit(0)", RANK="0", LOCAL_RANK="0"))
            self.assertEqual((told["kind"], told["code"]), ("sys_exit", 0))

    def test_exits_of_forked_children(self):
        """A child that a rank forks is no rank: whatever its status, nothing is told."""
        for python, _ in self.each():
            for end in ("os._exit(0)", "os._exit(3)", "import sys; sys.exit(3)"):
                self.assertEqual(self.both(python, "-c", FORKED % end, RANK="0", LOCAL_RANK="0")[:-1], [])
                self.assertEqual(self.both(python, "-c", FORKED % end), [])
            # A launcher that forks its ranks and gives them their variables.
            told = self.one(self.both(python, "-c", FORKED % "os.environ['RANK'] = '1'; os._exit(3)"))
            self.assertEqual((told["kind"], told["code"]), ("os_exit", 3))

    def test_no_file_of_ours_is_measured(self):
        for python, _ in self.each():
            for end, code in (("exit(3)", 3), ("excepthook(ValueError, ValueError('x'), None)", None)):
                told = self.one(self.both(python, "-c", TRACED % end))
                self.assertEqual(told["code"], -1 if code is None else code)

    def test_sub_interpreters(self):
        site = self.dir / "site"
        site.mkdir()
        for python, _ in self.each():
            self.both(python, "-c", SUBINTERPRETERS)
            (site / "sitecustomize.py").write_text("print('mine', __file__, flush=True)")
            self.both(python, "-c", SUBINTERPRETERS, PYTHONPATH=str(site))
            (site / "sitecustomize.py").unlink()

    def test_what_an_exit_was_called_for(self):
        source = "import sys\ntry: {}['a']\nexcept KeyError: sys.exit(1)\n"
        for python, _ in self.each():
            told = self.one(self.both(python, "-c", source))
            self.assertEqual([link["type"] for link in told["chain"]], ["SystemExit", "KeyError"])

    def test_no_trace_is_left(self):
        for python, _ in self.each():
            for path in (None, "", "/nowhere", "/nowhere:/else", ":/nowhere"):
                extra = {} if path is None else {"PYTHONPATH": path}
                self.both(python, "-c", TRACES, **extra)
            self.both(python, "-I", "-c", TRACES, PYTHONPATH="/nowhere")
            self.both(python, "-E", "-c", TRACES, PYTHONPATH="/nowhere")
            self.both(python, "-bs", "-W", "ignore", "-X", "dev", "-S", "-c", TRACES, PYTHONPATH="/nowhere")

    def test_sitecustomize_of_the_user(self):
        site = self.dir / "site"
        site.mkdir()
        own = site / "sitecustomize.py"
        for source in ("print('mine', __name__, __file__)", "1 / 0", "import nothing_like_this"):
            own.write_text(source)
            for python, _ in self.each():
                self.both(python, "-c", "import sys; print('sitecustomize' in sys.modules)", PYTHONPATH=str(site))

    def test_modules_of_the_user_that_are_named_like_ours(self):
        for name in ("json", "socket", "traceback", "struct", "linecache"):
            (self.dir / f"{name}.py").write_text(f"print('{name} has run')\n")
        path = self.script(SHADOWS)
        for python, version in self.each():
            if version < (3, 13):  # whose own traceback printer imports the user's module
                self.assertEqual(self.one(self.both(python, path))["chain"][0]["type"], "ValueError")

    def test_message_of_any_length(self):
        source = "def f(n):\n    if n == 0: raise ValueError('x' * 300000)\n    f(n - 1)\nf(400)\n"
        for python, _ in self.each():
            told = self.one(self.both(python, "-c", source))
            link = told["chain"][0]
            self.assertEqual(len(link["frames"]) + link["left_out"], 402)
            self.assertTrue(link["message"].startswith("xxx") and "[...]" in link["message"])

    def test_nobody_listens(self):
        self.listener.path = str(self.dir / "gone")
        for python, _ in self.each():
            self.both(python, "-c", RAISE)

    def test_switched_off(self):
        for python, _ in self.each():
            self.assertEqual(self.both(python, "-c", RAISE, XPURUN_PYTHON_HOOKS="off"), [])

    def test_programs_that_are_not_python(self):
        self.assertEqual(self.both("/bin/sh", "-c", "echo $PYTHONPATH; set | grep -c XPURUN_PYTHON",
                                   PYTHONPATH="/nowhere"), [])


class Layout(unittest.TestCase):
    def test_of_the_segment(self):
        """The numbers in Python are those of common/wire/python_segment.h."""
        source = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"])
        header = (source / "common/wire/python_segment.h").read_text()
        names = {"settings": {}, "__name__": "xpurun_segment"}
        text = (source / "preload/python/xpurun_segment.py").read_text()
        exec(compile(text, "xpurun_segment.py", "exec"), names)
        for name, constant in (("GROUPS", "kTorchGroups"), ("COLLECTIVES", "kTorchCollectives"),
                               ("OTHERS", "kTorchPointToPoint"), ("SEGMENT_VERSION", "kPythonSegmentVersion"),
                               ("SPANS", "kPythonSpans"), ("PEER_SHIFT", "kPeerShift")):
            self.assertIn(f"{constant} = {names[name]};", header)
        for name, constant in (("SHORT_CALLS", "kShortCalls"), ("SENDS", "kSends"), ("RECEIVES", "kReceives"),
                               ("OBJECTS", "kObjects")):
            self.assertIn(f"{constant} = 1u << {names[name].bit_length() - 1},", header)
        self.assertIn(f"sizeof(PythonSpan) == {names['SPAN_BYTES']}", header)
        self.assertIn(f"offsetof(PythonSegment, records_spans) == {names['RECORD_AT']}", header)
        self.assertIn(f"offsetof(PythonSegment, traced_change) == {names['TRACED_AT']}", header)
        stages = (source / "common/model/timing/span.h").read_text().split("enum class Stage : uint8_t {")[1]
        stages = re.findall(r"^  (\w+)", stages.split("};")[0], re.M)
        for number, stage in enumerate(stages[1:], 1):
            self.assertEqual(names[stage.upper()], number)
        magic = re.search(r"kPythonSegmentMagic = 0x([0-9a-f']+);", header).group(1).replace("'", "")
        self.assertEqual(int(magic, 16), names["SEGMENT_MAGIC"])
        self.assertIn(f"sizeof(TorchCall) == {names['CALL_BYTES']}", header)
        self.assertIn("= 256 * 1024;", header)
        self.assertEqual(names["TEXT_BYTES"], 256 * 1024)


if __name__ == "__main__":
    unittest.main(verbosity=2)
