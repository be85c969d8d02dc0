#!/usr/bin/python3
"""peer.py - a Mooncake engine, as far as the wire shows one (INTEROP 1 to 3, wire/examples 2).

peer.py serve STYLE READY_FILE STATS_FILE [--length=BYTES] [--deny]
    A P2P segment for an initiator of ours. STYLE: v2, v1 (tcp_proto_version 1), v1-absent (no such member), old (as
    v1-absent, and one request a connection, then the peer closes). READY_FILE gets the segment name once it can be
    reached; STATS_FILE what was seen, when SIGTERM comes. --deny: no address is registered.
peer.py initiate READY_FILE
    A real initiator against a te-target that wrote READY_FILE. Prints TAP.
"""
import json
import os
import signal
import socket
import struct
import sys
import threading
import time

READ, WRITE, V2 = 0, 1, 0x80
OK = bytes.fromhex("00000000 5654434d")
REFUSED = bytes.fromhex("01000000 5654434d")
METADATA, NOTIFY, PROBE = 1, 2, 3
EMPTY_HANDSHAKE = ('{"local_gid":"","local_lid":0,"local_nic_path":"","payload":"","peer_nic_path":"","qp_num":[],'
                   '"reply_msg":""}\n')


def read_all(sock, size):
    """size bytes, or fewer when the stream ends."""
    got = bytearray(size)
    view, at = memoryview(got), 0
    while at < size:
        n = sock.recv_into(view[at:])
        if not n:
            break
        at += n
    return got[:at]


def descriptor(name, port, buffers, version):
    """As a real engine writes it: compact, keys sorted."""
    d = {"buffers": [{"addr": a, "length": n, "name": name} for a, n in buffers], "name": name, "protocol": "tcp",
         "tcp_data_port": port, "timestamp": time.strftime("%Y-%m-%d %H:%M:%S.000000")}
    if version is not None:
        d["tcp_proto_version"] = version
    return json.dumps(d, separators=(",", ":"), sort_keys=True)


def rpc_write(sock, kind, text):
    """Three writes, like the real one."""
    body = text.encode()
    sock.sendall(struct.pack("<Q", len(body) + 1))
    sock.sendall(bytes([kind]))
    sock.sendall(body)


def rpc_read(sock):
    head = read_all(sock, 9)
    if len(head) < 9:
        return None, b""
    length, kind = struct.unpack("<QB", head)
    return kind, bytes(read_all(sock, length - 1))


# ---- a target -----------------------------------------------------------------------------------

class Target:
    ADDR = 0x7F4C79A91000

    def __init__(self, style, length, deny):
        self.version = {"v2": 2, "v1": 1}.get(style)
        self.one_shot = style == "old"
        self.deny = deny
        self.memory = bytearray(length)
        self.view = memoryview(self.memory)
        self.lock = threading.Lock()
        self.stats = dict.fromkeys(("connections", "most_open", "requests", "most_requests", "pads", "v2", "v1",
                                    "half", "metadata"), 0)
        self.open = 0
        self.rpc = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.data = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.name = "127.0.0.1:%d" % self.rpc.getsockname()[1]

    def start(self):
        for listener, serve in (self.rpc, self.serve_rpc), (self.data, self.serve_data):
            threading.Thread(target=self.accept, args=(listener, serve), daemon=True).start()

    def accept(self, listener, serve):
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    def serve_rpc(self, sock):
        with sock:
            sock.settimeout(5)
            kind, _ = rpc_read(sock)
            if kind == METADATA:
                self.stats["metadata"] += 1
                rpc_write(sock, kind, descriptor(self.name, self.data.getsockname()[1],
                                                 [(self.ADDR, len(self.memory))], self.version) + "\n")
            elif kind == NOTIFY:
                rpc_write(sock, kind, '{"name":"","notify_msg":"success"}\n')
            elif kind == PROBE:
                rpc_write(sock, kind, '{"status":"success"}\n')
            elif kind == 0:
                rpc_write(sock, kind, EMPTY_HANDSHAKE)
            else:
                return
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1)

    def serve_data(self, sock):
        with self.lock:
            self.open += 1
            self.stats["connections"] += 1
            self.stats["most_open"] = max(self.stats["most_open"], self.open)
        served = 0
        try:
            while self.serve_one(sock):
                served += 1
                if self.one_shot:
                    break
        except ConnectionError:
            pass
        with self.lock:
            self.open -= 1
            self.stats["most_requests"] = max(self.stats["most_requests"], served)
        sock.close()

    def serve_one(self, sock):
        head = read_all(sock, 24)
        if len(head) < 24:
            self.stats["half"] += len(head) > 0
            return False
        size, addr, opcode = struct.unpack_from("<QQB", head)
        v2 = opcode & V2
        with self.lock:
            self.stats["requests"] += 1
            self.stats["v2" if v2 else "v1"] += 1
            self.stats["pads"] += any(head[17:])
        at = addr - self.ADDR
        if self.deny or size == 0 or at < 0 or at + size > len(self.memory):
            if v2:
                sock.sendall(REFUSED)
            return False
        if opcode & ~V2 == WRITE:
            while size:
                n = sock.recv_into(self.view[at:at + min(size, 65536)])
                if not n:
                    return False
                at += n
                size -= n
            if v2:
                sock.sendall(OK)
            return True
        if v2:
            sock.sendall(OK)  # a send of its own
        sock.sendall(self.view[at:at + size])
        return True


def serve(style, ready, stats, length, deny):
    target = Target(style, length, deny)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    target.start()
    with open(ready + ".new", "w") as f:
        f.write(target.name + "\n")
    os.rename(ready + ".new", ready)
    while not stop.wait(3600):
        pass
    with target.lock, open(stats, "w") as f:
        json.dump(target.stats, f)


# ---- an initiator -------------------------------------------------------------------------------

count = bad = 0


def ok(good, text):
    global count, bad
    count += 1
    bad += not good
    print("%sok %d - %s" % ("" if good else "not ", count, text), flush=True)


def header(size, addr, opcode, pads=b"\xef\x70\x4f\x4f\x56\x00\x01"):
    """The real engine never initialises the pads: these were seen."""
    return struct.pack("<QQB", size, addr, opcode) + pads


class Initiator:
    def __init__(self, ready):
        with open(ready) as f:
            doc = json.load(f)
        self.rpc_port, self.port = doc["rpc_port"], doc["tcp_data_port"]
        self.addr, self.length = doc["buffers"][0]["addr"], doc["buffers"][0]["length"]

    def dial(self):
        sock = socket.create_connection(("127.0.0.1", self.port), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def rpc(self, kind, text):
        with socket.create_connection(("127.0.0.1", self.rpc_port), 10) as sock:
            rpc_write(sock, kind, text)
            return rpc_read(sock)

    def write(self, sock, at, data, version=V2):
        sock.sendall(header(len(data), self.addr + at, WRITE | version))
        for i in range(0, len(data), 65536):
            sock.sendall(data[i:i + 65536])
        return read_all(sock, 8) == OK if version else True

    def read(self, sock, at, size, version=V2):
        sock.sendall(header(size, self.addr + at, READ | version))
        if version and read_all(sock, 8) != OK:
            return None
        return read_all(sock, size)


def handshakes(i):
    own = descriptor("127.0.0.1:15102", 15103, [(140469807992832, 65536)], 2)
    kind, body = i.rpc(METADATA, own + "\n")
    d = json.loads(body)
    ok(kind == METADATA and body.endswith(b"\n"), "type 1 is answered as a frame that ends with a newline")
    ok(type(d["tcp_data_port"]) is int and d["tcp_data_port"] == i.port and d["tcp_proto_version"] == 2 and
       d["protocol"] == "tcp" and isinstance(d["name"], str), "the members that a real reader needs, with its types")
    ok(all(type(b["addr"]) is int and type(b["length"]) is int and b["addr"] and b["length"] and b["name"]
           for b in d["buffers"]) and any(b["addr"] == i.addr and b["length"] == i.length for b in d["buffers"]),
       "buffers: name, addr and length, integers")
    ok(i.rpc(METADATA, "{}\n")[0] == METADATA, "an empty descriptor in the request is fine")
    ok(i.rpc(PROBE, "{}\n") == (PROBE, b'{"status":"success"}\n'), "type 3, byte by byte")
    kind, body = i.rpc(NOTIFY, '{"name":"me","notify_msg":"hello"}\n')
    ok(kind == NOTIFY and json.loads(body) == {"name": "", "notify_msg": "success"}, "type 2")


def pool_off(i):
    """A connection for each request; the initiator closes."""
    good = 0
    for n, size in enumerate((1, 17, 64, 65535, 65536, 65537, 300000)):
        data = bytes((n + k * 7) & 255 for k in range(size))
        with i.dial() as sock:
            done = i.write(sock, 4096, data)
        with i.dial() as sock:
            good += done and i.read(sock, 4096, size) == data
    ok(good == 7, "v2, a connection for each request, 7 sizes")
    good = 0
    for n, size in enumerate((16, 65536, 100001)):
        data = bytes((n + k * 3) & 255 for k in range(size))
        with i.dial() as sock:
            i.write(sock, 8192, data, 0)
            # Nothing says when a v1 WRITE is applied: the same connection does, in order.
            good += i.read(sock, 8192, size, 0) == data
    ok(good == 3, "v1, WRITE and READ")
    with i.dial() as sock:
        sock.sendall(header(16, i.addr, WRITE) + b"ABCDEFGHIJKLMNOP")
        sock.shutdown(socket.SHUT_WR)
        ok(sock.recv(1) == b"", "v1 WRITE: no reply at all, our end is answered by the peer's")
    with i.dial() as sock:
        ok(i.read(sock, 0, 16) == b"ABCDEFGHIJKLMNOP", "and it was applied by then")


def pool_on(i):
    """4 lanes, strictly request and reply on each, kept."""
    lanes, good = [i.dial() for _ in range(4)], 0
    for n in range(400):
        sock = lanes[n % 4]
        data = struct.pack("<I", n) * 256
        good += i.write(sock, n * 1024, data) and i.read(sock, n * 1024, 1024) == data
    ok(good == 400, "pool on: 800 requests over 4 connections")
    for sock in lanes:
        sock.close()


def pipelined(i):
    with i.dial() as sock:
        i.write(sock, 0, b"A" * 1000 + b"B" * 1000)
        sock.sendall(header(1000, i.addr, READ | V2) + header(1000, i.addr + 1000, READ | V2))
        ok(read_all(sock, 2016) == OK + b"A" * 1000 + OK + b"B" * 1000, "two pipelined READs, in order")
        sock.sendall(header(4, i.addr, WRITE | V2) + b"1234" + header(4, i.addr, READ | V2))
        ok(read_all(sock, 20) == OK + OK + b"1234", "WRITE and READ in one segment")


def refusals(i):
    beyond = i.addr + i.length
    for what, size, addr in (("outside", 64, beyond + (1 << 30)), ("across the end", 65, beyond - 64),
                             ("of nothing", 0, i.addr), ("that wraps", (1 << 64) - 100, i.addr)):
        with i.dial() as sock:
            sock.sendall(header(size, addr, READ | V2))
            ok(read_all(sock, 9) == REFUSED, "READ %s: refusal frame, then the end" % what)
    with i.dial() as sock:
        sock.sendall(header(64, beyond, READ))
        ok(sock.recv(1) == b"", "v1 READ outside: closed without a byte")
    with i.dial() as sock:
        sock.sendall(header(1 << 20, beyond, WRITE | V2))
        # The real initiator reads while it still sends: the frame comes at once.
        ok(read_all(sock, 8) == REFUSED, "WRITE outside: refused before its payload has come")
    with i.dial() as sock:
        ok(i.read(sock, 0, 4) == b"1234", "and the target serves on")


def initiate(ready):
    i = Initiator(ready)
    handshakes(i)
    pool_off(i)
    pool_on(i)
    pipelined(i)
    refusals(i)
    print("1..%d" % count)
    return bad != 0


def main(argv):
    options = dict((a[2:].split("=") + [""])[:2] for a in argv if a.startswith("--"))
    words = [a for a in argv if not a.startswith("--")]
    if words[0] == "serve":
        serve(*words[1:4], int(options.get("length", 4 << 20)), "deny" in options)
        return 0
    return initiate(words[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
