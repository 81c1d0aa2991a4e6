"""Reads from a slow server, block by block."""

import socket
import sys
import threading
import time

SECONDS = float(sys.argv[1])


def serve(server):
    connection, _ = server.accept()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        connection.sendall(b"x" * 100)
        time.sleep(0.1)
    connection.close()


server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(server,), daemon=True).start()
client = socket.create_connection(server.getsockname())
total = 0
while block := client.recv(4096):
    total += len(block)
