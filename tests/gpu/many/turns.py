"""A training job that makes steps only when it is its turn, under torchrun: turns.py fsdp|grid DIR NAME

fsdp: the FSDP model of steps_job.py; grid: the tensor and pipeline parallel model of train.py. DIR/turn has a growing
number, the name of the job whose turn it is, and how many steps to make; rank 0 answers with seconds a step in
DIR/NUMBER. The name `end` ends the job. Between turns the GPU has nothing to do.
"""

import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
KIND, DIR, NAME = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path += [str(HERE), str(HERE.parent)]
sys.argv[3] = "0"  # steps_job.py reads a number of steps there

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import train  # noqa: E402
from shapes import WARM  # noqa: E402


def make_step():
    if KIND == "fsdp":
        import steps_job
        return steps_job.data_parallel(1)
    shape = os.environ.get("TURNS_SHAPE", "large" if train.GPU else "tiny")
    return train.Trainer(train.SHAPES[shape], 2, 2 if train.WORLD >= 4 else 1).step


def synchronize():
    if train.GPU:
        torch.cuda.synchronize()


def block(step, count):
    for _ in range(WARM):
        step()
    synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter() - begin) / count


def next_turn(last):
    while True:
        number, name, count = (DIR / "turn").read_text(encoding="utf-8").split()
        if int(number) > last and name in (NAME, "end"):
            return int(number), name, int(count)
        time.sleep(0.002)


def answer(number, seconds):
    if train.RANK == 0:
        partial = DIR / f"{number}.part"
        partial.write_text(str(seconds), encoding="utf-8")
        partial.rename(DIR / str(number))


def main():
    train.start()
    step = make_step()
    dist.barrier()  # no steps yet: xpurun would look into a job that makes steps and then none for long
    if train.RANK == 0:
        (DIR / f"ready.{NAME}").touch()
    number = 0
    while True:
        number, name, count = next_turn(number)
        if name == "end":
            break
        dist.barrier()
        answer(number, block(step, count))
    dist.destroy_process_group()


main()
