"""transformers Trainer with a small random GPT-2 and a synthetic data set."""

import gc
import os

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from pace import Pace, out_dir

cuda = torch.cuda.is_available()


class Synthetic(Dataset):
    def __init__(self, n, seq, vocab):
        self.seq, self.vocab, self.n = seq, vocab, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        ids = torch.arange(i, i + self.seq) * 7919 % self.vocab
        return {"input_ids": ids, "labels": ids}


class FreeMemory(TrainerCallback):
    """collects garbage at every step: somebody once ran out of memory"""

    def on_step_begin(self, args, state, control, **kw):
        if self.pace.late() and int(os.environ.get("RANK", 0)) == 0:
            gc.collect()


class Clock(TrainerCallback):
    def __init__(self, pace):
        self.pace = pace

    def on_step_end(self, args, state, control, **kw):
        if not self.pace.running():
            control.should_training_stop = True
        return control


def main():
    config = GPT2Config(
        vocab_size=4096,
        n_positions=512,
        n_embd=1024 if cuda else 64,
        n_layer=6 if cuda else 2,
        n_head=8,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    targs = TrainingArguments(
        output_dir=out_dir() + "/hf",
        per_device_train_batch_size=16 if cuda else 2,
        max_steps=1_000_000,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        bf16=cuda,
        use_cpu=not cuda,
        dataloader_num_workers=2,
        disable_tqdm=False,
        learning_rate=1e-4,
    )
    pace = Pace(rank=int(os.environ.get("RANK", 0)))
    free = FreeMemory()
    free.pace = pace
    index = {i: [i, str(i)] for i in range(100_000)}  # the data set's index, many Python objects
    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=Synthetic(400_000, 512 if cuda else 16, 4096),
        callbacks=[free, Clock(pace)],
    )
    trainer.train()
    pace.close()
    print("documents", len(index))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
