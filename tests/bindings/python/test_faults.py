"""Dead and frozen peers, the end of the interpreter, fork, signals."""

import os
import signal
import sys
import threading
import time

import lib

# An engine of its own process, with what the scripts below need.
PRELUDE = """
import os, sys, threading, time
from mooncake.engine import TransferEngine
name, address = sys.argv[1], int(sys.argv[2])
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
assert engine.transfer_sync_write(name, b"x", address, 1) == 0
"""


def freeze(p):
    os.kill(p.pid, signal.SIGSTOP)

    def stopped():
        with open(f"/proc/{p.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    lib.until(stopped)


class Peers(lib.TestCase):
    def setUp(self):
        super().setUp()
        os.environ["MC_TRANSFER_TIMEOUT"] = "2"
        self.addCleanup(os.environ.pop, "MC_TRANSFER_TIMEOUT")
        self.addCleanup(os.environ.pop, "MC_FORCE_TCP", None)

    def begin(self, path):
        if path == "tcp":
            os.environ["MC_FORCE_TCP"] = "1"
        t = self.target()
        self.name, self.address, self.peer = t["segment"], t["address"], t["process"]
        return self.engine()

    def timed(self, call, *args):
        start = time.monotonic()
        return call(*args), time.monotonic() - start

    def killed(self, path):
        e = self.begin(path)
        data = bytearray(8 << 20)
        self.assertEqual(e.transfer_sync_read(self.name, data, self.address, len(data)), 0)
        got, codes = [], []

        def work():
            while not codes:
                got.append(e.transfer_sync_read(self.name, bytearray(8 << 20), self.address, 8 << 20))
                if got[-1]:
                    codes.append(got[-1])

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        lib.until(lambda: len(got) > 2, 30)
        batch = e.transfer_submit_read(self.name, data, self.address, len(data))
        os.kill(self.peer.pid, signal.SIGKILL)
        for t in threads:
            t.join(30 * lib.SLOW)
            self.assertFalse(t.is_alive())
        self.assertLess(codes[0], 0)
        self.assertIn(lib.until(lambda: e.transfer_check_status(batch), 15), (1, -1, -2))
        code, took = self.timed(e.transfer_sync_write, self.name, b"x", self.address, 1)
        self.assertLess(code, 0)
        self.assertLess(took, 10 * lib.SLOW)
        batch = e.transfer_submit_write(self.name, b"x", self.address, 1)
        if batch >= 0:
            self.assertIn(lib.until(lambda: e.transfer_check_status(batch), 15), (-1, -2))

    def test_kill_tcp(self):
        """kill -9 of the peer over tcp: negative in time"""
        self.killed("tcp")

    def test_kill_shm(self):
        """kill -9 of the peer over shm: negative in time"""
        self.killed("shm")

    def test_frozen(self):
        """a frozen peer over tcp: -203 after MC_TRANSFER_TIMEOUT, -2 of what was submitted, and it is well again later"""
        e = self.begin("tcp")
        data = bytearray(1 << 20)
        self.assertEqual(e.transfer_sync_read(self.name, data, self.address, len(data)), 0)
        freeze(self.peer)
        batch = e.transfer_submit_read(self.name, data, self.address, len(data))
        self.assertGreaterEqual(batch, 1)
        self.assertEqual(e.transfer_check_status(batch), 0)
        code, took = self.timed(e.transfer_sync_read, self.name, data, self.address, len(data))
        self.assertEqual(code, -203)
        self.assertLess(took, 8 * lib.SLOW)
        self.assertEqual(lib.until(lambda: e.transfer_check_status(batch)), -2)
        self.assertEqual(e.transfer_check_status(batch), -1)
        # Quiet: what comes late changes nothing.
        data[:] = b"\1" * len(data)
        os.kill(self.peer.pid, signal.SIGCONT)
        self.assertEqual(lib.until(lambda: e.transfer_sync_write(self.name, b"y", self.address, 1) == 0), True)
        self.assertEqual(data, b"\1" * len(data))

    def test_interrupt(self):
        """Ctrl-C ends a wait with KeyboardInterrupt"""
        os.environ["MC_TRANSFER_TIMEOUT"] = "60"
        self.begin("tcp")
        p = self.script(PRELUDE + """
print("ready", flush=True)
sys.stdin.readline()
print("go", flush=True)
try:
    engine.transfer_sync_write(name, b"x", address, 1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.exit(3)
""", self.name, str(self.address), stdin=lib.subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), "ready\n")
        freeze(self.peer)
        p.stdin.write("\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), "go\n")
        time.sleep(0.3)
        start = time.monotonic()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), "interrupted\n")
        self.assertLess(time.monotonic() - start, 3 * lib.SLOW)
        self.assertEqual(p.wait(20 * lib.SLOW), 3)


class Ends(lib.TestCase):
    """The interpreter ends in the middle of things, cleanly and soon."""

    def run_script(self, text, frozen=False, want=0, force_tcp=True):
        env = dict(os.environ, MC_TRANSFER_TIMEOUT="60")
        if force_tcp:
            env["MC_FORCE_TCP"] = "1"
        t = self.target()
        p = self.script(PRELUDE + "print('ready', flush=True); sys.stdin.readline()\n" + text, t["segment"],
                        str(t["address"]), env=env, stdin=lib.subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), "ready\n")
        if frozen:
            freeze(t["process"])
        start = time.monotonic()
        p.stdin.write("\n")
        p.stdin.flush()
        p.stdin.close()
        with open(p.log) as log:
            self.assertEqual(p.wait(40 * lib.SLOW), want, log.read())
        self.assertLess(time.monotonic() - start, 15 * lib.SLOW)
        out = p.stdout.read()
        with open(p.log) as log:
            self.assertNotRegex(log.read(), "Fatal|Sanitizer|Traceback|Segmentation")
        return out

    def test_submitted(self):
        """transfers in flight, to a peer that lives and to one that is frozen"""
        text = "ids = [engine.transfer_submit_read(name, bytearray(4 << 20), address, 4 << 20) for _ in range(20)]\n" \
               "assert min(ids) > 0\n"
        for frozen in (False, True):
            for tcp in (True, False):
                self.run_script(text, frozen, force_tcp=tcp)

    def test_threads(self):
        """daemon threads inside calls"""
        text = """
def work():
    while True:
        engine.transfer_sync_read(name, bytearray(1 << 20), address, 1 << 20)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
        self.run_script(text)
        self.run_script(text, frozen=True)

    def test_order(self):
        """an engine of a global, of a cycle, of a thread, and one that exit handlers use"""
        self.assertEqual(self.run_script("""
import atexit
class Holder:
    pass
h = Holder()
h.me, h.engine = h, engine
keep = [TransferEngine() for _ in range(3)]
for e in keep:
    assert e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
def last():
    print(engine.transfer_sync_write(name, b"x", address, 1))
atexit.register(last)
class Late:
    def __del__(self):
        print(engine.transfer_sync_write(name, b"x", address, 1) < 0)
late = Late()
""").splitlines()[0], "0")

    def test_exception(self):
        """an exception that nobody catches"""
        t = self.target()
        p = self.script(PRELUDE + "engine.transfer_submit_read(name, bytearray(4 << 20), address, 4 << 20)\n1 / 0\n",
                        t["segment"], str(t["address"]))
        self.assertEqual(p.wait(20 * lib.SLOW), 1)

    def test_fork(self):
        """a child of fork gets errors, leaves the parent's engine alone, and may have one of its own"""
        self.assertEqual(self.run_script("""
pid = os.fork()
if pid == 0:
    assert engine.transfer_sync_write(name, b"x", address, 1) < 0
    assert engine.transfer_submit_write(name, b"x", address, 1) < 0
    assert engine.allocate_managed_buffer(8) == 0 and engine.get_notifies() == []
    mine = TransferEngine()
    assert mine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert mine.transfer_sync_write(name, b"x", address, 1) == 0
    del engine
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
print(engine.transfer_sync_write(name, b"x", address, 1))
import multiprocessing
def child(q):
    q.put(engine.transfer_sync_write(name, b"x", address, 1))
m = multiprocessing.get_context("fork")
q = m.Queue()
p = m.Process(target=child, args=(q,))
p.start()
print(q.get() < 0)
p.join()
print(p.exitcode, engine.transfer_sync_write(name, b"x", address, 1))
"""), "0\nTrue\n0 0\n")

    def test_entries(self):
        """nothing is left in the store"""
        server = "http://" + self.store("http")
        p = self.script("""
import sys
from mooncake.engine import TransferEngine
e = TransferEngine()
assert e.initialize("short-lived", sys.argv[1], "tcp", "") == 0
""", server)
        self.assertEqual(p.wait(20 * lib.SLOW), 0)
        ls = lib.subprocess.run(["te-meta", f"--metadata-server={server}", "ls"], capture_output=True, text=True, check=True)
        self.assertEqual(ls.stdout, "")

    def test_subinterpreters(self):
        """imported twice in one process"""
        p = self.script("""
import sys
import mooncake.engine as first
del sys.modules["mooncake.engine"]
import mooncake.engine as second
assert first.TransferEngine is not second.TransferEngine
for m in (first, second):
    e = m.TransferEngine()
    assert e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
""")
        self.assertEqual(p.wait(20 * lib.SLOW), 0)


if __name__ == "__main__":
    lib.main()
