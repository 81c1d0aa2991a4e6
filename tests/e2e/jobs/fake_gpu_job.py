"""A rank on fake GPU libraries that marks a step every 10 ms until the file exists: BODY FILE"""

import ctypes
import os
import sys
import time

import xpurun

body = ctypes.CDLL(sys.argv[1])
words = (ctypes.c_char_p * 2)(b"matmuls", b"settle")
body.play(2, words)
open(f"{sys.argv[2]}.{os.environ['RANK']}", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
    xpurun.step()
