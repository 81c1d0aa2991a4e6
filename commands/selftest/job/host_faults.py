"""Faults of one rank by itself: it stands still, computes for ever, fails, or is ended.

A comment `at: NAME` marks the line that the verdict has to name.
"""

import ctypes
import itertools
import os
import queue
import resource
import signal
import sys
import threading
import time

from torch.utils.data import DataLoader, Dataset
from training import fault


def cpp_library():
    return ctypes.CDLL("libstdc++.so.6")


# ---- standing still ----

@fault
def stopped(job):
    if job.guilty:
        os.kill(os.getpid(), signal.SIGSTOP)  # at: stopped


def hold_the_gil():
    ctypes.PyDLL(None).sleep(100000)  # at: gil-in-c


@fault
def gil_in_c(job):
    """PyDLL keeps the GIL during the call. The main thread cannot go on."""
    if job.guilty:
        thread = threading.Thread(target=hold_the_gil, daemon=True)
        thread.start()
        thread.join()


def flush_metrics(metrics, checkpoint, both_hold):
    with metrics:
        both_hold.wait()
        with checkpoint:
            pass


def save_checkpoint(metrics, checkpoint, both_hold):
    with checkpoint:
        both_hold.wait()
        with metrics:  # at: lock-order
            pass


@fault
def lock_order(job):
    if job.guilty:
        locks = (threading.Lock(), threading.Lock(), threading.Barrier(2))
        threading.Thread(target=flush_metrics, args=locks, daemon=True).start()
        save_checkpoint(*locks)


def feed(batches):
    for batch in range(2):
        batches.put(batch)


def next_batch(batches):
    return batches.get()  # at: dead-feeder


@fault
def dead_feeder(job):
    """The thread that feeds the queue has ended; its consumer has not noticed."""
    if job.guilty:
        batches = queue.Queue()
        threading.Thread(target=feed, args=(batches,)).start()
        for _ in range(3):
            next_batch(batches)


def read_sample(index):
    time.sleep(100000 if index else 0)  # at: read-sample


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        read_sample(index)
        return index


def next_samples(loader):
    return next(loader)


@fault
def stuck_worker(job):
    if job.guilty:
        loader = iter(DataLoader(Samples(), num_workers=1, batch_size=1))
        for _ in range(2):
            next_samples(loader)


def read_shard(fd):
    return os.read(fd, 1)  # at: blocked-read


@fault
def blocked_read(job):
    """A FIFO that nobody writes to."""
    if job.guilty:
        os.mkfifo(job.file("shard"))
        read_shard(os.open(job.file("shard"), os.O_RDWR))


def write_log(fd):
    while True:
        os.write(fd, b"x" * 4096)  # at: blocked-write


@fault
def blocked_write(job):
    """A pipe that nobody reads from."""
    if job.guilty:
        write_log(os.pipe()[1])


# ---- computing for ever ----

def count_tokens():
    count = 0
    while True:  # at: python-loop
        count += 1  # at: python-loop


@fault
def python_loop(job):
    if job.guilty:
        count_tokens()


def sum_lengths():
    return sum(itertools.repeat(0))  # at: c-loop


@fault
def c_loop(job):
    if job.guilty:
        sum_lengths()


def take_lock(lock):
    ctypes.CDLL(None).pthread_spin_lock(lock)  # at: native-spin


@fault
def native_spin(job):
    """A spin lock of C that its holder does not give back."""
    if job.guilty:
        lock = ctypes.byref(ctypes.c_int())
        ctypes.CDLL(None).pthread_spin_init(lock, 0)
        ctypes.CDLL(None).pthread_spin_lock(lock)
        take_lock(lock)


# ---- failing ----

def collate(sample):
    return sample["label"]  # at: exception


@fault
def exception(job):
    if job.guilty:
        collate({"image": 1})


def prefetch():
    raise ValueError("shard 17 is truncated")


@fault
def thread_exception(job):
    """The exception ends a thread; the main thread waits for its work."""
    if job.guilty:
        threading.Thread(target=prefetch).start()
        take_prefetched(queue.Queue())


def take_prefetched(batches):
    return batches.get()  # at: thread-exception


def close_writer():
    time.sleep(100000)  # at: swallowed-exception


@fault
def swallowed_exception(job):
    """The exception never leaves the function: what cleans up hangs."""
    if job.guilty:
        try:
            raise ValueError("record 17 is damaged")
        finally:
            close_writer()


@fault
def exit_status(job):
    if job.guilty:
        sys.exit("no such data set")  # at: exit-status


@fault
def early_exit(job):
    if job.guilty:
        os._exit(0)


def flush_stream():
    cpp_library()._ZNSo5flushEv(None)  # at: segv


@fault
def segv(job):
    """std::ostream::flush() of a null pointer."""
    if job.guilty:
        flush_stream()


def load_tokenizer():
    cpp_library()._ZSt21__throw_runtime_errorPKc(b"tokenizer table is damaged")  # at: terminate


@fault
def terminate(job):
    """A C++ exception that nobody catches."""
    if job.guilty:
        load_tokenizer()


def check_table():
    os.write(2, b"fatal: the table of merges is damaged\n")
    os.abort()  # at: abort


@fault
def abort(job):
    if job.guilty:
        check_table()


# ---- ended by others ----

@fault
def rank_killed(job):
    if job.guilty:
        os.kill(os.getpid(), signal.SIGKILL)


def memory_groups():
    """(directory below which a control group can be made, names of its limits of memory and of swap)."""
    with open("/proc/self/cgroup") as lines:
        own = [line.rstrip("\n").split(":", 2) for line in lines]
    for _, controllers, path in own:
        if "memory" in controllers.split(","):
            return "/sys/fs/cgroup/memory" + path.rstrip("/"), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    parent = next(("/sys/fs/cgroup" + path.rstrip("/") for number, _, path in own if number == "0"), None)
    if parent is None:
        raise OSError("no control groups")
    with open(parent + "/cgroup.subtree_control") as controllers:
        if "memory" not in controllers.read().split():
            raise OSError("no limit of memory below " + parent)
    return parent, "memory.max", "memory.swap.max"


def limit_memory(job):
    """A control group of 64 MiB for this process. Fails where control groups are not ours to make."""
    parent, memory, swap = memory_groups()
    group = parent + "/xpurun-selftest-%d" % os.getpid()
    os.mkdir(group)
    with open(job.file("cgroup"), "w") as file:
        file.write(group)
    limits = [(memory, 64 << 20)]
    if os.path.exists(os.path.join(group, swap)):  # the kernel counts swap; version 1 limits the sum
        limits.append((swap, 64 << 20 if "memsw" in swap else 0))
    for name, value in limits + [("cgroup.procs", os.getpid())]:
        with open(os.path.join(group, name), "w") as file:
            file.write(str(value))


def limit_cpu_time():
    """The other limit at which the kernel sends SIGKILL."""
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))  # seconds; the import of torch has taken more


def grow():
    blocks = []
    while True:
        if len(blocks) < 256:
            blocks.append(os.urandom(1 << 20))


@fault
def oom_kill(job):
    if job.guilty:
        try:
            limit_memory(job)
        except OSError:
            limit_cpu_time()
        grow()
