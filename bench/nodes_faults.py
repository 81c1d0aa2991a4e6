"""Faults of `xpurun selftest` over several nodes: verdict, place, and seconds after the hang timeout.

usage: nodes_faults.py [--build DIR] [--nodes 4] [--ranks 4] [--hang-timeout 5] [--culprit 6] [INJECTION]...

Each node is a network namespace with its own xpurun; gloo talks over the namespaces' links, a nats-server runs on
their switch. The job and its faults are those of the self-test (commands/selftest/job). Needs root, nats-server, and
torch for PYTHON (/usr/bin/python3, or XPURUN_BENCH_PYTHON). The seconds count from the fault to the sentence on the
terminal of the elected node, less the hang timeout for hangs; "load" is the load average of one minute at the end. A
busy machine needs a longer hang timeout, because ranks that starve look still. Stops may take 3 s, because 16 ranks
share the machine.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bench_support
import namespaces

JOB = pathlib.Path(__file__).resolve().parents[1] / "commands" / "selftest" / "job"
SERVER = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")
PORT = 4222
RANK = """
import sys
sys.path.insert(0, sys.argv[1])
import training
training.Job.culprit = int(sys.argv[2])
import job
job.rank(*sys.argv[3:])
"""


@dataclasses.dataclass
class Expected:
    ids: tuple
    function: str = ""
    words: tuple = ()
    hang: bool = True
    culprit: int = -1  # instead of --culprit
    recovers: bool = False  # the job is not ended, and ends well


def mismatch(hang, function, *words):
    """What gloo does with a message that it did not expect: it waits, aborts, or raises an error in the peer."""
    return Expected((hang, "crash.mismatch", "exit.mismatch"), function, words)


# As in commands/selftest/injections.cpp, without those of GPUs and of slow jobs, and without nested-groups, which is
# for four ranks.
EXPECTED = {
    "healthy": Expected(("none.finished",), recovers=True),
    "late-enters": Expected(("none.finished",), recovers=True),
    "never-enters": Expected(("hang.stuck",), "download_shard"),
    "fewer-batches": Expected(("hang.mismatch",), "finish", ("barrier", "all_reduce")),
    "skipped-branch": Expected(("hang.mismatch",), "average_gradients", ("all_reduce", "all_gather")),
    "wrong-size": mismatch("hang.mismatch_size", "wrong_size", "all_reduce", "1000", "4096"),
    "wrong-type": mismatch("hang.mismatch_type", "wrong_type", "float64", "float32"),
    "wrong-op": mismatch("hang.mismatch", "wrong_op", "broadcast", "all_reduce"),
    # Of 16 ranks, most hear the same neighbour in gloo's trees from the roots 0 and 15, and notice nothing.
    "wrong-root": Expected(("hang.mismatch_root",), "wrong_root", ("broadcast", "root 0"), culprit=7),
    "communicator-order": Expected(("hang.order",), "communicator_order", ("all_reduce",)),
    "missing-send": Expected(("hang.p2p",), "average_gradients", ("recv", "send")),
    "lazy-new-group": Expected(("hang.mismatch", "hang.not_entered"), "average_gradients", ("new_group",)),
    "store-key-never-set": Expected(("hang.not_entered", "hang.mismatch"), "read_shard_list", ("store",)),
    "store-never-reached": Expected(("hang.stuck",), "prepare_data", culprit=0),
    "stopped": Expected(("hang.stopped",)),
    "gil-in-c": Expected(("hang.stuck",), "", ("holds the GIL",)),
    "dead-feeder": Expected(("hang.lock",), "next_batch"),
    "blocked-read": Expected(("hang.stuck",)),
    "blocked-write": Expected(("hang.stuck",)),
    "python-loop": Expected(("hang.busy",)),
    "c-loop": Expected(("hang.busy",)),
    "lock-order": Expected(("hang.lock",), "", ("save_checkpoint", "flush_metrics")),
    "stuck-worker": Expected(("hang.lock",), "", ("dataloader worker pid", "read_sample")),
    "exception": Expected(("exit.exception",), "collate", ("KeyError: 'label'",), hang=False),
    "thread-exception": Expected(("hang.lock",), "take_prefetched", ("ValueError: shard 17 is truncated",)),
    "swallowed-exception": Expected(("hang.stuck",), "close_writer"),
    "exit-status": Expected(("exit.error",), "", ("no such data set",), hang=False),
    "segv": Expected(("crash.signal",), "", ("SIGSEGV",), hang=False),
    "early-exit": Expected(("exit.left_early",), hang=False),
    "terminate": Expected(("crash.signal",), "", ("std::runtime_error", "tokenizer table is damaged"), hang=False),
    "abort": Expected(("crash.signal",), hang=False),
    "rank-killed": Expected(("crash.killed",), "", ("SIGKILL",), hang=False),
    # The kernel's log names the cause (memory). Without control groups, a limit of CPU time leaves no such line.
    "oom-kill": Expected(("crash.killed",), "", ("SIGKILL",), hang=False),
}


def mount_memory_groups():
    """"ip netns exec" hides the control groups behind a new /sys. Without them, oom-kill has a limit of CPU time."""
    groups = pathlib.Path("/sys/fs/cgroup")
    if ":memory:" in pathlib.Path("/proc/self/cgroup").read_text() and not (groups / "memory").exists():
        subprocess.run(["mount", "-t", "tmpfs", "none", groups])
        (groups / "memory").mkdir()
        subprocess.run(["mount", "-t", "cgroup", "-o", "memory", "none", groups / "memory"])


def launch(network_address, nodes, node, per_node, culprit, *job):
    """The ranks of one node; the first failure among them ends all of them, as with torchrun."""
    ranks = []
    if job[0] == "oom-kill":
        mount_memory_groups()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        for local in range(per_node):
            env = dict(os.environ, RANK=str(node * per_node + local), LOCAL_RANK=str(local),
                       WORLD_SIZE=str(nodes * per_node), LOCAL_WORLD_SIZE=str(per_node), GROUP_RANK=str(node),
                       MASTER_ADDR=network_address, MASTER_PORT="29500", GLOO_SOCKET_IFNAME="eth0",
                       OMP_NUM_THREADS="1")
            ranks.append(subprocess.Popen([sys.executable, "-c", RANK, JOB, str(culprit), *job], env=env))
        while any(r.poll() is None for r in ranks):
            if any(r.poll() for r in ranks):
                return 1
            time.sleep(0.05)
        return int(any(r.returncode for r in ranks))
    finally:
        for r in ranks:
            r.terminate()
        for r in ranks:
            try:
                r.wait(5)
            except subprocess.TimeoutExpired:
                r.kill()
                r.wait()


def differences(verdict, expected, culprit):
    out = []
    if verdict["id"] not in expected.ids:
        out.append(f"{verdict['id']} instead of {' or '.join(expected.ids)}")
    if verdict["ranks"] != ([] if expected.recovers else [culprit]):
        out.append(f"ranks {verdict['ranks']}")
    if expected.function and verdict["where"]["function"] != expected.function:
        out.append(f"in {verdict['where']['function'] or 'no place'} instead of {expected.function}")
    return out + [f"lacks '{w}'" for w in expected.words if w not in verdict["sentence"]]


def growth_until_end(nodes, said, seconds=300):
    """(time, bytes that were there) of the first node's output, until all nodes have ended."""
    grown, end = [], time.monotonic() + seconds
    while any(n.poll() is None for n in nodes):
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(nodes[0].args, seconds)
        size = said.stat().st_size
        if not grown or grown[-1][1] != size:
            grown.append((time.time(), size))
        time.sleep(0.05)
    return [*grown, (time.time(), said.stat().st_size)]


def told_at(said, grown, sentence):
    at = said.read_bytes().find(sentence.encode())
    seen = [moment for moment, size in grown if at >= 0 and size > at + len(sentence.encode())]
    return seen[0] if seen else grown[-1][0]


def trial(name, network, directory, options):
    """The row of the table; whether the verdict is right on every node."""
    expected = EXPECTED[name]
    culprit = expected.culprit if expected.culprit >= 0 else options.culprit
    nodes = []
    for n in range(options.nodes):
        command = network.command(
            n, bench_support.program_of(options), "--out", directory / f"node{n}", "--hang-timeout",
            options.hang_timeout, "--busy-timeouts", "1", "--dump-deadline", "3s", "--on-hang",
            "report" if expected.recovers else "kill", "--grace", "2s", "--name", name, "--nats",
            f"nats://{namespaces.SWITCH_ADDRESS}:{PORT}", "--metrics-port", "off", "--", bench_support.PYTHON, __file__,
            "launch", network.address(0), options.nodes, n, options.ranks, culprit, name, directory,
            options.hang_timeout, "cpu")
        with open(directory / f"said{n}", "w") as said:
            nodes.append(subprocess.Popen(command, stdout=said, stderr=said))
    try:
        grown = growth_until_end(nodes, directory / "said0")
        statuses = [n.returncode for n in nodes]
    finally:
        for n in nodes:
            n.kill()
            n.wait()
        if (directory / "cgroup").exists():  # of oom-kill
            with contextlib.suppress(OSError):
                os.rmdir((directory / "cgroup").read_text())
    if not (directory / "fault").exists():
        return f"| `{name}` | – | the job ended before the fault | – | {os.getloadavg()[0]:.0f} | |", False
    runs = [json.loads((directory / f"node{n}" / "run.json").read_text()) for n in range(options.nodes)]
    fault = (directory / "fault").stat().st_mtime
    wrong = differences(runs[0]["verdict"], expected, culprit)
    if not expected.recovers and len({r["verdict"]["sentence"] for r in runs}) != 1:
        wrong.append("not one sentence: " + " / ".join(sorted({r["verdict"]["sentence"] for r in runs})))
    hung = runs[0]["verdict"]["kind"] == "hang"
    if (hung and statuses != [124] * options.nodes) or (expected.recovers and any(statuses)):
        wrong.append(f"exit statuses {statuses}")
    told = told_at(directory / "said0", grown, runs[0]["verdict"]["sentence"])
    # A failure instead of a hang needs no timeout.
    after = "–" if expected.recovers else f"{told - fault - (options.hang_timeout if hung else 0):.1f}"
    return (f"| `{name}` | `{runs[0]['verdict']['id']}` | {'; '.join(wrong) or 'as expected'} | {after} |"
            f" {os.getloadavg()[0]:.0f} | {runs[0]['verdict']['sentence']} |"), not wrong


def main():
    if sys.argv[1:2] == ["launch"]:
        address, nodes, node, per_node, culprit = sys.argv[2], *map(int, sys.argv[3:7])
        return launch(address, nodes, node, per_node, culprit, *sys.argv[7:])
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--hang-timeout", type=float, default=5)
    parser.add_argument("--culprit", type=int, default=6)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("injections", nargs="*")
    options = parser.parse_args()
    network = namespaces.Network(options.nodes)
    temporary = tempfile.TemporaryDirectory(prefix="xpurun-nodes-faults-")
    base = options.keep or pathlib.Path(temporary.name)
    server = subprocess.Popen(network.on_switch(SERVER, "-a", namespaces.SWITCH_ADDRESS, "-p", PORT),
                              stderr=subprocess.DEVNULL)
    good = True
    try:
        print("| injection | verdict | compared with what is expected | seconds after the timeout | load | sentence |\n"
              "| --- | --- | --- | --- | --- | --- |", flush=True)
        for name in options.injections or EXPECTED:
            directory = base / name
            directory.mkdir(parents=True)
            row, right = trial(name, network, directory, options)
            good = good and right
            print(re.sub(r"pid \d+", "pid N", row), flush=True)
    finally:
        server.kill()
        server.wait()
        network.close()
        temporary.cleanup()
    return not good


if __name__ == "__main__":
    sys.exit(main())
