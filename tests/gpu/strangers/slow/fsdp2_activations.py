"""fully_shard (FSDP2) with per-block sharding; keeps some activations for a probe."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from pace import Pace

CUDA = torch.cuda.is_available()
D = 2048 if CUDA else 64


class MLPBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.a = nn.Linear(D, 4 * D, bias=False)
        self.b = nn.Linear(4 * D, D, bias=False)

    def forward(self, x):
        return x + self.b(torch.nn.functional.silu(self.a(self.norm(x))))


class Probe:
    def __init__(self):
        self.kept = {}

    def save_activations(self, x):
        self.kept["x"] = x.detach().float().cpu()  # 128 MiB, pageable
        self.kept["abs"] = x.detach().float().abs().cpu()


def main():
    local = int(os.environ["LOCAL_RANK"])
    if CUDA:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if CUDA else "gloo")
    mesh = init_device_mesh("cuda" if CUDA else "cpu", (dist.get_world_size(),))
    dev = "cuda" if CUDA else "cpu"
    model = nn.Sequential(*[MLPBlock() for _ in range(8)]).to(dev)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    probe = Probe()
    pace = Pace()
    x = torch.randn(16384 if CUDA else 64, D, device=dev)
    while pace.running():
        h = model(x)
        loss = h.float().square().mean()
        if dist.get_rank() == 0 and pace.late():
            probe.save_activations(h)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if pace.step % 10 == 0:
            value = loss.item()
            if dist.get_rank() == 0:
                print(pace.step, value, flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
