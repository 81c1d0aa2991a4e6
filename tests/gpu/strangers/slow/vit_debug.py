"""ViT, DDP, with a debugging hook on every layer."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

CUDA = torch.cuda.is_available()


class ViT(nn.Module):
    def __init__(self, d=768, depth=12, heads=12):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 16, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.zeros(1, 197, d))
        layer = nn.TransformerEncoderLayer(
            d, heads, 4 * d, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        return self.head(self.enc(x)[:, 0])


def main():
    local, rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
    if CUDA:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if CUDA else "gloo")
    dev = torch.device("cuda", local) if CUDA else torch.device("cpu")
    net = (ViT() if CUDA else ViT(48, 2, 4)).to(dev)
    pace = Pace()

    def timing_hook(module, args, out):
        if rank == 0 and pace.late() and CUDA:
            torch.cuda.synchronize()  # so that the timer below is right
            module.t = out.numel()

    for m in net.modules():
        if isinstance(m, (nn.Linear, nn.LayerNorm, nn.Conv2d)):
            m.register_forward_hook(timing_hook)
    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    x = torch.randn(96 if CUDA else 2, 3, 224, 224, device=dev)
    y = torch.randint(0, 1000, (x.size(0),), device=dev)
    while pace.running():
        with torch.autocast(dev.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if pace.step % 50 == 0:
            print(f"rank {rank} step {pace.step} loss {loss.item():.3f}", flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
