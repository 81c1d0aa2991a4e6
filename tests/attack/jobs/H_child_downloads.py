"""A program fetches a file from a server that pauses for most of the timeout between two blocks; the others wait."""

import ranks
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECONDS = float(sys.argv[1])
BLOCKS = 6

FETCH = """
import sys, urllib.request
assert len(urllib.request.urlopen(sys.argv[1]).read()) == int(sys.argv[2])
"""


class Slow(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(BLOCKS * 4096))
        self.end_headers()
        for _ in range(BLOCKS):
            time.sleep(SECONDS / BLOCKS)
            self.wfile.write(bytes(4096))
            self.wfile.flush()

    def log_message(self, *_):
        pass


if ranks.RANK == 0:
    server = HTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.handle_request).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    subprocess.run([sys.executable, "-c", FETCH, url, str(BLOCKS * 4096)], check=True)
ranks.dist.barrier()
