"""Faults of communication: ranks that call other collectives than their peers, or none.

Every rank calls the function of its injection in the step of the fault. A comment `at: NAME` marks the line that
the verdict has to name.
"""

import datetime
import time

import torch
import torch.distributed as dist
from training import NoMoreBatches, fault, fault_before_start


def download_shard():
    time.sleep(100000)  # at: never-enters


@fault
def healthy(job):
    """No fault: one rank is five times slower than the others, for longer than the hang timeout."""
    end = time.monotonic() + 1.5 * job.hang_timeout_s
    going_on = job.tensor(1)
    while going_on.item() > 0:
        time.sleep(0.1 if job.guilty else 0.02)
        # All ranks stop after the same number of rounds.
        going_on = job.tensor(1) * (time.monotonic() < end)
        dist.all_reduce(going_on, op=dist.ReduceOp.MIN)


@fault
def never_enters(job):
    if job.guilty:
        download_shard()


@fault
def late_enters(job):
    if job.guilty:
        time.sleep(1.5 * job.hang_timeout_s)


@fault
def fewer_batches(job):
    if job.guilty:
        raise NoMoreBatches


@fault
def skipped_branch(job):
    statistics = job.tensor(16)
    if not job.guilty:
        gathered = [torch.empty_like(statistics) for _ in range(job.ranks)]
        dist.all_gather(gathered, statistics)
        job.wait()


@fault
def wrong_size(job):
    gradients = job.tensor(1000 if job.guilty else job.elements)
    dist.all_reduce(gradients)  # at: wrong-size
    job.wait()


@fault
def wrong_type(job):
    # NCCL's buffers hide a small difference.
    gradients = job.tensor((16 if job.gpu else 1) * job.elements, torch.float64 if job.guilty else torch.float32)
    dist.all_reduce(gradients)  # at: wrong-type
    job.wait()


@fault
def wrong_op(job):
    weights = job.tensor(job.elements)
    if job.guilty:
        dist.broadcast(weights, src=0)  # at: wrong-op
    else:
        dist.all_reduce(weights)
    job.wait()


@fault
def wrong_root(job):
    weights = job.tensor(job.elements)
    # The culprit waits for a rank that sends nothing.
    dist.broadcast(weights, src=0 if job.guilty else job.ranks - 1)  # at: wrong-root
    job.wait()


@fault
def communicator_order(job):
    groups = [dist.new_group(), dist.new_group()]
    for group in groups:  # both exist before their order matters
        dist.barrier(group=group)
    if job.guilty:
        groups.reverse()
    for group in groups:
        dist.all_reduce(job.tensor(job.elements), group=group)  # at: communicator-order
        job.wait()


@fault
def missing_send(job):
    activations = job.tensor(job.elements)
    for last in (False, True):
        if job.rank == 0:
            dist.recv(activations, src=job.culprit)
        elif job.guilty and not last:
            dist.send(activations, dst=0)
        job.wait()


@fault
def lazy_new_group(job):
    if not job.guilty:
        group = dist.new_group()
        dist.barrier(group=group)
        job.wait()


@fault
def extra_call(job):
    for step in range(24):
        dist.all_reduce(job.tensor(16))  # at: metrics-loop
        job.wait()
        if job.guilty and step == 12:
            dist.all_reduce(job.tensor(16))
            job.wait()


@fault
def skipped_call(job):
    for step in range(24):
        if not (job.guilty and step == 12):
            dist.all_reduce(job.tensor(16))  # at: skipped-call
            job.wait()


@fault
def silent_mismatch(job):
    """Both types have 4 bytes: the calls meet and end, and the sums are wrong."""
    for step in range(24):
        other = job.guilty and step == 12
        counts = job.tensor(job.elements, torch.int32 if other else torch.float32)
        dist.all_reduce(counts)  # at: silent-mismatch
        job.wait()


@fault
def uneven_all_to_all(job):
    """The others get more from the culprit than they expect."""
    for step in range(20):
        other = job.guilty and step == 19
        if other:
            time.sleep(0.5)  # they have called
        sent = [12 if other and peer != job.rank else 8 for peer in range(job.ranks)]
        tokens = job.tensor(8 * job.ranks)
        dist.all_to_all_single(tokens, job.tensor(sum(sent)), [8] * job.ranks, sent)  # at: uneven-all-to-all
        job.wait()


@fault
def backend_timeout(job):
    """The backend gives up before xpurun: the rank that raises is a victim."""
    group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=job.hang_timeout_s / 2))
    if job.guilty:
        write_checkpoint()
    dist.all_reduce(torch.ones(job.elements), group=group)


def write_checkpoint():
    time.sleep(100000)  # at: backend-timeout


@fault
def wrong_group_list(job):
    ranks = list(range(job.ranks))
    group = dist.new_group(ranks[1:] if job.guilty else ranks)  # at: wrong-group-list
    dist.barrier(group=group)


@fault
def send_send(job):
    peers = [rank for rank in range(job.ranks) if rank in (job.culprit, (job.culprit + 1) % job.ranks)]
    if job.rank in peers:
        other = peers[1 - peers.index(job.rank)]
        dist.recv(job.tensor(job.elements), src=other)
        dist.send(job.tensor(job.elements), dst=other)
        job.wait()


@fault
def nested_groups(job):
    """Ranks 2 and 3 wait for rank 0 and 1 along the data dimension; rank 0 waits for rank 1 along the tensors'."""
    tensor_groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    data_groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    for _ in range(3):
        dist.all_reduce(job.tensor(job.elements), group=tensor_groups[job.rank // 2])
        dist.all_reduce(job.tensor(job.elements), group=data_groups[job.rank % 2])
    job.wait()
    if job.guilty:
        recompute_activations()
    dist.all_reduce(job.tensor(job.elements), group=tensor_groups[job.rank // 2])
    job.wait()
    dist.all_reduce(job.tensor(job.elements), group=data_groups[job.rank % 2])
    job.wait()


def recompute_activations():
    time.sleep(100000)  # at: nested-groups


@fault_before_start
def ghost_rank(job):
    """Rank 1 was never started: the others wait for it (job.py)."""
    job.culprit = 0
    job.begin_fault(0)


@fault_before_start
def store_never_reached(job):
    """Rank 0, which is to serve the store, stops before: the others look for the store in vain."""
    job.culprit = 0
    job.begin_fault(0)
    if job.guilty:
        prepare_data()


def prepare_data():
    time.sleep(100000)  # at: store-never-reached


@fault
def store_key_never_set(job):
    """A rank waits in the store for a key that nobody sets."""
    if job.guilty:
        read_shard_list(dist.distributed_c10d._get_default_store())


def read_shard_list(store):
    store.get("shards")  # at: store-key-never-set
