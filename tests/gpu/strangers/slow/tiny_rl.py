"""Very small policy net; the environment (a sleep) is the limit."""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from pace import Pace

ap = argparse.ArgumentParser()
ap.add_argument("--slow-env", action="store_true")
args = ap.parse_args()
cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
dev = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(dev)
policy = DDP(nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4)).to(dev))
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
pace = Pace(healthy=not args.slow_env)


def env_step(action):
    time.sleep(0.022)
    if args.slow_env and rank == 1 and pace.late():
        time.sleep(0.0025)  # this simulator draws more objects
    return torch.randn(16, 32)


obs = env_step(None)
while pace.running():
    logits = policy(obs.to(dev))
    logp = torch.log_softmax(logits, -1)
    action = logp.argmax(-1)
    obs = env_step(action.tolist())
    loss = -(logp.gather(1, action[:, None]) * obs.mean().to(dev)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and pace.step % 100 == 0:
        print("step", pace.step, flush=True)
pace.close()
dist.destroy_process_group()
