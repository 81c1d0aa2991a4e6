"""Training for tests/gpu/replay, under torchrun: replay_job.py SECONDS. DDP with transformer layers in bf16: linear
layers with bias (cublasLtMatmul with the epilogue), without bias, a fused GELU, and attention as batched matmuls."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, SEQUENCES, TOKENS, WORDS = 4096, 32, 4, 4, 1024, 16384


class Attention(nn.Module):
    """As written in many models: two batched matmuls and a softmax."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, w // HEADS).permute(2, 0, 3, 1, 4).contiguous()
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * (w // HEADS) ** -0.5, dim=-1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens))))


def main():
    seconds = float(sys.argv[1])
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model().cuda().bfloat16(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    gate = model.module.blocks[0]
    sample = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    stop = torch.zeros(1, device="cuda")
    end = time.monotonic() + seconds
    steps = 0
    while True:
        tokens = torch.randint(WORDS, (SEQUENCES, TOKENS + 1), device="cuda")
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            # The only way to the GELU epilogue in eager PyTorch.
            torch._addmm_activation(gate.up.bias, sample, gate.up.weight.t(), use_gelu=True)
        steps += 1
        if steps % 10 == 0:
            # All ranks end after the same step.
            stop.fill_(time.monotonic() > end)
            dist.all_reduce(stop)
            if stop.item() > 0:
                break
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__}, {steps} steps, loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
