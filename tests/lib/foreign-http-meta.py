#!/usr/bin/python3
"""foreign-http-meta.py - an HTTP metadata server as others have it: GET, PUT and DELETE of ?key=KEY, nothing more.

foreign-http-meta.py PORT [LOST]

As the C++ column of INTEROP 10: an rpc_meta key that exists is overwritten only by the same bytes, else 400;
DELETE of what is not there is 404. The first LOST values are answered and not kept, as if somebody wrote over them.
Prints "ready" once it listens. Each request is a line on standard error.
"""
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

store = {}
lost = int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def key(self):
        url = urllib.parse.urlsplit(self.path)
        keys = urllib.parse.parse_qs(url.query).get("key")
        if url.path != "/metadata" or not keys:
            self.answer(400, b"missing key")
            return None
        return keys[0]

    def do_GET(self):
        key = self.key()
        if key is not None and key in store:
            self.answer(200, store[key])
        elif key is not None:
            self.answer(404, b"metadata not found")

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.key()
        if key is None:
            return
        if "rpc_meta" in key and store.get(key, body) != body:
            self.answer(400, b"Duplicate rpc_meta key not allowed")
            return
        global lost
        if lost > 0:
            lost -= 1
        else:
            store[key] = body
        self.answer(200, b"metadata updated")

    def do_DELETE(self):
        key = self.key()
        if key is not None and store.pop(key, None) is not None:
            self.answer(200, b"metadata deleted")
        elif key is not None:
            self.answer(404, b"metadata not found")


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
