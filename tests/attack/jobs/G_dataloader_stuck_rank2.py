"""The data loader of one rank does not come back."""

import ranks
import time
import torch.utils.data

class Stuck(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return read_sample(i)


def read_sample(i):
    time.sleep(10000 if ranks.RANK == 2 else 0)
    return i


for _ in torch.utils.data.DataLoader(Stuck(), num_workers=1):
    ranks.step()
