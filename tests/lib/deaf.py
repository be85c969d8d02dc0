#!/usr/bin/python3
"""deaf.py - addresses at which nobody answers.

deaf.py accepts   a listener that accepts and never says a word
deaf.py blackhole a listener whose backlog is full, so that the kernel drops every SYN

Prints its port once it is as announced, and stays until it is killed.
"""
import signal
import socket
import sys

server = socket.socket()
server.bind(("127.0.0.1", 0))
if sys.argv[1] == "blackhole":
    server.listen(0)
    full = []
    while True:  # until a connect does not come through
        sock = socket.socket()
        sock.settimeout(0.2)
        full.append(sock)
        try:
            sock.connect(server.getsockname())
        except socket.timeout:
            break
    print(server.getsockname()[1], flush=True)
    signal.pause()
server.listen(128)
print(server.getsockname()[1], flush=True)
held = []
while True:
    held.append(server.accept())
