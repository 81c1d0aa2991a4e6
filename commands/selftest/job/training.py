"""The training loop that all injections share, and the table of the faults."""

import os
import time

import torch
import torch.distributed as dist

import slow_faults

FAULTS = {}         # injection: what every rank calls in the step of the fault
BEFORE_START = {}   # the same, called before the ranks have met
FAULT_STEP = 3
STEPS = 8


def fault(function):
    """The injection is named like the function, with dashes."""
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


def fault_before_start(function):
    BEFORE_START[function.__name__.replace("_", "-")] = function
    return function


class NoMoreBatches(Exception):
    """A rank whose data ends before that of the others."""


class Job:
    culprit = 1  # the rank that has the fault, unless the injection says otherwise

    def __init__(self, directory, hang_timeout_s, gpu):
        self.directory = directory
        self.hang_timeout_s = hang_timeout_s
        self.rank = int(os.environ["RANK"])
        self.ranks = int(os.environ["WORLD_SIZE"])
        self.gpu = gpu
        self.backend = "nccl" if gpu else "gloo"
        self.gpus = torch.cuda.device_count() if gpu else 0
        self.device = "cuda:%d" % (int(os.environ["LOCAL_RANK"]) % self.gpus) if gpu else "cpu"
        # NCCL sends a small message without waiting for its receiver.
        self.elements = 1 << 22 if gpu else 4096

    @property
    def guilty(self):
        return self.rank == self.culprit

    def tensor(self, elements, dtype=torch.float32):
        return torch.ones(elements, dtype=dtype, device=self.device)

    def wait(self):
        """What loss.item() does in a real loop: a collective on the GPU lets the program go on."""
        if self.gpu:
            torch.cuda.synchronize()  # at: wait

    def file(self, name):
        return os.path.join(self.directory, name)

    def begin_fault(self, step):
        """The file's time of change is the moment from which the verdict's seconds count."""
        if self.guilty:
            with open(self.file("fault"), "w") as file:
                file.write("%d\n" % step)


def load_batch(job):
    time.sleep(0.02)
    return job.tensor(job.elements)


def average_gradients(job, gradients):
    dist.all_reduce(gradients)  # at: average-gradients
    job.wait()


def finish(job):
    dist.barrier()  # at: finish
    job.wait()


def train(job, inject):
    for step in range(STEPS):
        gradients = load_batch(job) * 0.5
        if step == FAULT_STEP:
            job.begin_fault(step)
            inject(job)
        average_gradients(job, gradients)


def meet(job):
    """Waits for all ranks: on a busy machine one may need longer to import torch than the hang timeout."""
    open(job.file("ready-%d" % job.rank), "w").close()
    while not all(os.path.exists(job.file("ready-%d" % rank)) for rank in range(job.ranks)):
        time.sleep(0.05)


def share_gpus(job):
    """NCCL refuses two ranks on one GPU of a host. With these settings each rank counts as a separate host."""
    os.environ["NCCL_HOSTID"] = "xpurun-selftest-%d" % job.rank
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_IB_DISABLE", "1")


def run(name, job):
    torch.set_num_threads(1)
    meet(job)
    if name in BEFORE_START:
        BEFORE_START[name](job)
    if job.gpu:
        torch.cuda.set_device(job.device)
        if job.ranks > job.gpus:
            share_gpus(job)
    dist.init_process_group(job.backend)  # at: rendezvous
    try:
        if name in slow_faults.JOBS:
            slow_faults.run(name, job)
        else:
            train(job, FAULTS.get(name, lambda job: None))
    except NoMoreBatches:
        pass
    finish(job)
    dist.destroy_process_group()
