"""One rank is stopped."""

import os
import ranks
import signal

if ranks.RANK == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
ranks.step()
