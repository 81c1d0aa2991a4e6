"""A server that never answers."""

import socket
import urllib.request

server = socket.create_server(("127.0.0.1", 0))
urllib.request.urlopen("http://127.0.0.1:%d/" % server.getsockname()[1])
