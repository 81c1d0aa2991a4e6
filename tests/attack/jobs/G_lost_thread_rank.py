"""One rank waits for an event that no thread sets."""

import ranks
import threading

if ranks.RANK == 1:
    threading.Event().wait()
ranks.step()
