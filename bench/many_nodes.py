"""A job of very many nodes with a real server: traffic, cost on the elected and on an ordinary node, stall to page.

usage: many_nodes.py [--build DIR] [--nodes 1000] [--ranks 8] [--threads 16] [--steady 30]

Two nodes are real: xpurun and xpurun-nodes on the first (it is elected) and on the last one, each with RANKS ranks that
this program directs. The others are synthetic: this process speaks for them, each over a connection of its own, with
states, clocks, and the archives that bench/nodes_scale.py generates. Needs nats-server, libzstd and libxxhash.

CPU is counted in seconds of a core, from /proc, of each process; wall-clock times depend on what else the machine does.
"""

import asyncio
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import urllib.request

import bench_support
import nodes_scale
from told_job import ToldJob

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAND_IN = ROOT / "tests" / "e2e" / "jobs" / "stand_in.py"
SERVER = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")
TOKEN = "of-the-measurement"
STATE_S = 2
CHUNK = 192 << 10
TICKS = os.sysconf("SC_CLK_TCK")
zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_compressBound.restype = zstd.ZSTD_compress.restype = ctypes.c_size_t
zstd.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
zstd.ZSTD_compress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def packed(data):
    out = ctypes.create_string_buffer(zstd.ZSTD_compressBound(len(data)))
    size = zstd.ZSTD_compress(out, len(out), data, len(data), 3)
    return out.raw[:size]


def archive_of(directory):
    files = [directory / "run.json", *sorted((directory / "dumps").rglob("*.json"))]
    out = bytearray()
    for file in files:
        data = file.read_bytes()
        out += json.dumps({"path": str(file.relative_to(directory)), "size": len(data)}).encode() + b"\n" + data
    return packed(bytes(out))


class SyntheticNode:
    def __init__(self, number, options, archive):
        self.name = f"{number}-node{number:04}"
        self.number = number
        self.options = options
        self.archive = archive
        self.request = ""

    async def live(self, port):
        try:
            await self.run(port)
        except ConnectionError:
            pass  # the server has ended
        except Exception:
            traceback.print_exc()

    async def run(self, port):
        reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        await reader.readline()
        word = self.name.replace(".", "%2E")
        subjects = ["elected", "all", f"to.{word}"] + (["state.*"] if self.number < 8 else [])
        hello = json.dumps({"auth_token": TOKEN, "verbose": False, "echo": False, "lang": "bench", "version": "1"})
        lines = [f"CONNECT {hello}"] + [f"SUB xpurun.big.{s} {i}" for i, s in enumerate(subjects)]
        self.writer.write("".join(line + "\r\n" for line in lines).encode())
        tell = asyncio.create_task(self.tell())
        try:
            while line := await reader.readline():
                if line.startswith(b"MSG"):
                    words = line.split()
                    payload = await reader.readexactly(int(words[-1]) + 2)
                    if not words[1].startswith((b"xpurun.big.state", b"xpurun.big.elected")):
                        self.hear(payload[:-2])
                elif line.startswith(b"PING"):
                    self.writer.write(b"PONG\r\n")
        finally:
            tell.cancel()

    def send(self, subject, kind, content, more=b""):
        text = json.dumps({"type": kind, "from": self.name, "instance": self.number + 1, "content": content},
                          separators=(",", ":")).encode() + b"\n"
        data = b"Z" + packed(text) if len(text) >= 1000 and not more else b"J" + text + more
        self.writer.write(f"PUB xpurun.big.{subject} {len(data)}\r\n".encode() + data + b"\r\n")

    async def tell(self):
        await asyncio.sleep(STATE_S * self.number / self.options.nodes)
        first = self.number * self.options.ranks
        ranks = list(range(first, first + self.options.ranks))
        while True:
            state = {"phase": "running", "elapsed_s": time.monotonic(), "still_s": 0.0,
                     "ranks": [{"rank": r, "state": "S", "alive": True, "still_s": 0.1,
                                "where": "backward (train.py:33)",
                                "sequence": {f"group{g}": 12345 for g in range(4)}} for r in ranks]}
            self.send(f"state.{self.name}", "state", {
                "node_rank": self.number, "host": f"node{self.number:04}", "expected": ranks,
                "eligible": 0 < self.number < 8, "state": state})
            await asyncio.sleep(STATE_S)

    def hear(self, payload):
        if payload[:1] != b"J":
            return
        message = json.loads(payload[1:].split(b"\n", 1)[0])
        kind, content = message["type"], message["content"]
        to = "to." + message["from"].replace(".", "%2E")
        if kind == "ping":
            self.send(to, "pong", {"sent_ns": content["sent_ns"], "wall_ns": time.time_ns()})
        elif kind == "dump" and content["request"] != self.request:
            self.request = content["request"]
            self.send(to, "offer", {"request": self.request, "status": "complete", "directory": "dumps/1-hang",
                                    "size": len(self.archive), "chunk": CHUNK,
                                    "hash": xxhash.XXH3_64bits(self.archive, len(self.archive))})
        elif kind == "want":
            for number in content["numbers"]:
                self.send(to, "part", {"request": self.request, "number": number},
                          self.archive[number * CHUNK:(number + 1) * CHUNK])


def cost(pid):
    """CPU seconds, of children that have ended too, resident MiB now (and of no other process) and at most, threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    memory = dict(line.split(":") for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    private = sum(int(memory[kind].split()[0]) for kind in ("Private_Clean", "Private_Dirty"))
    return types.SimpleNamespace(cpu=(int(fields[11]) + int(fields[12])) / TICKS,
                                 children=(int(fields[13]) + int(fields[14])) / TICKS,
                                 now=int(status["VmRSS"].split()[0]) / 1024, private=private / 1024,
                                 most=int(status["VmHWM"].split()[0]) / 1024, threads=int(status["Threads"]))


def child(pid, name):
    for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if pathlib.Path(f"/proc/{c}/comm").read_text().strip() == name:
            return int(c)
    return 0


def wait_for(condition, what, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    raise SystemExit(f"no {what} within {seconds} s")


def real_node(number, base, port, options, nats=True):
    first = number * options.ranks
    job = ToldJob(base / f"socket{number}-{nats}", range(first, first + options.ranks), 600)
    out = base / f"real{number}-{nats}"
    joined = ["--nats", f"nats://127.0.0.1:{port}", "--name", "big"] if nats else []
    command = [bench_support.program_of(options), "--out", out, "--hang-timeout", "5", "--busy-timeouts", "1",
               "--metrics-port", "off", *joined, "--", sys.executable, STAND_IN, job.path, options.nodes, number,
               options.ranks]
    with open(base / f"said{number}-{nats}", "w") as log:
        process = subprocess.Popen([str(c) for c in command], env={**os.environ, "XPURUN_NATS_TOKEN": TOKEN},
                                   stdout=log, stderr=log)
    job.meet()
    return types.SimpleNamespace(job=job, process=process, out=out)


def living(node, options):
    text = subprocess.run([bench_support.program_of(options), "nodes", "--json", node.out], capture_output=True).stdout
    try:
        return sum(n["alive"] for n in json.loads(text)["nodes"])
    except (ValueError, KeyError):
        return 0


def run_json(node):
    return json.loads((node.out / "run.json").read_text())


def steady(options, processes, port):
    def traffic():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/varz") as f:
            return json.load(f)
    before, counted, began = {n: cost(p) for n, p in processes.items()}, traffic(), time.monotonic()
    time.sleep(options.steady)
    seconds = time.monotonic() - began
    after = traffic()
    print(f"steady, {seconds:.0f} s:")
    for key, unit in (("in_msgs", "messages/s in"), ("out_msgs", "messages/s out"), ("in_bytes", "bytes/s in"),
                      ("out_bytes", "bytes/s out")):
        print(f"  server: {(after[key] - counted[key]) / seconds:.0f} {unit}")
    for name, pid in processes.items():
        now = cost(pid)
        print(f"  {name}: {100 * (now.cpu - before[name].cpu) / seconds:.2f} % of a core, {now.now:.1f} MiB"
              f" ({now.private:.1f} private), {now.threads} threads", flush=True)


def stall(elected, processes):
    before = {n: cost(p) for n, p in processes.items()}
    elected.job.pause()
    wait_for(lambda: run_json(elected)["stalls"], "stall")
    began = time.monotonic()
    told = wait_for(lambda: run_json(elected)["stalls"][0].get("verdict", {}).get("sentence"), "verdict")
    waited = time.monotonic() - began
    stall = run_json(elected)["stalls"][0]
    nodes = json.loads((elected.out / "nodes.json").read_text())["nodes"] if (
        elected.out / "nodes.json").exists() else []
    page = elected.out / "report.html"
    print(f"stall to verdict {stall['verdict_s'] - stall['at_s']:.1f} s (seen from outside {waited:.1f} s)")
    states = [n["status"] for n in nodes]
    print(f"  {told[:200]}\n  nodes: " + ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states))))
    if page.exists():
        print(f"  page {page.stat().st_size / 1e3:.0f} kB,"
              f" {page.stat().st_mtime - run_json(elected)['started_wall_ns'] / 1e9 - stall['at_s']:.1f} s after the"
              " stall")
    for name, pid in processes.items():
        now = cost(pid)
        print(f"  {name}: {now.cpu - before[name].cpu:.1f} s of CPU, at most {now.most:.0f} MiB; its children"
              f" {now.children - before[name].children:.1f} s of CPU", flush=True)


def measure(base, options):
    synthetic = range(1, options.nodes - 1)
    scale = types.SimpleNamespace(nodes=options.nodes, ranks=options.ranks, threads=options.threads, stacks=40,
                                  silent=0)
    nodes_scale.BEGIN = time.time_ns() - 42_100_000_000
    generated = base / "generated"
    nodes_scale.generate(generated, scale)
    archives = {n: archive_of(generated / "nodes" / f"node{n:04}") for n in synthetic}
    shutil.rmtree(generated)
    size = sum(map(len, archives.values()))
    print(f"{options.nodes} nodes, {options.ranks} ranks each, archives of {size / len(archives) / 1e3:.0f} kB",
          flush=True)
    port, monitor = 24222, 24223
    server = subprocess.Popen([SERVER, "-a", "127.0.0.1", "-p", str(port), "-m", str(monitor), "--auth", TOKEN, "-l",
                               str(base / "server.log")])
    real = []
    try:
        log = base / "server.log"
        wait_for(lambda: log.exists() and "Server is ready" in log.read_text(), "server")
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        for n in synthetic:
            asyncio.run_coroutine_threadsafe(SyntheticNode(n, options, archives[n]).live(port), loop)
        real = [real_node(n, base, port, options) for n in (0, options.nodes - 1)]
        elected, ordinary = real
        wait_for(lambda: living(elected, options) == options.nodes, "living nodes")
        alone = real_node(options.nodes - 1, base, port, options, nats=False)
        real.append(alone)
        time.sleep(10)  # clocks are measured often at first
        processes = {"server": server.pid, "elected xpurun": elected.process.pid,
                     "elected xpurun-nodes": child(elected.process.pid, "xpurun-nodes"),
                     "ordinary xpurun": ordinary.process.pid,
                     "ordinary xpurun-nodes": child(ordinary.process.pid, "xpurun-nodes"),
                     "xpurun without --nats": alone.process.pid}
        steady(options, processes, monitor)
        stall(elected, {n: processes[n] for n in list(processes)[:3]})
    finally:
        for node in real:
            node.process.kill()
            node.process.wait()
            node.job.close()
        server.kill()
        server.wait()


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--steady", type=float, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpurun-many-nodes-") as base:
        measure(pathlib.Path(base), options)


if __name__ == "__main__":
    main()
