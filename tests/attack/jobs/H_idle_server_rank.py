"""Rank 2 idles like a server until a late client connects; the others train and never stop."""

import os
import socket
import sys
import time

SECONDS = float(sys.argv[1])


def work(n):
    time.sleep(0.01)
    return n * 2


def train():
    end = time.monotonic() + SECONDS
    n = 0
    while time.monotonic() < end:
        n += 1
        work(n)


if os.environ["RANK"] == "2":
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(SECONDS)
    try:
        server.accept()
    except TimeoutError:
        pass
else:
    train()
