"""One rank waits for a mutex in C."""

import ctypes
import ranks

libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)

if ranks.RANK == 1:
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
ranks.step()
