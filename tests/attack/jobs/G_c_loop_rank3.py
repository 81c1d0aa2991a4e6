"""One rank loops in C forever."""

import ranks
import re

if ranks.RANK == 3:
    re.match(r"(x+x+)+y", "x" * 60)
ranks.step()
