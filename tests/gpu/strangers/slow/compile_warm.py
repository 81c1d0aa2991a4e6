"""torch.compile with three input sizes: recompiles at the start, then steady; evaluation every 100 steps."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

cuda = torch.cuda.is_available()


def main():
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    torch.set_float32_matmul_precision("high")
    d = 2048 if cuda else 32
    net = nn.Sequential(*[nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.LayerNorm(d)) for _ in range(3)]).to(dev)
    model = DDP(net)
    fwd = torch.compile(model, dynamic=False) if cuda else model
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    sizes = [(2048, 3072, 4096)[k] if cuda else 8 for k in range(3)]
    inputs = [torch.randn(s, d, device=dev) for s in sizes]
    pace = Pace(healthy=True, skip=30)
    while pace.running():
        x = inputs[pace.step // 4 % 3]
        loss = (fwd(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if pace.step % 50 == 0 and rank == 0:
            print(pace.step, loss.item(), flush=True)
        if pace.step % 100 == 99:
            with torch.no_grad():
                total = sum(net(x).square().mean() for _ in range(5))
            dist.all_reduce(total)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
