"""Rank 1 waits for ever from the beginning, the others train and end well: no rank is left that it may wait for."""

import os
import socket
import time


def work(n):
    time.sleep(0.01)
    return n * 2


def train(seconds):
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        n += 1
        work(n)


def receive():
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.recv(1)


if os.environ["RANK"] == "1":
    receive()
train(14)
