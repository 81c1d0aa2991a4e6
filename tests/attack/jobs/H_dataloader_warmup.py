"""The first batch takes longer than the timeout."""

import sys
import time
import torch.utils.data

SECONDS = float(sys.argv[1])


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        end = time.monotonic() + SECONDS / 2
        x = 0
        while time.monotonic() < end:
            x += 1
        return x


if __name__ == "__main__":
    for _ in torch.utils.data.DataLoader(Slow(), num_workers=1):
        pass
