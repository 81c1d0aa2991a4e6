"""Character-level GPT with DistributedDataParallel, bf16 autocast."""

import argparse
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace

ap = argparse.ArgumentParser()
ap.add_argument("--trouble", default="none", choices=["none", "bucket", "seqlen", "lengths"])
ap.add_argument("--dim", type=int, default=1024)
ap.add_argument("--layers", type=int, default=8)
ap.add_argument("--batch", type=int, default=24)
ap.add_argument("--seq", type=int, default=512)
ap.add_argument("--log-every", type=int, default=10)
args = ap.parse_args()


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, d, layers, h=16, ctx=2048):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(Block(d, h) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for b in self.blocks:
            x = b(x)
        return self.head(x)


def get_batch(corpus, batch, seq):
    i = torch.randint(0, corpus.numel() - seq - 1, (batch,), device=corpus.device)
    idx = i[:, None] + torch.arange(seq + 1, device=corpus.device)
    ids = corpus[idx]
    return ids[:, :-1], ids[:, 1:]


def train_step(model, opt, ids, targets):
    with torch.autocast(ids.device.type, dtype=torch.bfloat16):
        logits = model(ids)
    loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss


def main():
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(rank)
    rng = random.Random(rank)
    model = DDP(GPT(256, args.dim, args.layers).to(device), device_ids=[local] if cuda else None)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    corpus = torch.randint(0, 256, (1_000_000,), device=device)
    pace = Pace(healthy=args.trouble in ("none", "lengths"))
    while pace.running():
        batch, seq = args.batch, args.seq
        if args.trouble == "bucket" and rank == 1 and pace.late():
            batch = args.batch * 5 // 3  # this rank got the bucket of short files, more of them fit
        elif args.trouble == "seqlen" and pace.late():
            seq = 2 * args.seq  # curriculum: second phase
            batch = args.batch * 3 // 4
        elif args.trouble == "lengths":
            seq = args.seq * rng.choice([4, 6, 8, 10, 12]) // 8  # each rank draws its own documents
        ids, targets = get_batch(corpus, batch, seq)
        loss = train_step(model, opt, ids, targets)
        if pace.step % args.log_every == 0 and rank == 0:
            print(f"step {pace.step} loss {loss.item():.3f}", flush=True)
    pace.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
