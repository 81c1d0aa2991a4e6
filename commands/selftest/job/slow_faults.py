"""Slow jobs: a training loop with a data loader, DistributedDataParallel and an optimizer, as users write it.

From step FROM on the job is slower, in rank 1 or in all ranks. Without a GPU the model sleeps instead of computing, so
that the load of the machine matters little.
"""

import gc
import io
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

JOBS = {}  # injection: its class
STEPS, FROM = (500, 250) if torch.cuda.is_available() else (200, 100)
CPU_STEP_S = 0.02
# A step of about 20 ms on an H200. Ranks that share a GPU send gradients through loopback: a smaller model.
SHARED = torch.cuda.device_count() < int(os.environ.get("WORLD_SIZE", "1"))
WIDTH, LAYERS, HEADS, SEQUENCES, TOKENS, WORDS = (512 if SHARED else 2048), 6, (8 if SHARED else 16), 4, 1024, 1000
BURN = "import os\nwhile os.getppid() == %d:\n    sum(range(1000))\n"
# Another job on the same GPU. torch is loaded before the file tells this process to begin.
MATMULS = """
import os, time, torch
a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.bfloat16)
while os.getppid() == %d and not os.path.exists(%r):
    time.sleep(0.01)
while os.getppid() == %d:
    for _ in range(20):
        torch.mm(a, a)
    torch.cuda.synchronize()
"""


def slow_job(kind):
    """The injection is named like the class, with dashes."""
    JOBS["".join("-" + c.lower() if c.isupper() else c for c in kind.__name__)[1:]] = kind
    return kind


def spin(seconds):
    """Uses this much CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Numbers(Dataset):
    def __init__(self, slow):
        self.slow = slow

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        self.slow.read_sample(index)
        return torch.zeros(SEQUENCES, TOKENS, dtype=torch.int64)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, s, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GpuModel(nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.slow = slow
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x):
        x = self.words(x[:, :self.slow.tokens()])
        for number in self.slow.layers():
            x = self.blocks[number](x)
        return x


class CpuModel(nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.slow = slow
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        self.slow.compute(CPU_STEP_S * self.slow.tokens() / TOKENS * len(self.slow.layers()) / LAYERS)
        return self.layer(x[:, :8].float())


class Usual:
    """The job without a fault; the faults override a part of it."""

    slower = True  # from FROM on

    def __init__(self, job):
        self.job = job
        self.step = 0

    @property
    def begun(self):
        return self.step >= FROM

    @property
    def active(self):
        return self.begun and self.job.guilty

    def read_sample(self, index):
        pass

    def compute(self, seconds):
        time.sleep(seconds)

    def tokens(self):
        return TOKENS

    def layers(self):
        return list(range(LAYERS))

    def parallel(self, model):
        devices = [torch.device(self.job.device).index] if self.job.gpu else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def before_step(self, model):
        pass

    def after_backward(self, model):
        pass

    def after_step(self, model):
        pass


@slow_job
class NothingSlow(Usual):
    slower = False


@slow_job
class SlowLoader(Usual):
    def read_sample(self, index):
        if self.active:
            time.sleep(0.025 if self.job.gpu else 0.05)


@slow_job
class GarbageStorm(Usual):
    """Many objects that refer to each other, and a collection in every step."""

    def __init__(self, job):
        super().__init__(job)
        self.heap = []

    def before_step(self, model):
        if self.active:
            if not self.heap:
                self.heap = [[number] for number in range(100_000 if self.job.gpu else 400_000)]
            gc.collect()


@slow_job
class BusyCore(Usual):
    """The rank shares one core with processes that compute."""

    others = 3

    def __init__(self, job):
        super().__init__(job)
        self.processes = []

    def compute(self, seconds):
        spin(seconds)

    def before_step(self, model):
        if self.active and not self.processes:
            core = {sorted(os.sched_getaffinity(0))[-1]}
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), core)
            self.processes = [subprocess.Popen([sys.executable, "-c", BURN % os.getpid()]) for _ in range(self.others)]


@slow_job
class SlowerModel(Usual):
    """All ranks compute more."""

    def layers(self):
        return super().layers() + (list(range(LAYERS // 2)) if self.begun else [])


@slow_job
class SlowCheckpoint(Usual):
    slower = False

    def after_step(self, model):
        if self.step % 40 == 39 and self.job.rank == 0:
            torch.save(model.state_dict() if self.job.gpu else {"x": torch.zeros(8)}, SlowFile())


class SlowFile(io.RawIOBase):
    def __init__(self):
        super().__init__()
        self.begun = False

    def writable(self):
        return True

    def write(self, data):
        if not self.begun:
            self.begun = True
            time.sleep(0.3)
        return len(data)


@slow_job
class AlternatingShapes(Usual):
    slower = False

    def tokens(self):
        return (TOKENS // 2, TOKENS, TOKENS * 3 // 4)[self.step % 3]


@slow_job
class ExtraSync(Usual):
    """A rank waits for its GPU after each of many small operations."""

    def after_backward(self, model):
        if self.active:
            for _ in range(3):
                for parameter in model.parameters():
                    parameter.grad[:1].norm().item()


@slow_job
class SharedGpu(Usual):
    """Another process computes on the GPU of the rank."""

    def __init__(self, job):
        super().__init__(job)
        if job.guilty:
            program = MATMULS % (os.getpid(), job.file("compete"), os.getpid())
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            device = visible[job.rank] if len(visible) > job.rank else str(job.rank)
            of_rank = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
            env = {name: value for name, value in os.environ.items() if name not in of_rank}
            self.other = subprocess.Popen([sys.executable, "-c", program], env=dict(env, CUDA_VISIBLE_DEVICES=device))

    def before_step(self, model):
        if self.job.guilty and self.step == FROM:
            open(self.job.file("compete"), "w").close()


@slow_job
class SlowLink(Usual):
    """Gradients are reduced through a communicator that may use one block of a GPU."""

    def __init__(self, job):
        super().__init__(job)
        options = dist.ProcessGroupNCCL.Options()
        options.config.max_ctas = 1
        self.slow_group = dist.new_group(pg_options=options)
        for group in (None, self.slow_group):  # NCCL connects the ranks in the first call
            dist.all_reduce(job.tensor(1), group=group)

    def parallel(self, model):
        return model

    def after_backward(self, model):
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=self.slow_group if self.begun else None)


def run(name, job):
    slow = JOBS[name](job)
    torch.manual_seed(0)
    model = GpuModel(slow).to(job.device).to(torch.bfloat16) if job.gpu else CpuModel(slow)
    model = slow.parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for slow.step, batch in enumerate(DataLoader(Numbers(slow), batch_size=None)):
        if slow.step == FROM and slow.slower:
            job.begin_fault(FROM)
        slow.before_step(model)
        optimizer.zero_grad()
        loss = model(batch.to(job.device)).float().square().mean()
        loss.backward()
        slow.after_backward(model)
        optimizer.step()
        slow.after_step(model)
        if slow.step % 20 == 19:
            job.wait()  # a loop that prints its loss
