"""Rank 0 waits for a store key that no rank sets."""

import ranks

if ranks.RANK == 0:
    ranks.dist.FileStore(ranks.SCRATCH + "/other", 4).get("never")
ranks.dist.barrier()
