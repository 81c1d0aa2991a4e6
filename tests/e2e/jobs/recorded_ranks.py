"""Two ranks without torch that have a Flight Recorder like torch's: a thread reads the pipe once a moment and writes
the dump. Both ranks then stand still. `silent` as argument: rank 1 does not answer; `crash`: rank 1 aborts when both
listen."""

import os
import pathlib
import subprocess
import sys
import threading
import time

RANKS = 2
MAKER = pathlib.Path(__file__).resolve().parents[2] / "data/flight_recorder/make_dumps.py"


def pipe_of(rank):
    return f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"


def listen(rank, ready, dumps):
    path = pipe_of(rank)
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ready.set()
    while True:
        try:
            asked = os.read(pipe, 128)
        except BlockingIOError:
            asked = b""
        if asked and not (rank == 1 and sys.argv[-1] == "silent"):
            target = pathlib.Path(f"{os.environ['TORCH_NCCL_DEBUG_INFO_TEMP_FILE']}{rank}")
            target.write_bytes((dumps / f"nccl_trace_rank_{rank}").read_bytes())
        time.sleep(0.05)


def main():
    if "RANK" not in os.environ:
        ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]],
                                  env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS)})
                 for r in range(RANKS)]
        sys.exit(max(p.wait() for p in ranks))
    rank = int(os.environ["RANK"])
    dumps = pathlib.Path(os.environ["XPURUN_E2E"], f"dumps-{rank}")
    subprocess.run([sys.executable, MAKER, dumps, "mismatch", "--ranks", str(RANKS)], check=True)
    ready = threading.Event()
    threading.Thread(target=listen, args=(rank, ready, dumps), daemon=True).start()
    ready.wait()
    if rank == 1 and sys.argv[-1] == "crash":
        while not os.path.exists(pipe_of(0)):
            time.sleep(0.05)
        os.abort()
    time.sleep(1000)


if __name__ == "__main__":
    main()
