"""fp16 AMP with GradScaler, DDP, convolutional net on random images."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
dev = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(dev)
c = 256 if cuda else 16


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


model = nn.Sequential(
    conv(3, c),
    *[conv(c, c) for _ in range(6)],
    conv(c, 2 * c, 2),
    *[conv(2 * c, 2 * c) for _ in range(4)],
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(2 * c, 100),
).to(dev)
model = DDP(model)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cuda", enabled=cuda)
images = torch.randn(128 if cuda else 2, 3, 32, 32, device=dev)
labels = torch.randint(0, 100, (images.size(0),), device=dev)
pace = Pace()
while pace.running():
    opt.zero_grad(set_to_none=True)
    with torch.autocast(dev.type, dtype=torch.float16 if cuda else torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(opt)
    scaler.update()
    if pace.step % 10 == 0 and rank == 0:
        print(f"step {pace.step}: loss {loss.item():.4f} scale {scaler.get_scale()}", flush=True)
pace.close()
dist.destroy_process_group()
