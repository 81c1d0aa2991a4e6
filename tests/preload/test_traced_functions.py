"""Exact times of chosen Python functions, under every CPython that is here: what is recorded, and that the program
does not notice it."""

import array
import json
import mmap
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import test_python_hooks as hooks

SOURCE = pathlib.Path(os.environ["XPURUN_TEST_SOURCE"])
PYTHON, ATTACH = 4, 5

WORK = '''
import asyncio, functools, time

def plain(a, b=2, *rest, key=None, **more):
    """What it does."""
    return a + b

def slow():
    time.sleep(0.002)

def fails():
    slow()
    raise ValueError("left")

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def numbers(n):
    for i in range(n):
        sent = yield i
        if sent:
            return sent

def outer(n):
    return (yield from numbers(n))

async def waits(n):
    await asyncio.sleep(0)
    return n

def traced_by_decorator(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@traced_by_decorator
def decorated(x):
    return -x

class Base:
    unit = 3
    def method(self, x):
        return x * self.unit
    @classmethod
    def build(cls):
        return cls()
    @staticmethod
    def helper(x, /, y=1):
        return x - y
    @property
    def size(self):
        return 7
    class Inner:
        def deep(self):
            return __class__.__name__

class Sub(Base):
    def method(self, x):
        return super().method(x) + 1

def make():
    kept = []
    def closure(x, *, times=2):
        kept.append(x)
        return kept * times
    return closure
closure = make()
registry = {"plain": plain}
'''

MAIN = r'''
import asyncio, inspect, pickle, sys, threading, traceback
import work
from work import Base, Sub, plain

def in_main(x):
    return x + 1

class Main:
    @staticmethod
    def method():
        return [0 for _ in range(3)]

def use():
    print(plain(1), work.registry["plain"](1, 3, 4, key=5, other=6), work.closure(4), work.closure(5, times=1))
    print(inspect.signature(plain), plain.__doc__, plain.__name__, inspect.getsource(work.slow))
    print(inspect.isgeneratorfunction(work.numbers), inspect.iscoroutinefunction(work.waits),
          plain.__code__.co_varnames[:2])
    print(pickle.loads(pickle.dumps(work.registry["plain"])) is plain)
    b = Sub()
    print(b.method(2), Base.build().method(1), Sub.build().helper(3), b.size, Base.Inner().deep(), work.decorated(4))
    try:
        work.fails()
    except ValueError as e:
        print("caught", e)
    print(work.fib(6))
    g = work.numbers(3)
    print(next(g), next(g), list(g))
    g = work.numbers(3)
    next(g)
    try:
        g.send("sent")
    except StopIteration as e:
        print(e.value)
    g = work.numbers(2)
    next(g)
    try:
        g.throw(KeyError("k"))
    except KeyError as e:
        print("thrown", e)
    print(list(work.outer(2)))
    print(asyncio.run(work.waits(5)))
    threads = [threading.Thread(target=work.slow) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    try:
        plain()
    except TypeError as e:
        print(e)

use()
for _ in range(50):
    [[] for _ in range(1000)]
print(in_main(1), Main.method(), Main().method())
work.fails()
'''
NAMES = ("work:plain work:slow work:fails work:fib work:numbers work:waits work:decorated work:Base.method "
         "work:Sub.method work:Base.build work:Base.helper work:Base.size work:Base.Inner.deep work:closure "
         "__main__:in_main job0:Main.method").split()


class Supervisor:
    """Answers requests for memory, keeps the reports."""

    def __init__(self, path):
        self.names = {"settings": {}, "__name__": "xpurun_segment"}
        source = (SOURCE / "preload/python/xpurun_segment.py").read_text()
        exec(compile(source, "xpurun_segment.py", "exec"), self.names)
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(64)
        self.is_on = 1
        self.clear()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def clear(self):
        self.told, self.memories = [], []

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            message = connection.recv(1 << 17)
            kind = int.from_bytes(message[6:8], sys.byteorder)
            if kind == PYTHON:
                self.told.append(json.loads(message[hooks.NOTICE_BYTES:]))
            elif kind == ATTACH:
                descriptor = os.memfd_create("python")
                os.ftruncate(descriptor, self.names["SEGMENT_BYTES"])
                memory = mmap.mmap(descriptor, self.names["SEGMENT_BYTES"])
                memory[:12] = struct.pack("=QI", self.names["SEGMENT_MAGIC"], self.names["SEGMENT_VERSION"])
                memory[self.names["RECORD_AT"]] = self.is_on
                self.memories.append(memory)
                connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
                os.close(descriptor)
            connection.close()

    def read_all(self):
        """Returns when everything that was sent before has been read: connections are served in their order."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(self.path)
            last.send(bytes(hooks.NOTICE_BYTES))
            last.recv(1)

    def problems(self):
        return {(one["name"], one["problem"]) for one in self.told if one["schema"] == "xpurun.trace_problem/1"}

    def spans(self, memory=None):
        """Dictionaries, those of the latest process."""
        memory = memory or (self.memories[-1] if self.memories else None)
        out = []
        for index in range(self.names["SPANS"] if memory else 0):
            at = self.names["SPAN_AT"] + index * self.names["SPAN_BYTES"]
            number, begin, duration, cpu, sequence, size, name, place, thread, _, stage, flags = struct.unpack_from(
                "=QQQqQQIIIHBB", memory, at)
            if number and stage == self.names["FUNCTION"]:
                short = bool(flags & self.names["SHORT_CALLS"])
                out.append({"begin": begin, "duration": size if short else duration, "end": begin + duration,
                            "cpu": cpu, "name": self.text(memory, name), "place": self.text(memory, place),
                            "thread": thread, "short": short, "calls": sequence if short else 1})
        return out

    def change(self, number, *names, least_ns=0):
        """As the supervisor changes the list."""
        at, text_at = self.names["TRACED_AT"], self.names["TRACED_TEXT_AT"]
        text = ",".join(names).encode()
        memory = self.memories[-1]
        memory[text_at:text_at + len(text)] = text
        struct.pack_into("=I", memory, at + 4, len(text))
        struct.pack_into("=Q", memory, at + 12, least_ns)
        struct.pack_into("=I", memory, at, number)

    def taken(self):
        return struct.unpack_from("=I", self.memories[-1], self.names["TRACED_AT"] + 8)[0]

    def text(self, memory, ref):
        at = self.names["TEXT_AT"] + ref
        length = struct.unpack_from("=I", memory, at)[0] if ref else 0
        return memory[at + 4:at + 4 + length].decode()

    def counts(self, memory=None):
        out = {}
        for one in self.spans(memory):
            out[one["name"]] = out.get(one["name"], 0) + one["calls"]
        return out


class Traced(unittest.TestCase):
    maxDiff = None
    each = staticmethod(hooks.Hooks.each)
    env = hooks.Hooks.env

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-traced-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.supervisor = Supervisor(self.dir / "socket")
        self.addCleanup(self.supervisor.close)
        (self.dir / "work.py").write_text(WORK)

    def script(self, source):
        path = self.dir / "job0.py"
        path.write_text(source)
        return path

    def both(self, python, *args, **more):
        """Runs bare, then under the library; the same must be seen."""
        self.supervisor.clear()
        hooked = {"LD_PRELOAD": str(hooks.LIBRARY), "XPURUN_RUN": f"1:{os.getpid()}:0:{self.supervisor.path}"}
        runs = []
        for extra in ({}, hooked):
            run = subprocess.run([python, *map(str, args)], env=self.env(**more, **extra), cwd=self.dir,
                                 capture_output=True, text=True, timeout=60)
            runs.append((run.returncode, hooks.ADDRESS.sub("0x", run.stdout), hooks.ADDRESS.sub("0x", run.stderr)))
        self.assertEqual(runs[0], runs[1], python)
        self.supervisor.read_all()

    def traced(self, python, script, *names, least="0", **more):
        self.both(python, script, XPURUN_TRACE_PYTHON=",".join(names), XPURUN_TRACE_PYTHON_MIN=least, RANK="0",
                  LOCAL_RANK="0", WORLD_SIZE="1", **more)
        return self.supervisor.counts()

    def check_nesting(self, spans):
        """Nesting by time in a thread gives the parents."""
        parents = set()
        for thread in {one["thread"] for one in spans}:
            open_ = []
            mine = [one for one in spans if one["thread"] == thread and not one["short"]]
            for one in sorted(mine, key=lambda one: (one["begin"], -one["duration"])):
                while open_ and open_[-1]["end"] <= one["begin"]:
                    open_.pop()
                self.assertTrue(not open_ or one["end"] <= open_[-1]["end"], (open_, one))
                parents.add((open_[-1]["name"] if open_ else None, one["name"]))
                open_.append(one)
        self.assertLessEqual({("work:fib", "work:fib"), ("work:Sub.method", "work:Base.method"), (None, "work:slow"),
                              (None, "work:plain")}, parents)

    def test_every_kind_of_function(self):
        job = self.script(MAIN)
        self.assertEqual(job.name, "job0.py")
        for python, version in self.each():
            counts = self.traced(python, job, *NAMES)
            expected = {"work:plain": 2, "work:slow": 5, "work:fails": 2, "work:fib": 25, "work:decorated": 1,
                        "work:Base.method": 2, "work:Sub.method": 1, "work:Base.build": 2, "work:Base.helper": 1,
                        "work:Base.size": 1, "work:Base.Inner.deep": 1, "work:closure": 2, "__main__:in_main": 1,
                        "job0:Main.method": 2, "work:waits": 2,
                        # A call is what lies between two suspensions: 4, 2, 2, and 3 of the delegated one.
                        "work:numbers": 4 + 2 + 2 + 3}
            self.assertEqual(counts, expected, python)
            self.assertEqual(self.supervisor.problems(), set())
            spans = self.supervisor.spans()
            place = next(one["place"] for one in spans if one["name"] == "work:plain")
            self.assertRegex(place, r"^job0\.py:\d+ \(use\)$")
            self.assertEqual(len({one["thread"] for one in spans if one["name"] == "work:slow"}), 4)
            slow = [one for one in spans if one["name"] == "work:slow"]
            for one in slow:
                self.assertTrue(2e6 <= one["duration"] < 2e9 and 0 <= one["cpu"] < one["duration"], one)
            self.check_nesting(spans)

    def test_names_that_do_not_exist(self):
        job = self.script("import work\nprint(work.plain(1))\ndef f(): pass\n")
        for python, version in self.each():
            self.traced(python, job, "work:plane", "work:Base.methods", "work:Base", "work:registry",
                        "never.imported:f", "time:sleep", "__main__:g", "job0:Main.run", "__main__:f",
                        "work:time.sleep", "work:plain")
            self.assertEqual(self.supervisor.problems(), {
                ("work:plane", "no_function"), ("work:Base.methods", "no_function"), ("work:Base", "not_python"),
                ("work:registry", "not_python"), ("never.imported:f", "no_module"), ("time:sleep", "not_python"),
                ("__main__:g", "no_function"), ("job0:Main.run", "no_function"), ("work:time.sleep", "not_python")})
            told = [one["name"] for one in self.supervisor.told if "problem" in one]
            self.assertEqual(len(told), len(set(told)))
            self.assertEqual(self.supervisor.counts(), {"work:plain": 1})

    def test_modules_imported_late_and_again(self):
        package = self.dir / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "late.py").write_text("def f(): return 1\nclass C:\n    def m(self): return 2\n")
        job = self.script("import importlib, package\nold = None\n"
                          "for _ in range(2):\n"
                          "    import package.late\n    from package.late import f\n"
                          "    print(f(), package.late.C().m())\n    old = old or f\n"
                          "    importlib.reload(package.late)\n"
                          "print(old(), package.late.f(), old is package.late.f)\n")
        for python, _ in self.each():
            counts = self.traced(python, job, "package.late:f", "package:late.C.m")
            self.assertEqual(counts, {"package.late:f": 4, "package:late.C.m": 2}, python)

    def test_short_calls_are_summed_up(self):
        job = self.script("import work, threading\ndef run():\n    for i in range(1000): work.plain(i)\n"
                          "run()\nt = threading.Thread(target=run)\nt.start()\nt.join()\nwork.slow()\n")
        for python, _ in self.each():
            self.traced(python, job, "work:plain", "work:slow", least="0.001")
            spans = self.supervisor.spans()
            self.assertEqual([one["name"] for one in spans if not one["short"] and one["name"] == "work:slow"],
                             ["work:slow"])
            plain = [one for one in spans if one["name"] == "work:plain"]
            self.assertEqual(sum(one["calls"] for one in plain), 2000)
            self.assertLess(len(plain), 200)
            self.assertEqual(len({one["thread"] for one in plain if one["short"]}), 2)
            for one in plain:
                self.assertTrue(0 < one["duration"] <= one["end"] - one["begin"], one)

    def test_nothing_without_names_and_while_off(self):
        job = self.script("import work\nwork.plain(1)\n")
        for python, _ in self.each():
            self.both(python, job, XPURUN_TRACE_PYTHON="", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
            self.assertEqual(self.supervisor.memories, [])
            self.supervisor.is_on = 0
            self.assertEqual(self.traced(python, job, "work:plain"), {})
            self.assertEqual(len(self.supervisor.memories), 1)
            self.supervisor.is_on = 1

    def test_processes(self):
        """A forked worker of a rank has no spans; a spawned process is a separate interpreter."""
        job = self.script("import multiprocessing as mp, os, sys, work\n"
                          "def mine(x):\n    return work.plain(x)\n"
                          "if __name__ == '__main__':\n"
                          "    mine(1)\n"
                          "    with mp.get_context(sys.argv[1]).Pool(1) as pool:\n"
                          "        print(pool.map(mine, range(3)))\n"
                          "    for _ in range(50): [[] for _ in range(1000)]\n"
                          "    mine(2)\n")
        for python, version in self.each():
            for how in ("fork", "spawn"):
                self.both(python, job, how, XPURUN_TRACE_PYTHON="work:plain,__main__:mine", XPURUN_TRACE_PYTHON_MIN="0",
                          RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
                counts = [self.supervisor.counts(memory) for memory in self.supervisor.memories]
                parent = next(one for one in counts if one["work:plain"] == 2)
                # Before 3.12, a function of the main program is found some time after its definition.
                self.assertIn(parent["__main__:mine"], (2,) if version >= (3, 12) else (1, 2))
                self.assertEqual(len(counts), 1 if how == "fork" else 2, (python, how))
                if how == "spawn":
                    self.assertIn({"work:plain": 3, "__main__:mine": 3}, counts)

    def test_together_with_other_tools(self):
        job = self.script("""
import bdb, cProfile, pstats, sys, work
seen = []
def trace(frame, event, arg):
    if frame.f_code.co_name == "plain":
        seen.append(event)
    return trace
sys.settrace(trace)
work.plain(1)
sys.settrace(None)
profile = cProfile.Profile()
profile.enable()
work.plain(2)
work.Base().method(1)
profile.disable()
calls = {key[2]: value[0] for key, value in pstats.Stats(profile).stats.items()}
class Debugger(bdb.Bdb):
    def user_line(self, frame):
        seen.append(("line", frame.f_code.co_name))
        self.set_continue()
debugger = Debugger()
debugger.set_break(work.__file__, work.slow.__code__.co_firstlineno + 1)
debugger.runcall(lambda: work.slow())
hits = [one for one in seen if one[1] == "slow"]
print(bool(seen), "call" in seen, "return" in seen, calls["method"] > 0, calls["plain"] > 0, hits, work.plain(3))
""")
        for python, _ in self.each():
            counts = self.traced(python, job, "work:plain", "work:Base.method", "work:slow")
            self.assertEqual(counts, {"work:plain": 3, "work:Base.method": 1, "work:slow": 1}, python)

    def test_change_while_the_program_runs(self):
        (self.dir / "late.py").write_text("def f(): return 1\n")
        job = self.script("import sys, threading, work, xpurun\n"
                          "def in_main():\n    return work.plain(1)\n"
                          "codes = work.plain.__code__, in_main.__code__\n"
                          "def phase():\n"
                          "    xpurun.step()\n"
                          "    for i in range(10): work.plain(i)\n"
                          "    in_main()\n    list(work.numbers(3))\n    work.Sub().method(2)\n"
                          "    if 'late' in sys.modules: sys.modules['late'].f()\n"
                          "def outer():\n    xpurun.step()\n    return 1\n"
                          "for line in sys.stdin:\n"
                          "    if line == 'import\\n': import late\n"
                          "    thread = threading.Thread(target=phase)\n"
                          "    thread.start() if line == 'thread\\n' else phase()\n"
                          "    thread.join() if line == 'thread\\n' else None\n"
                          "    outer()\n"
                          "    print(codes == (work.plain.__code__, in_main.__code__), flush=True)\n")
        for python in hooks.interpreters():
            with self.subTest(python):
                self.supervisor.clear()
                env = self.env(LD_PRELOAD=str(hooks.LIBRARY), XPURUN_RUN=f"1:{os.getpid()}:0:{self.supervisor.path}",
                               RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
                process = subprocess.Popen([python, str(job)], env=env, cwd=self.dir, text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

                def phase(word="go"):
                    """What was recorded during it, and whether the functions have their own code."""
                    before = self.supervisor.counts()
                    process.stdin.write(word + "\n")
                    process.stdin.flush()
                    same = process.stdout.readline()
                    after = self.supervisor.counts()
                    return {name: after[name] - before.get(name, 0) for name in after
                            if after[name] != before.get(name, 0)}, same

                self.assertEqual(phase(), ({}, "True\n"))
                self.supervisor.change(1, "work:plain", "__main__:in_main", "work:nothing", "__main__:nobody",
                                       "work:numbers", "late:f")
                recorded = {"work:plain": 11, "__main__:in_main": 1, "work:numbers": 4}
                self.assertEqual(phase()[0], recorded)
                self.assertEqual(self.supervisor.taken(), 1)
                until = time.monotonic() + 5  # the message is on its way
                while len(self.supervisor.problems()) < 2 and time.monotonic() < until:
                    time.sleep(0.01)
                self.assertEqual(self.supervisor.problems(),
                                 {("work:nothing", "no_function"), ("__main__:nobody", "no_function")})
                self.assertEqual(phase("import")[0], {**recorded, "late:f": 1})
                # Short calls of a thread that has ended are written when another thread is new, or at the end.
                self.supervisor.change(2, "work:numbers", "late:f")
                self.assertEqual(phase(), ({"work:numbers": 4, "late:f": 1}, "True\n"))
                self.supervisor.change(3, "work:plain", "__main__:outer", "work:Sub.method")
                self.assertEqual(phase("thread")[0], {"work:plain": 11, "work:Sub.method": 1, "__main__:outer": 1})
                self.supervisor.change(4)
                self.assertEqual(phase("thread"), ({}, "True\n"))
                # A function that is called while the list changes, in the same thread.
                self.supervisor.change(5, "__main__:outer", "__main__:phase")
                self.assertIn(phase()[0].get("__main__:outer"), (1, None))
                self.supervisor.change(6, "__main__:outer")
                self.assertEqual(phase()[0].get("__main__:outer"), 1)
                self.assertEqual(phase(), ({"__main__:outer": 1}, phase()[1]))
                process.stdin.close()
                self.assertEqual((process.wait(60), process.stderr.read()), (0, ""))
                process.stdout.close()
                process.stderr.close()
                self.assertEqual(self.supervisor.taken(), 6)

    def test_asynchronous_generators(self):
        job = self.script("import asyncio\nfrom late import numbers\n"
                          "async def main():\n    print([n async for n in numbers()])\n"
                          "    g = numbers()\n    print(await g.__anext__())\n    await g.aclose()\n"
                          "asyncio.run(main())\n")
        (self.dir / "late.py").write_text("async def numbers():\n    yield 1\n    yield 2\n")
        for python, version in self.each():
            counts = self.traced(python, job, "late:numbers")
            if version >= (3, 12):
                self.assertEqual(counts, {"late:numbers": 5}, python)
            else:
                self.assertEqual((counts, self.supervisor.problems()), ({}, {("late:numbers", "too_old")}))

    def test_no_free_tool(self):
        job = self.script("import sys\nfor n in range(6):\n    if sys.monitoring.get_tool(n) is None: "
                          "sys.monitoring.use_tool_id(n, 'other')\nimport work\nprint(work.plain(1))\n")
        for python, version in self.each():
            if version >= (3, 12):
                self.assertEqual(self.traced(python, job, "work:plain"), {})
                self.assertEqual(self.supervisor.problems(), {("work:plain", "no_tool")})

    def test_main_module_by_its_names(self):
        package = self.dir / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "train.py").write_text("class Base:\n    def run(self): return 1\nclass Sub(Base): pass\n"
                                          "for _ in range(50): [[] for _ in range(1000)]\n"
                                          "def f(): return Sub().run()\nprint(__name__)\n"
                                          "for _ in range(50): [[] for _ in range(1000)]\nf()\n")
        for python, _ in self.each():
            for words, names in ((["-m", "package.train"], ["package.train:f", "package.train:Sub.run"]),
                                 (["package/train.py"], ["train:f", "__main__:Sub.run"])):
                self.both(python, *words, XPURUN_TRACE_PYTHON=",".join(names), XPURUN_TRACE_PYTHON_MIN="0",
                                RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
                self.assertEqual(self.supervisor.counts(), {name: 1 for name in names}, python)


if __name__ == "__main__":
    unittest.main(verbosity=2)
