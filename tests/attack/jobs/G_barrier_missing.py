"""One rank goes past the barrier."""

import ranks

if ranks.RANK != 3:
    ranks.dist.barrier()
ranks.step()
