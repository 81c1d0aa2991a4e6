"""One rank loops in Python forever."""

import ranks

x = 0
while ranks.RANK == 1:
    x += 1
ranks.step()
