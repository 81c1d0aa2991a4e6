"""A worker of the data loader does not come back."""

import time
import torch.utils.data

class Stuck(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return read_sample(i)


def read_sample(i):
    time.sleep(10000)


if __name__ == "__main__":
    for _ in torch.utils.data.DataLoader(Stuck(), num_workers=1):
        pass
