#!/usr/bin/python3
"""http_raw.py - what curl cannot do to an HTTP server on loopback.

  send PORT [SECONDS]     standard input as it is; print what comes back until the server closes, or SECONDS (1)
                          after the last byte
  idle PORT COUNT         open COUNT connections, print "open N", keep them until killed
  drip PORT COUNT         the same, each sending one byte a second of a request that never ends
  put PORT COUNT PREFIX   COUNT connections put PREFIX/i/n = n, one after the other, until the server is gone; print
                          each key that was acknowledged
"""
import signal
import socket
import sys
import threading
import time


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), 20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def send(port, seconds=1.0):
    s = connect(port)
    try:
        s.sendall(sys.stdin.buffer.read())
    except OSError:
        pass
    s.settimeout(float(seconds))
    try:
        while data := s.recv(65536):
            sys.stdout.buffer.write(data)
        print("\nclosed")
    except socket.timeout:
        print("\nopen")
    except OSError:
        print("\nreset")


def hold(port, count, drip):
    conns = []
    try:
        for _ in range(int(count)):
            conns.append(connect(port))
    except OSError as e:
        print(e, file=sys.stderr)
    print("open", len(conns), flush=True)
    while drip:
        time.sleep(1)
        for s in conns:
            try:
                s.sendall(b"G")
            except OSError:
                pass
    signal.pause()


def put(port, count, prefix):
    lock = threading.Lock()

    def run(i):
        try:
            s = connect(port)
            n = 0
            while True:
                n += 1
                body = str(n).encode()
                s.sendall(b"PUT /metadata?key=%s/%d/%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                          % (prefix.encode(), i, n, len(body), body))
                reply = b""
                while not reply.endswith(b"metadata updated"):
                    data = s.recv(4096)
                    if not data:
                        return
                    reply += data
                with lock:
                    print(f"{prefix}/{i}/{n}", flush=True)
        except OSError:
            pass

    threads = [threading.Thread(target=run, args=(i,)) for i in range(int(count))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


what, port = sys.argv[1], int(sys.argv[2])
if what == "send":
    send(port, *sys.argv[3:])
elif what == "put":
    put(port, sys.argv[3], sys.argv[4])
else:
    hold(port, sys.argv[3], what == "drip")
