"""FSDP (v1), transformer encoder, bf16 mixed precision."""

import functools
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from pace import Pace

cuda = torch.cuda.is_available()


def log_grad_norms(model, history):
    for name, p in model.named_parameters():
        if p.grad is not None:
            g = p.grad.float()
            for chunk in g.flatten().chunk(12):  # a histogram of norms per parameter
                history.setdefault(name, []).append(chunk.norm().item())
    for v in history.values():
        del v[:-100]


def main():
    local = int(os.environ["LOCAL_RANK"])
    if cuda:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    dev = torch.device("cuda", local) if cuda else torch.device("cpu")
    d = 2048 if cuda else 64
    layer = functools.partial(
        nn.TransformerEncoderLayer, d, 16, 4 * d, dropout=0.0, batch_first=True, norm_first=True
    )
    model = nn.Sequential(*[layer() for _ in range(6)], nn.Linear(d, d)).to(dev)
    model = FSDP(
        model,
        auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}),
        use_orig_params=True,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        device_id=dev,
    )
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 512 if cuda else 16, d, device=dev)
    history = {}
    pace = Pace()
    while pace.running():
        loss = (model(x) - x).float().pow(2).mean()
        loss.backward()
        if rank == 1 and pace.late():
            log_grad_norms(model, history)
        opt.step()
        opt.zero_grad()
        if pace.step % 50 == 0 and rank == 0:
            print(f"{pace.step}: {loss.item():.4f}", flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
