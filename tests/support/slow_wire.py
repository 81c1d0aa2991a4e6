"""A cable with delay and loss between two network namespaces: slow_wire.py NETNS DEVICE NETNS DEVICE DELAY_S LOSS

Makes a TAP device in each and carries frames between them, each DELAY_S later, without the share LOSS of them. Prints
"ready", and at SIGTERM the number of dropped frames. Which frames are dropped is the same in every run.
"""

import collections
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time

import namespaces

TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002


def tap(namespace, name):
    namespaces.enter(namespace)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
    return fd


def main():
    ends = [tap(sys.argv[1], sys.argv[2]), tap(sys.argv[3], sys.argv[4])]
    delay, loss = float(sys.argv[5]), float(sys.argv[6])
    chance = random.Random(1)
    waiting = collections.deque()
    dropped = 0
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    print("ready", flush=True)
    while not ended:
        timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else 0.5
        for fd in select.select(ends, [], [], timeout)[0]:
            frame = os.read(fd, 65536)
            if chance.random() < loss:
                dropped += 1
            else:
                waiting.append((time.monotonic() + delay, ends[fd == ends[0]], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, fd, frame = waiting.popleft()
            try:
                os.write(fd, frame)
            except OSError:
                dropped += 1  # the device is down, or its queue is full
    print(dropped, flush=True)


if __name__ == "__main__":
    main()
