"""The job of tests/gpu/pipeline, under torchrun: pipeline_job.py RESULT SLOW

Each rank is a stage of six transformer layers; with SLOW 1, stage 1 has nine. RESULT.RANK.json gets the medians of
forward and backward jobs in ms by CUDA events of the program's own.
"""

import json
import os
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

RANK, LOCAL, WORLD = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
if torch.cuda.device_count() < WORLD:
    os.environ["NCCL_HOSTID"] = f"host-{RANK}"  # NCCL refuses two ranks of one host on one GPU
DEVICE = torch.device("cuda", LOCAL % torch.cuda.device_count())
WIDTH, TOKENS, BATCHES, WARM = 4096, 1024, 8, 3
STEPS = int(os.environ.get("PIPELINE_STEPS", "40"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def timed(stage, name, events):
    function = getattr(stage, name)

    def call(*args, **kwargs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        out = function(*args, **kwargs)
        end.record()
        events.append((begin, end))
        return out

    setattr(stage, name, call)


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    torch.manual_seed(RANK)
    layers = 9 if sys.argv[2] == "1" and RANK == 1 else 6
    model = nn.Sequential(*[Block() for _ in range(layers)]).to(DEVICE).to(torch.bfloat16)
    stage = PipelineStage(model, RANK, WORLD, DEVICE)
    schedule = Schedule1F1B(stage, BATCHES, loss_fn=lambda out, target: ((out - target) ** 2).mean())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    events = {"forward": [], "backward": []}
    for kind, found in events.items():
        timed(stage, kind + "_one_chunk", found)
    x = torch.randn(BATCHES, TOKENS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    for step in range(STEPS):
        if step == WARM:
            for found in events.values():
                found.clear()
        if RANK == 0:
            schedule.step(x)
        elif RANK == WORLD - 1:
            schedule.step(target=x, losses=[])
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    medians = {kind: statistics.median(begin.elapsed_time(end) for begin, end in found)
               for kind, found in events.items()}
    pathlib.Path(f"{sys.argv[1]}.{RANK}.json").write_text(json.dumps(medians), encoding="utf-8")
    dist.destroy_process_group()


main()
