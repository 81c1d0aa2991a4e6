"""A mutex in C that its own thread has locked."""

import ctypes

libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)

libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)
