"""Rank 2 idles like a server for the whole job, the others train and then wait for locks of their own."""

import os
import socket
import threading
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


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


if os.environ["RANK"] == "2":
    socket.create_server(("127.0.0.1", 0)).accept()
elif os.environ["RANK"] == "3":
    train(1e9)
train(12)
deadlock()
