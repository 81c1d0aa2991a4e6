"""A real data-parallel training run on the CPU (gloo) or on GPUs (NCCL), with a selectable fault.

Started by torchrun, one process per rank. Every step loads a batch, runs a tiny model under DistributedDataParallel
and averages the loss with an explicit all_reduce. From --at-step on, the rank --guilty performs --fault
inside load_batch.
"""

import argparse
import ctypes
import hashlib
import os
import signal
import stat
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LAUNCHER_PID = os.getppid()


def read_shard():
    time.sleep(10000)


def spin():
    x = 0
    while True:
        x += 1


def compute(seconds):
    end = time.monotonic() + seconds
    x = 0
    while time.monotonic() < end:
        x += 1


def write_checkpoint(seconds):
    end = time.monotonic() + seconds
    path = f"/tmp/xpurun-checkpoint-{os.getpid()}"
    block = b"x" * (8 << 20)
    try:
        while time.monotonic() < end:
            with open(path, "wb") as f:
                f.write(block)
            time.sleep(0.05)
    finally:
        os.unlink(path)


def hold_sockets():
    """Leaves a helper behind that keeps this process's connections open, so that the peers see no end of file and
    wait, as on a network that does not notice an end. The helper has no environment, so it does not count as a rank. It
    ends with the launcher."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.set_inheritable(fd, True)
        except OSError:
            pass  # the directory's own descriptor, closed by now
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    script = f"while kill -0 {LAUNCHER_PID}; do sleep 0.2; done"
    os.posix_spawn("/bin/sh", ["/bin/sh", "-c", script], {}, file_actions=null)


def long_call(seconds):
    """One call into C that computes for the given time, calibrated on this machine, without visible progress."""
    def derive(rounds):
        start = time.thread_time()
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(rounds))
        return time.thread_time() - start

    trial = 100000
    derive(seconds * trial / derive(trial))


def null_pointer():
    ctypes.string_at(0)


def fail(fault, seconds):
    if fault == "sleep":
        read_shard()
    elif fault == "spin":
        spin()
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "segv":
        null_pointer()
    elif fault == "abort":
        os.abort()
    elif fault == "raise":
        raise ValueError("bad batch")
    elif fault == "exit0":
        hold_sockets()
        os._exit(0)
    elif fault == "exit0-closed":
        os._exit(0)
    elif fault == "slow":
        compute(seconds)
    elif fault == "checkpoint":
        write_checkpoint(seconds)


def load_batch(args, rank, step):
    if args.fault == "longcall":
        if step == args.at_step:
            long_call(args.seconds)
    elif rank == args.guilty and step >= args.at_step:
        if args.fault in ("slow", "checkpoint", "stop") and step > args.at_step:
            return torch.randn(8, 16)
        fail(args.fault, args.seconds)
    return torch.randn(8, 16)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--guilty", type=int, default=-1)
    p.add_argument("--at-step", type=int, default=3)
    p.add_argument("--fault", default="none")
    p.add_argument("--faulty-starts", type=int, default=100, help="after so many starts by torchrun, no fault any more")
    p.add_argument("--seconds", type=float, default=10, help="length of slow, checkpoint and longcall")
    p.add_argument("--backend", default="gloo")
    args = p.parse_args()
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) >= args.faulty_starts:
        args.fault = "none"

    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    rank = dist.get_rank()
    device = torch.device("cpu")
    if args.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    model = DistributedDataParallel(torch.nn.Linear(16, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(args.steps):
        batch = load_batch(args, rank, step).to(device)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / dist.get_world_size():.4f}", flush=True)
        time.sleep(0.02)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
