"""A thread holds the GIL in C."""

import ctypes
import threading
import time

libc = ctypes.PyDLL(None)
threading.Thread(target=lambda: libc.sleep(10000), daemon=True).start()
time.sleep(0.1)
