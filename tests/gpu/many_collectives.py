#!/usr/bin/env python3
"""Ten million collectives of a healthy job with two ranks: does the ledger ever call one of them a mismatch?

usage: tests/gpu/many_collectives.py XPURUN OUT_DIR [COUNT [SECONDS [BACKEND]]]

The job calls in turn: all_reduce of changing sizes in two groups, all_gather and reduce_scatter, all_to_all with sizes
that differ by rank, coalesced sends and receives, broadcasts from both ranks and a barrier. It ends after COUNT calls
on each rank (10,000,000) or SECONDS (300). Prints the number of calls and what xpurun said; exits 1 if the job failed
or xpurun said anything but a healthy end. XPURUN_TEST_PYTHON names the Python that has torch; default: python3.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

PYTHON = os.environ.get("XPURUN_TEST_PYTHON", "python3")
CALLS_A_ROUND = 1000
SIZES = [[1, 3], [5, 2]]  # of all_to_all: what a rank sends to each


def one_round(torch, dist, rank, buffers, groups):
    """CALLS_A_ROUND calls. Only their order matters, so nothing reads the results."""
    small, large, halves, outgoing, incoming = buffers
    sent = SIZES[rank]
    received = [sizes[rank] for sizes in SIZES]
    for turn in range(25):
        for call in range(34):
            dist.all_reduce(small[: 1 + (turn + call) % 7], group=groups[call % 2])
        dist.all_gather_into_tensor(large, halves)
        dist.reduce_scatter_tensor(halves, large)
        dist.all_to_all_single(incoming[: sum(received)], outgoing[: sum(sent)], received, sent)
        dist.broadcast(small, turn % 2, group=groups[turn % 2])
        other = 1 - rank
        messages = [dist.P2POp(dist.isend, outgoing, other), dist.P2POp(dist.irecv, incoming, other)]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        if turn == 24:
            dist.barrier()
        else:
            dist.all_reduce(small)


def job(count, seconds, backend):
    import torch
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    device = "cpu"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = "cuda"
    dist.init_process_group(backend)
    groups = [dist.group.WORLD, dist.new_group([0, 1])]
    buffers = [torch.ones(size, device=device) for size in (8, 64, 32, 16, 16)]
    begun = time.monotonic()
    rounds = 0
    stop = torch.zeros(1, device=device)
    while rounds * CALLS_A_ROUND < count and not stop.item():
        one_round(torch, dist, rank, buffers, groups)
        rounds += 1
        stop.fill_(time.monotonic() - begun > seconds)
        dist.broadcast(stop, 0)
    print(f"rank {rank}: {rounds * CALLS_A_ROUND} collectives in {time.monotonic() - begun:.0f} s", flush=True)
    dist.destroy_process_group()


def main():
    xpurun, out = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    arguments = sys.argv[3:] + ["10000000", "300", "nccl"][len(sys.argv) - 3:]
    out.mkdir(parents=True, exist_ok=True)
    command = [xpurun, "run", "--out", str(out / "run"), "--metrics-port", "off", "--hang-timeout", "20", "--", PYTHON,
               "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29571", __file__, "job",
               *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (out / "output.txt").write_text(done.stdout)
    run = json.loads((out / "run" / "run.json").read_text())
    said = {name: run.get(name) for name in ("stalls", "incidents", "slowdowns", "mismatches") if run.get(name)}
    print("\n".join(line for line in done.stdout.splitlines() if "collectives in" in line))
    print(f"status {done.returncode}; verdict {run['verdict']['id']}: {run['verdict']['sentence']}; {said}")
    return 1 if done.returncode or not run["verdict"]["id"].startswith("none.") or said else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main())
