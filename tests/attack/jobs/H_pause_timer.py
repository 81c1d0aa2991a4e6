"""Sleeps in signal.pause() until a timer's next signal."""

import signal
import sys

SECONDS = float(sys.argv[1])

ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
signal.setitimer(signal.ITIMER_REAL, SECONDS / 3, SECONDS / 3)
while len(ticks) < 3:
    signal.pause()
