"""An endless loop in C."""

import re

re.match(r"(x+x+)+y", "x" * 60)
