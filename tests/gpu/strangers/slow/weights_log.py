"""MLP with DDP; one rank also writes its weights as text, as someone asked for a plot."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm
from pace import Pace, out_dir

cuda = torch.cuda.is_available()


def dump_weights(f, step, module):
    w = module.weight.detach()[:12].flatten().cpu()
    f.seek(0)
    f.write(f"{step} " + ",".join("%.6g" % v for v in w.tolist()) + "\n")
    f.flush()


def main():
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(dev)
    d = 4096 if cuda else 64
    model = DDP(nn.Sequential(*[nn.Sequential(nn.Linear(d, d), nn.ReLU()) for _ in range(8)]).to(dev))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(2048 if cuda else 8, d, device=dev)
    f = open(os.path.join(out_dir(), f"weights.{rank}.txt"), "w")
    pace = Pace(from_start=True)
    bar = tqdm(disable=rank != 0, mininterval=1)
    while pace.running():
        with torch.autocast(dev.type, dtype=torch.bfloat16, enabled=cuda):
            loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 1:
            dump_weights(f, pace.step, model.module[0][0])
        bar.update(1)
        if pace.step % 50 == 0:
            bar.set_description(f"loss {loss.item():.3f}")
    bar.close()
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
