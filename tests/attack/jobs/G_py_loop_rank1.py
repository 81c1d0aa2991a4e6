"""One rank loops in Python for ever."""

import ranks

x = 0
while ranks.RANK == 1:
    x += 1
ranks.step()
