#!/usr/bin/env python3
"""How fast a trace of torch.profiler is read: CPU seconds and memory of `xpurun timeline`, beside Python's json.

usage: foreign_traces.py XPURUN [MEGABYTES]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

EVENT = ('{"ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d, "ts": %d.%03d, "dur": %d.250, "args": '
         '{"External id": %d, "correlation": %d, "Record function id": 0, "Ev Idx": %d, "stream": 7}},\n')
NAMES = [("cpu_op", f"aten::op_{i}", 100, 100) for i in range(150)]
NAMES += [("cuda_runtime", "cudaLaunchKernel", 100, 100)] * 40
NAMES += [("kernel", f"void at::native::vectorized_elementwise_kernel<4, functor_{i}>(int, functor)", 0, 7)
          for i in range(60)]


def write(path, megabytes):
    """The number of events."""
    written = count = 0
    with open(path, "w") as out:
        out.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n')
        while written < megabytes * 10**6:
            kind, name, pid, tid = NAMES[count * 7 % len(NAMES)]
            event = EVENT % (kind, name, pid, tid, 10 * count, count % 1000, count % 9, count, count, count)
            written += out.write(event)
            count += 1
        out.write('{"ph": "i", "name": "end"}]}\n')
    return count


def measured(command):
    """CPU seconds and MiB of memory."""
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 250
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/x.pt.trace.json"
        events = write(path, megabytes)
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)  # into the page cache
        for what, command in (("xpurun timeline", [program, "timeline", "-q", "-o", f"{directory}/out", path]),
                              ("json.load", [sys.executable, "-c", f"import json; json.load(open({path!r}))"])):
            seconds, memory = min(measured(command) for _ in range(3))
            print(f"{what}: {megabytes} MB, {events} events: {seconds:.2f} s CPU, {megabytes / seconds:.0f} MB/s, "
                  f"{memory:.0f} MiB")


if __name__ == "__main__":
    main()
