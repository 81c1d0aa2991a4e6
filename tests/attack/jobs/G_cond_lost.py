"""A notification that came before the wait."""

import threading

condition = threading.Condition()
with condition:
    condition.notify()
with condition:
    condition.wait()
