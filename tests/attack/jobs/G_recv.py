"""One rank waits for a message, the others are in a collective."""

import ranks
import torch

if ranks.RANK == 1:
    ranks.dist.recv(torch.ones(1), src=2)
else:
    ranks.step()
