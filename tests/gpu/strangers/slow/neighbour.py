"""Somebody else's program on the same GPU: starts its matmuls when the job's trouble begins. Not part of the job."""

import time

import torch

from pace import Board

b = Board()
n = 6144
a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
while not (b.get(1) and b.get(0) >= b.get(1)):
    time.sleep(0.02)
while True:
    for _ in range(10):
        c = a @ a
    torch.cuda.synchronize()
