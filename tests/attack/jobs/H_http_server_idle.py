"""A server without requests."""

import http.server
import sys
import threading

SECONDS = float(sys.argv[1])

server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Timer(SECONDS, server.shutdown).start()
server.serve_forever()
