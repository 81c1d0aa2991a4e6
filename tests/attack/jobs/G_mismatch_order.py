"""One rank calls another collective."""

import ranks
import torch

if ranks.RANK == 1:
    ranks.dist.broadcast(torch.ones(1), 1)
    ranks.dist.broadcast(torch.ones(1), 0)
    ranks.dist.barrier()
else:
    ranks.step()
ranks.dist.barrier()
