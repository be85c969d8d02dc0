#!/usr/bin/python3
"""canned.py - a server that gives every connection the same bytes, whatever it asks, and closes.

canned.py FILE   prints its port, and stays until it is killed
"""
import socket
import sys

with open(sys.argv[1], "rb") as f:
    answer = f.read()
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    with client:
        try:
            client.recv(65536)
            client.sendall(answer)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(2)
            while client.recv(65536):
                pass
        except OSError:
            pass
