"""Two stages: on the last micro-batch, rank 1 sends to rank 0 although rank 0 sends as well."""

import torch
import torch.distributed as dist
from common_setup import setup, BIG


def forward_transfer(buf, rank, reverse):
    if (rank == 0) != reverse:
        ops = [dist.P2POp(dist.isend, buf, 1 - rank)]
    else:
        ops = [dist.P2POp(dist.irecv, buf, 1 - rank)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()


def main():
    rank, world, device = setup()
    buf = torch.ones(2 * BIG, device=device)
    for step in range(200):
        reverse = rank == 1 and step == 100  # 1F1B schedule off by one at the last stage
        forward_transfer(buf, rank, reverse)
        if step % 10 == 0:
            print(rank, step, buf[0].item(), flush=True)
    print("done", buf.sum().item())
    dist.destroy_process_group()


main()
