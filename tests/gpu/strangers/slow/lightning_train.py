"""python lightning_train.py: Lightning starts the second process by itself."""

import os
import re
import threading
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

from pace import Pace

cuda = torch.cuda.is_available()
RANK = int(os.environ.get("LOCAL_RANK", 0))
W = 2048 if cuda else 64


class Rows(Dataset):
    def __len__(self):
        return 1 << 21

    def __getitem__(self, i):
        g = torch.full((256,), float(i % 97))
        return g, i % 10


def count_words(text, pace):
    pattern = re.compile(r"(\w+\s+)+?x")
    while True:
        if pace.late():
            pattern.findall(text)  # one call keeps the interpreter lock
            time.sleep(0.005)
        else:
            time.sleep(0.05)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(256, W),
            nn.GELU(),
            *[nn.Sequential(nn.Linear(W, W), nn.GELU()) for _ in range(10)],
            nn.Linear(W, 10)
        )

    def training_step(self, batch, i):
        x, y = batch
        x = x.repeat(16, 1)
        loss = nn.functional.cross_entropy(self.net(x), y.repeat(16))
        if i % 50 == 0:
            self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class Clock(pl.Callback):
    def __init__(self):
        self.pace = None

    def on_train_start(self, trainer, module):
        self.pace = Pace(rank=trainer.global_rank)
        if trainer.global_rank == 1:
            text = "lorem ipsum dolor sit amet x " * 15000
            threading.Thread(target=count_words, args=(text, self.pace), daemon=True).start()

    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        if not self.pace.running():
            trainer.should_stop = True


def main():
    clock = Clock()
    trainer = pl.Trainer(
        accelerator="gpu" if cuda else "cpu",
        devices=2,
        strategy="ddp",
        precision="bf16-mixed" if cuda else "32-true",
        max_epochs=1,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(Rows(), batch_size=128, num_workers=2, persistent_workers=True))
    clock.pace.close()


if __name__ == "__main__":
    main()
