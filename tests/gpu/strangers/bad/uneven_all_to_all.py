"""Mixture of experts: tokens are sent by all_to_all_single with counts; rank 1 uses the counts of the last step."""

import torch
import torch.distributed as dist
from common_setup import setup, BIG


def dispatch(tokens, send, recv):
    out = torch.empty(sum(recv), device=tokens.device)
    dist.all_to_all_single(out, tokens[: sum(send)], output_split_sizes=recv, input_split_sizes=send)
    return out


def main():
    rank, world, device = setup()
    tokens = torch.randn(2 * BIG, device=device)
    unit = BIG // 4
    for step in range(200):
        send = [2 * unit, 2 * unit]
        recv = [2 * unit, 2 * unit]
        if step == 100:
            if rank == 0:
                send = [2 * unit, 1 * unit]
            else:
                recv = [2 * unit, 2 * unit]  # stale: rank 0 now sends one unit only
        out = dispatch(tokens, send, recv)
        if step % 10 == 0:
            print(rank, step, out.mean().item(), flush=True)
    print(out.sum().item())
    dist.destroy_process_group()


main()
