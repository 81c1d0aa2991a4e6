"""A rank on fake GPU libraries that calls matmuls in each of some steps of 50 ms and marks their ends: BODY STEPS"""

import ctypes
import sys
import time

import xpurun

body = ctypes.CDLL(sys.argv[1])
words = (ctypes.c_char_p * 1)(b"matmuls")
for step in range(int(sys.argv[2])):
    body.play(1, words)
    time.sleep(0.05)
    xpurun.step()
