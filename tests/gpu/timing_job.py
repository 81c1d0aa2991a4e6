"""The job that tests/gpu/timing.py runs on every rank, under torchrun: timing_job.py MODE RESULT SECONDS

The result of each part of a mode is written to RESULT.RANK.json at its end, so that a later hang loses nothing.
Without a GPU a small version runs on the CPU, which only tests this program.
"""

import gc
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
os.environ.setdefault("XPURUN_TEST_SOURCE", str(ROOT))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import segment  # noqa: E402

RANK, LOCAL, WORLD = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", LOCAL) if GPU else torch.device("cpu")
# Width, layers, tokens and small matmuls a step.
WIDTHS = {"ddp": 2048, "fsdp": 4096} if GPU else {"ddp": 32, "fsdp": 32}
LAYERS = {"ddp": 6, "fsdp": 4}
SEQUENCES, TOKENS = (4, 1024) if GPU else (2, 8)
SMALL = 3000 if GPU else 30


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        attended = (nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) if GPU else v)
        x = x + self.out(attended.transpose(1, 2).reshape(b, s, w))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def model_step(kind):
    torch.manual_seed(0)
    width = WIDTHS[kind]
    dtype = torch.bfloat16 if GPU else torch.float32
    model = nn.Sequential(*[Block(width, 32) for _ in range(LAYERS[kind])]).to(DEVICE).to(dtype)
    if kind == "fsdp" and GPU:
        from torch.distributed.fsdp import fully_shard
        for block in model:
            fully_shard(block)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL] if GPU else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(SEQUENCES, TOKENS, width, device=DEVICE, dtype=dtype)

    def step():
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def small_step():
    a, b = torch.randn(64, 64, device=DEVICE), torch.randn(64, 64, device=DEVICE)

    def step():
        for _ in range(SMALL):
            torch.mm(a, b)
    return step


def synchronize():
    if GPU:
        torch.cuda.synchronize()


def meet():
    synchronize()
    dist.all_reduce(torch.ones(1, device=DEVICE))
    synchronize()


class Writer:
    """Results so far, on disk after each of them."""

    def __init__(self, path):
        self.path, self.results, self.begun = pathlib.Path(f"{path}.{RANK}.json"), {}, time.monotonic()

    def add(self, name, result):
        self.results[name] = result
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.results))
        part.rename(self.path)
        if RANK == 0:
            print(f"{name}: done after {time.monotonic() - self.begun:.1f} s", flush=True)


def main():
    mode, result, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    deadline = time.monotonic() + seconds
    if GPU:
        torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl" if GPU else "gloo")
    meet()
    writer = Writer(result)
    gc.disable()
    if mode.startswith("profiler"):
        import timing_profiler
        timing_profiler.run(mode, segment.Segment.of_this_process(), writer, deadline)
    elif mode.startswith("ab"):
        import timing_ab
        timing_ab.run(mode, segment.Segment.of_this_process(), writer, deadline)
    else:
        import timing_checks
        timing_checks.run(mode, segment.Segment.of_this_process(), writer, deadline)
    meet()
    # The poller's last poll must find everything done.
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.modules["timing_job"] = sys.modules["__main__"]
    main()
