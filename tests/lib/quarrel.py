#!/usr/bin/python3
"""quarrel.py - a metadata server like te-http-meta where somebody else is always faster.

quarrel.py FILE: GET is FILE under a new tag each time, PUT is 412. The port is printed; each request is a line on standard error.
"""
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], "rb") as f:
    value = f.read()
asked = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        global asked
        asked += 1
        self.send_response(status)
        self.send_header("TE-Meta", "1")
        self.send_header("ETag", f'"{asked}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, value)

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(412, b"")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
