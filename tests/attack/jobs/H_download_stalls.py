"""Rank 1 reads from a server that stalls for most of the timeout between two blocks; the others wait for rank 1."""

import ranks
import socket
import sys
import threading
import time

SECONDS = float(sys.argv[1])


def serve(server):
    client, _ = server.accept()
    with client:
        for _ in range(6):
            time.sleep(SECONDS / 6)
            client.sendall(bytes(4096))


if ranks.RANK == 1:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,)).start()
        with socket.create_connection(server.getsockname()) as connection:
            while connection.recv(65536):
                pass
ranks.dist.barrier()
