#!/usr/bin/python3
"""hostile.py - malformed frames, idle and dripping clients against a te-target.

hostile.py rpc|data|idle|drip|memory READY_FILE PID

READY_FILE is what te-target --ready-file wrote, PID its process. Prints TAP. Whatever is sent, the process must
live, a probe must be answered within 100 ms, and memory must stay flat.
"""
import json
import os
import socket
import struct
import sys
import time

READ, WRITE, V2 = 0, 1, 0x80
REFUSED = struct.pack("<Q", 0x4D43545600000001)
ACCEPTED = struct.pack("<Q", 0x4D43545600000000)
# A sanitizer build is slower, and keeps freed memory for a while.
PLAIN = os.environ.get("O", "build") == "build"
PROBE_LIMIT = 0.1 if PLAIN else 1.0

count = bad = 0


def ok(good, text):
    global count, bad
    count += 1
    bad += not good
    print("%sok %d - %s" % ("" if good else "not ", count, text), flush=True)


def connect(port, timeout=5):
    return socket.create_connection(("127.0.0.1", port), timeout)


def receive(sock, size):
    """Up to `size` bytes, fewer if the peer closes or resets."""
    got = b""
    try:
        while len(got) < size:
            more = sock.recv(min(65536, size - len(got)))
            if not more:
                break
            got += more
    except ConnectionResetError:
        pass
    return got


def frame(kind, body):
    if isinstance(body, str):
        body = body.encode()
    return struct.pack("<QB", len(body) + 1, kind) + body


def ask(port, data, timeout=5):
    """Everything the daemon answers to `data`, sent as it is; None if it neither answers nor closes."""
    with connect(port, timeout) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return receive(sock, 1 << 21)
        except socket.timeout:
            return None
        except OSError:  # reset before we were done
            return b""


def well_formed(reply):
    """A whole frame with JSON in it."""
    if len(reply) < 9:
        return False
    size, = struct.unpack("<Q", reply[:8])
    if size != len(reply) - 8:
        return False
    body = reply[9:] if reply[8] in (0, 1, 2, 3, 0x10) else reply[8:]
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def probe(port):
    """Seconds that a probe took; None if the answer is wrong."""
    began = time.monotonic()
    with connect(port) as sock:
        sock.sendall(frame(3, "{}\n"))
        head = receive(sock, 8)
        if len(head) < 8:
            return None
        reply = receive(sock, struct.unpack("<Q", head)[0])
    took = time.monotonic() - began
    return took if reply[:1] == b"\3" and json.loads(reply[1:])["status"] == "success" else None


def request(sock, size, addr, opcode, body=b""):
    sock.sendall(struct.pack("<QQB7x", size, addr, opcode) + body)


class Target:
    def __init__(self, ready, pid):
        with open(ready) as f:
            doc = json.load(f)
        self.pid = pid
        self.rpc = doc["rpc_port"]
        self.data = doc["tcp_data_port"]
        self.addr = doc["buffers"][0]["addr"]
        self.length = doc["buffers"][0]["length"]

    def rss(self):
        """Kilobytes of private memory."""
        with open("/proc/%d/status" % self.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))

    def alive(self, after):
        try:
            took = probe(self.rpc)
        except OSError as e:
            ok(False, "%s: no answer to a probe: %s" % (after, e))
            return
        ok(took is not None and took < PROBE_LIMIT, "%s: a probe is answered%s" %
           (after, "" if took is None else " in %.1f ms" % (took * 1000)))

    def serves(self, after):
        began = time.monotonic()
        try:
            with connect(self.data) as sock:
                request(sock, 16, self.addr, READ | V2)
                got = receive(sock, 24)
        except OSError as e:
            ok(False, "%s: the data port does not serve: %s" % (after, e))
            return
        took = time.monotonic() - began
        ok(len(got) == 24 and got[:8] == ACCEPTED and took < PROBE_LIMIT,
           "%s: a READ is served in %.1f ms" % (after, took * 1000))


def malformed():
    """(what, bytes): frames that must end in a closed connection."""
    yield "length 0", struct.pack("<Q", 0)
    for size in (1 << 20) + 1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1:
        yield "length %#x" % size, struct.pack("<QB", size, 1) + b"{}\n"
    yield "7 bytes of a length", b"\1" * 7
    yield "a length and nothing", struct.pack("<Q", 100)
    yield "half a body", frame(1, "{}\n")[:-2]
    yield "type 0x80, no JSON", frame(0x80, "x")
    for kind in 0, 1, 2, 3, 9, ord("{"):
        yield "type %d, no body" % kind, frame(kind, "")
        yield "type %d, text that is no JSON" % kind, frame(kind, "hello\n")
        yield "type %d, half an object" % kind, frame(kind, '{"a":')
        yield "type %d, binary" % kind, frame(kind, bytes(range(256)))
        for b in "[", '{"a":', '[{"a":':
            yield "type %d, 1500 nested %s" % (kind, b), frame(kind, b * 1500)


def wrong_typed():
    """(what, bytes): JSON whose types are wrong; refused, or answered by a whole frame."""
    bodies = ["[]", "null", "5", '"text"', "true", "1e999", "{}", '{"qp_num":["x"]}', '{"qp_num":5}',
              '{"qp_num":[-1,1e30,null,{}]}', '{"local_nic_path":[],"peer_nic_path":{}}', '{"local_lid":"17"}',
              '{"name":5,"notify_msg":"x"}', '{"name":"x","notify_msg":[]}', '{"name":null,"notify_msg":null}',
              '{"buffers":"x","protocol":[]}', '{"buffers":[5],"name":{},"devices":-1}', '{"priority_matrix":[]}',
              '{"local_gid":5,"reply_msg":{}}', '{"te":[]}', '{"te":{"pid":"x"}}', '{"a":"\\u0000\\ud800"}']
    for kind in 0, 1, 2, 3, 0x10:
        for body in bodies:
            yield "type %d %s" % (kind, body), frame(kind, body + "\n")
        yield "type %d, 1500 nested and closed" % kind, frame(kind, "[" * 1500 + "]" * 1500)
    for body in bodies[:8]:
        yield "old frame %s" % body, struct.pack("<Q", len(body)) + body.encode()


def do_rpc(t):
    t.alive("at first")
    for what, data in malformed():
        reply = ask(t.rpc, data)
        ok(reply == b"", "%s: closed without a byte%s" % (what, "" if reply == b"" else ", got %r" % (reply,)))
    t.alive("after malformed frames")
    for what, data in wrong_typed():
        reply = ask(t.rpc, data)
        ok(reply is not None and (reply == b"" or well_formed(reply)), "%s: %s" % (
            what, "nothing happens" if reply is None else "closed" if reply == b"" else "answered"))
    t.alive("after wrong-typed JSON")
    good = ask(t.rpc, frame(1, "{}\n"))
    ok(well_formed(good) and good[8] == 1, "the descriptor can still be had")
    with connect(t.rpc) as sock:
        for byte in frame(3, "{}\n"):
            sock.sendall(bytes([byte]))
        ok(well_formed(receive(sock, 31)), "a frame in single bytes is answered")


def refusals(t):
    """(what, size, address): ranges that the data port must refuse."""
    end = t.addr + t.length
    yield "size 0", 0, t.addr
    yield "address 0", 16, 0
    yield "one byte before the buffer", 16, t.addr - 1
    yield "one byte after the end", 1, end
    yield "across the end", 32, end - 16
    yield "1 TiB", 1 << 40, t.addr
    yield "2^63 bytes", 1 << 63, t.addr
    yield "2^64 - 1 bytes", (1 << 64) - 1, t.addr
    yield "a range that wraps", (1 << 64) - t.addr + 16, t.addr
    yield "the last byte of all", 1, (1 << 64) - 1


def refuse(t, what, size, addr, op, version):
    with connect(t.data) as sock:
        try:
            request(sock, size, addr, op | version, b"x" * min(size, 64) if op == WRITE else b"")
            got = receive(sock, 4096)
        except (BrokenPipeError, ConnectionResetError):
            got = b""
        except socket.timeout:
            got = None
    # The refusal may be lost to the reset that follows it when a body was not read (INTEROP 3.4).
    good = got == b"" if not version else got in (REFUSED, b"") if op == WRITE else got == REFUSED
    ok(good, "v%d %s of %s is refused%s" % (2 if version else 1, "WRITE" if op == WRITE else "READ", what,
                                             "" if good else ", got %r" % (got,)))


def do_data(t):
    before = mem_of(t)
    for what, size, addr in refusals(t):
        for op in READ, WRITE:
            for version in V2, 0:
                refuse(t, what, size, addr, op, version)
    ok(mem_of(t) == before, "nothing was written")
    for what, data in ("half a header", b"\1" * 11), ("a header, then nothing", struct.pack(
            "<QQB7x", 4096, t.addr, WRITE | V2)), ("random bytes", os.urandom(4096)):
        ask(t.data, data)
        t.serves("after " + what)
    with connect(t.data) as sock:
        request(sock, 16, t.addr, READ | V2)
        request(sock, 16, t.addr + t.length, READ | V2)
        got = receive(sock, 4096)
    ok(len(got) == 32 and got[:8] == ACCEPTED and got[24:] == REFUSED, "good, then bad, pipelined: one served, one refused")
    with connect(t.data) as sock:
        request(sock, 1 << 20, t.addr, READ | V2)
    t.serves("after a reader that left")
    t.alive("at the end")


def mem_of(t):
    """The target's whole buffer, by its own protocol."""
    with connect(t.data) as sock:
        request(sock, t.length, t.addr, READ | V2)
        return receive(sock, 8 + t.length)[8:]


def do_idle(t):
    before = t.rss()
    held = []
    for _ in range(100):
        held += [connect(t.rpc), connect(t.data)]
    t.alive("with 200 idle connections")
    t.serves("with 200 idle connections")
    for sock in held[::2]:
        sock.sendall(struct.pack("<QB", 1 << 20, 1))
    for sock in held[1::2]:
        request(sock, t.length, t.addr, WRITE | V2)
    t.alive("each has announced the greatest length and sends nothing")
    t.serves("each has announced the greatest length and sends nothing")
    grown = t.rss() - before
    ok(grown < (4096 if PLAIN else 65536), "memory has grown by %d KiB: nothing is allocated on a peer's word" % grown)
    for sock in held:
        sock.close()
    t.alive("after they left")


def do_drip(t):
    """Clients that send one byte at a time, slowly; the pace is what is tested, so this one does pause."""
    drips = [(connect(port), data) for port, data in
             [(t.rpc, frame(1, "{}\n"))] * 8 + [(t.rpc, frame(3, " " * 5000))] * 8 +
             [(t.data, struct.pack("<QQB7x", 16, t.addr, READ | V2))] * 8]
    for n in range(3):
        for sock, data in drips:
            try:
                sock.sendall(data[n:n + 1])
            except OSError:
                pass
        t.alive("byte %d of a dripping client" % (n + 1))
        t.serves("byte %d of a dripping client" % (n + 1))
        if n < 2:
            time.sleep(3)
    for sock, _ in drips:
        sock.close()
    t.alive("after they left")


def do_memory(t):
    frames = [data for _, data in list(malformed()) + list(wrong_typed())]

    def burst():
        for data in frames:
            ask(t.rpc, data)
        for what, size, addr in refusals(t):
            ask(t.data, struct.pack("<QQB7x", size, addr, WRITE | V2) + b"x" * 64)

    burst()
    before, fds = t.rss(), len(os.listdir("/proc/%d/fd" % t.pid))
    for _ in range(5):
        burst()
    grown = t.rss() - before
    ok(grown < (1024 if PLAIN else 65536), "memory is flat: %d KiB more after %d malformed frames" % (grown, 5 * len(frames)))
    now = len(os.listdir("/proc/%d/fd" % t.pid))
    ok(now <= fds + 4, "descriptors are flat: %d, then %d" % (fds, now))
    t.alive("at the end")


def main():
    t = Target(sys.argv[2], int(sys.argv[3]))
    {"rpc": do_rpc, "data": do_data, "idle": do_idle, "drip": do_drip, "memory": do_memory}[sys.argv[1]](t)
    print("1..%d" % count)
    return 1 if bad else 0


sys.exit(main())
