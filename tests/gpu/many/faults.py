"""The faults of train.py. Every rank calls the function of the fault in the step of the fault.

`DIR/fault` gets the wall time in ns at which the fault began.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

FAULTS = {}
FOREVER = 1 << 62  # cycles of a GPU
# Of slow-input. Four ranks have a pipeline, whose steps are longer.
SAMPLE_S = 0.1 if not torch.cuda.is_available() else 0.006 if int(os.environ["WORLD_SIZE"]) < 4 else 0.02
LARGE = 1 << 22  # elements: NCCL sends a small message without waiting for its receiver
BURN = "import os\nwhile os.getppid() == %d:\n    sum(range(1000))\n"
# Another job on the GPU. torch is loaded before the file tells this process to begin.
MATMULS = """
import os, time, torch
a = torch.randn(4096, 4096, device="cuda:%d", dtype=torch.bfloat16)
while os.getppid() == %d and not os.path.exists(%r):
    time.sleep(0.01)
while os.getppid() == %d:
    for _ in range(20):
        torch.mm(a, a)
    torch.cuda.synchronize()
"""


def fault(function):
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


class Samples:
    """A fault in the reading of samples, in the process of the data loader; set before it starts."""

    kind, first, directory = "none", 0, pathlib.Path(".")


def mark(directory):
    """The moment of the fault; of several moments the first."""
    try:
        with open(directory / "fault", "x", encoding="utf-8") as file:
            file.write(str(time.time_ns()))
    except FileExistsError:
        pass


def prepare(name, guilty, first_sample, directory):
    if guilty and name in ("stuck-worker", "slow-input"):
        Samples.kind, Samples.first, Samples.directory = name, first_sample, directory
    if guilty and name == "slow-gpu":
        device = torch.cuda.current_device()
        program = MATMULS % (device, os.getpid(), str(directory / "fault"), os.getpid())
        of_rank = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        env = {name: value for name, value in os.environ.items() if name not in of_rank}
        subprocess.Popen([sys.executable, "-c", program], env=env)


def begin(name, trainer, guilty, directory):
    if guilty and name not in ("stuck-worker", "slow-input"):
        mark(directory)
    FAULTS[name](trainer, guilty)


def read_sample(index):
    if Samples.kind == "none" or index < Samples.first:
        return
    mark(Samples.directory)
    if Samples.kind == "stuck-worker":
        decompress()
    time.sleep(SAMPLE_S)


def decompress():
    time.sleep(100000)


# ---- one rank stands still or computes for ever ----

@fault
def stuck_worker(trainer, guilty):
    """read_sample has the fault."""


@fault
def hang(trainer, guilty):
    if guilty:
        download_shard()


def download_shard():
    time.sleep(100000)


@fault
def stopped(trainer, guilty):
    if guilty:
        os.kill(os.getpid(), signal.SIGSTOP)


@fault
def python_loop(trainer, guilty):
    if guilty:
        count_tokens()


def count_tokens():
    count = 0
    while True:
        count += 1


@fault
def lock_order(trainer, guilty):
    if guilty:
        locks = (threading.Lock(), threading.Lock(), threading.Barrier(2))
        threading.Thread(target=flush_metrics, args=locks, daemon=True).start()
        save_checkpoint(*locks)


def flush_metrics(metrics, checkpoint, both_hold):
    with metrics:
        both_hold.wait()
        with checkpoint:
            pass


def save_checkpoint(metrics, checkpoint, both_hold):
    with checkpoint:
        both_hold.wait()
        with metrics:
            pass


@fault
def gil_in_c(trainer, guilty):
    """PyDLL keeps the GIL during the call."""
    if guilty:
        ctypes.PyDLL(None).sleep(100000)


@fault
def endless_kernel(trainer, guilty):
    if guilty:
        torch.cuda._sleep(FOREVER)
        torch.cuda.synchronize()


@fault
def queued(trainer, guilty):
    """The next collective waits on the GPU behind a kernel that never ends; the host goes on."""
    if guilty:
        torch.cuda._sleep(FOREVER)


# ---- calls that differ ----

def once(groups, name, other):
    """The next call of a method of the groups is another; calls after it are as ever."""
    usual = getattr(groups, name)

    def replaced(*args):
        setattr(groups, name, usual)
        return other(usual, *args)

    setattr(groups, name, replaced)


@fault
def tensor_size(trainer, guilty):
    if guilty:
        def reduce_part(usual, x):
            dist.all_reduce(x.flatten()[:x.numel() // 2], group=trainer.groups.tensor)
            return x
        once(trainer.groups, "sum_over_tensor", reduce_part)


@fault
def tensor_op(trainer, guilty):
    if guilty:
        def share(usual, x):
            first = dist.get_rank() - trainer.groups.tensor_rank
            dist.broadcast(x, first, group=trainer.groups.tensor)
            return x
        once(trainer.groups, "sum_over_tensor", share)


@fault
def tensor_type(trainer, guilty):
    if guilty:
        def reduce_exactly(usual, x):
            wide = x.double()
            dist.all_reduce(wide, group=trainer.groups.tensor)
            return wide.to(x.dtype)
        once(trainer.groups, "sum_over_tensor", reduce_exactly)


@fault
def skipped_call(trainer, guilty):
    """One rank of a subgroup leaves out one call."""
    if guilty:
        once(trainer.groups, "sum_over_tensor", lambda usual, x: x)


@fault
def wrong_root(trainer, guilty):
    """All get the weights of the last rank; one rank sends its own."""
    weights = torch.ones(LARGE, device=trainer.parameters[0].device)
    dist.broadcast(weights, dist.get_rank() if guilty else dist.get_world_size() - 1)


@fault
def wrong_order(trainer, guilty):
    """Statistics of the tensor group and of the world, in another order on one rank."""
    groups = [trainer.groups.tensor, None]
    for group in reversed(groups) if guilty else groups:
        dist.all_reduce(torch.ones(LARGE, device=trainer.parameters[0].device), group=group)


@fault
def missing_send(trainer, guilty):
    """A stage does not send the activations of one micro-batch."""
    if guilty:
        once(trainer.groups, "send", lambda usual, x, to: None)


@fault
def pipeline_shape(trainer, guilty):
    """A stage sends half of what the next stage receives; twice as much with gloo, which takes less without a word."""
    if guilty:
        once(trainer.groups, "send",
             lambda usual, x, to: usual(x[:len(x) // 2].contiguous() if x.is_cuda else torch.cat([x, x]), to))


@fault
def no_new_group(trainer, guilty):
    """One rank does not call new_group with the others, who use the group at once."""
    if not guilty:
        group = dist.new_group()
        dist.all_reduce(torch.ones(LARGE, device=trainer.parameters[0].device), group=group)


@fault
def fewer_batches(trainer, guilty):
    if guilty:
        trainer.batches = iter([])


# ---- one rank fails ----

@fault
def out_of_memory(trainer, guilty):
    if guilty:
        grow_cache(trainer.parameters[0].device)


def grow_cache(device):
    return torch.empty(1 << 46, dtype=torch.uint8, device=device)


@fault
def device_assert(trainer, guilty):
    if guilty:
        look_up(torch.ones(16, device=trainer.parameters[0].device))


def look_up(table):
    return table[torch.tensor([1 << 20], device=table.device)].cpu()


@fault
def killed(trainer, guilty):
    if guilty:
        os.kill(os.getpid(), signal.SIGKILL)


@fault
def exception(trainer, guilty):
    if guilty:
        collate({"image": 1})


def collate(sample):
    return sample["label"]


@fault
def segv(trainer, guilty):
    if guilty:
        ctypes.CDLL("libstdc++.so.6")._ZNSo5flushEv(None)


@fault
def early_exit(trainer, guilty):
    if guilty:
        os._exit(0)


# ---- one rank is slow ----

@fault
def slow_input(trainer, guilty):
    """read_sample has the fault."""


@fault
def slow_host(trainer, guilty):
    """The rank shares one core with processes that compute."""
    if guilty:
        core = {sorted(os.sched_getaffinity(0))[-1]}
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), core)
        for _ in range(3):
            subprocess.Popen([sys.executable, "-c", BURN % os.getpid()])


@fault
def slow_gpu(trainer, guilty):
    """The process that prepare() started begins to compute on the GPU of the rank."""
