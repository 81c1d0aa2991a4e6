"""A hand-written server: blocked in accept() until a late client connects."""

import socket
import subprocess
import sys

SECONDS = float(sys.argv[1])

server = socket.create_server(("127.0.0.1", 0))
subprocess.Popen([sys.executable, "-Sc", f"import socket,time; time.sleep({SECONDS}); "
                  f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"], env={})
server.accept()
