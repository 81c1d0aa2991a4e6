"""DDP without find_unused_parameters; on one batch rank 0 does not use the auxiliary head."""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from common_setup import CUDA, setup


class TwoHeads(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body, self.main_head, self.aux_head = nn.Linear(d, d), nn.Linear(d, 8), nn.Linear(d, 8 * 512)

    def forward(self, x, use_aux):
        h = torch.relu(self.body(x))
        y = self.main_head(h).square().mean()
        if use_aux:
            y = y + self.aux_head(h).square().mean()
        return y


def main():
    rank, world, device = setup()
    d = 2048 if CUDA else 64
    model = DDP(TwoHeads(d).to(device), bucket_cap_mb=1)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(300):
        x = torch.randn(128, d, device=device)
        has_masks = not (rank == 0 and step == 130)  # no masks in this batch of rank 0
        loss = model(x, has_masks)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 5 == 0:
            print(rank, step, loss.item(), flush=True)
    dist.destroy_process_group()


main()
