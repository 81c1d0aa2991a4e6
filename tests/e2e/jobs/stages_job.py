"""A rank that goes through every stage of training steps, and then ends as its argument says.

The comments name the stage that a line belongs to; tests/e2e/test_spans.py looks for them.
"""

import gc
import importlib.util
import io
import os
import signal
import sys
import time
import weakref

# Programs ask whether torch is there before they import it.
assert importlib.util.find_spec("torch") is not None

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self):
        self.to_float = Scale()  # a module in the dataset is not a forward pass

    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(0.02)
        if sys.argv[1] == "bad_data":
            raise KeyError("label")
        return self.to_float(torch.ones(8)), torch.ones(1)


class Scale(nn.Module):
    def forward(self, x):
        if sys.argv[1] == "bad_forward" and x.dim() == 2:
            raise ValueError("a bad batch")
        return x * 0.5


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), Scale(), nn.Linear(8, 1))

    def forward(self, x):
        time.sleep(0.03)
        return self.layers(x)


class Exploding(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ArithmeticError("a bad gradient")


def train(model, optimizer):
    for x, y in DataLoader(Numbers(), batch_size=2):  # data
        out = model(x)  # forward
        loss = ((out - y) ** 2).mean()
        if sys.argv[1] == "bad_backward":
            loss = Exploding.apply(loss)
        optimizer.zero_grad()
        loss.backward()  # backward
        total = loss.detach()  # a temporary would be freed by a thread of gloo, perhaps while Python ends
        dist.all_reduce(total)  # communication
        optimizer.step()  # optimizer


def evaluate(model):
    with torch.no_grad():
        for x, _ in DataLoader(Numbers(), batch_size=2):  # evaluation
            model(x)


def caught(function, *args):
    try:
        function(*args)
    except Exception as e:
        return type(e).__name__, str(e), e.__cause__, type(e.__context__).__name__


def main():
    dist.init_process_group("gloo", init_method="file://" + os.environ["RENDEZVOUS"], rank=0, world_size=1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if sys.argv[1] == "bad_optimizer":
        optimizer.param_groups[0]["lr"] = "fast"
    for _ in range(2):
        train(model, optimizer)
    evaluate(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)  # save
    file.seek(0)
    torch.load(file)  # load
    garbage = [[] for _ in range(200000)]
    garbage.append(garbage)
    gc.collect()  # garbage
    # torch.compile and tracebacks see the modules that they see without xpurun.
    assert nn.Module.__call__.__code__.co_filename == nn.Module.__init__.__code__.co_filename
    # Results, exceptions and life times are those of torch alone.
    print(caught(model, torch.ones(3, 3)), caught(next, iter(DataLoader([]))), caught(torch.save, file, "/nowhere/x"))
    print(optimizer.step(lambda: 5), model(torch.zeros(1, 8)).shape, nn.Module.__call__.__doc__, torch.save.__name__)
    gone = weakref.ref(model)
    del model, optimizer
    print(gone())
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
