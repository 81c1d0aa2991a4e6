"""Faults on the GPU of one rank. A comment `at: NAME` marks the line that the verdict has to name."""

import torch
import torch.distributed as dist
from training import fault

FOREVER = 1 << 62  # cycles


def run_endless_kernel():
    torch.cuda._sleep(FOREVER)
    torch.cuda.synchronize()  # at: endless-kernel


@fault
def endless_kernel(job):
    if job.guilty:
        run_endless_kernel()


@fault
def stuck_before_launch(job):
    """The collective is queued behind a kernel that never ends."""
    if job.guilty:
        torch.cuda._sleep(FOREVER)
    dist.all_reduce(job.tensor(job.elements))  # at: stuck-before-launch
    job.wait()


@fault
def kernel_before_collective(job):
    """As in the backward pass of DDP: every rank has launched all collectives, and a kernel of the rank itself, between
    them, never ends."""
    works = []
    for bucket in range(4):
        if job.guilty and bucket == 2:
            torch.cuda._sleep(FOREVER)
        works.append(dist.all_reduce(job.tensor(job.elements), async_op=True))
    for work in works:
        work.wait()  # at: kernel-before-collective
    job.wait()


def grow_cache(job):
    return torch.empty(1 << 46, dtype=torch.uint8, device=job.device)  # at: cuda-oom


@fault
def cuda_oom(job):
    if job.guilty:
        grow_cache(job)


def look_up(job):
    table = job.tensor(16)
    rows = table[torch.tensor([1 << 20], device=job.device)]
    return rows.cpu()  # at: device-assert


@fault
def device_assert(job):
    if job.guilty:
        look_up(job)
