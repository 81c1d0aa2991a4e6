"""Holds a process like a slow debugger: hold.py SECONDS [...] -p PID"""

import ctypes
import os
import sys
import time

PTRACE_ATTACH, PTRACE_DETACH = 16, 17

libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[sys.argv.index("-p") + 1])
if libc.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(pid, 0)
time.sleep(float(sys.argv[1]))
libc.ptrace(PTRACE_DETACH, pid, None, None)
