"""A rank whose forward passes and evaluations are inferred, or not. The comments are the stages of a line."""

import torch
from torch.utils.data import DataLoader

try:
    from xpurun import step
except ImportError:
    print("no xpurun")

    def step():
        pass


def main():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def backward():
        (weight * 2).sum().backward()

    def end():
        assert next(batches, None) is None

    # Without a DataLoader, the loading of a batch cannot be distinguished from the forward pass.
    backward()  # backward
    optimizer.step()  # optimizer
    backward()  # backward

    batches = iter(DataLoader(torch.ones(4)))
    batches.__next__()  # data
    backward()  # forward, backward
    optimizer.step()  # optimizer
    step()  # mark
    # A second network of the step.
    backward()  # forward, backward
    batches.__next__()  # data
    # A batch that is skipped is not an evaluation.
    batches.__next__()  # data
    with torch.no_grad():
        batches.__next__()  # evaluation, data
    end()  # data
    backward()  # backward
    step()  # mark


main()
