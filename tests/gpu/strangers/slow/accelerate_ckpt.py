"""Accelerate loop: tabular MLP with checkpoints."""

import os

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace, out_dir

cuda = torch.cuda.is_available()


def save_checkpoint(model, opt, step):
    path = os.path.join(out_dir(), "latest.pt")
    with open(path + ".tmp", "wb") as f:
        torch.save({"model": model.state_dict(), "step": step}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def main():
    acc = Accelerator(cpu=not cuda, mixed_precision="bf16" if cuda else "no")
    width = 2048 if cuda else 64
    model = nn.Sequential(
        nn.Linear(256, width),
        nn.ReLU(),
        *[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(10)],
        nn.Linear(width, 1),
    )
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(65536, 256), torch.randn(65536, 1))
    loader = DataLoader(data, batch_size=2048 if cuda else 32, shuffle=True, drop_last=True)
    model, opt, loader = acc.prepare(model, opt, loader)
    pace = Pace(rank=acc.process_index)
    more = True
    while more:
        for x, y in loader:
            more = pace.running()
            if not more:
                break
            with acc.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                acc.backward(loss)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            if acc.process_index == 1 and pace.late() and pace.step % 4 == 0:
                save_checkpoint(acc.unwrap_model(model), opt, pace.step)
            if pace.step % 50 == 0:
                acc.print(f"step {pace.step} loss {loss.item():.4f}")
    pace.close()
    acc.end_training()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
