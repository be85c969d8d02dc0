"""Registering, managed buffers (against a model), bytes to and from addresses."""

import ctypes
import mmap
import os
import random

import numpy as np

import lib

PAGE = 4096
LARGE = 16 << 20


class Managed(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.e = self.engine()

    def test_basics(self):
        """aligned to pages, all of it usable, freed once"""
        e = self.e
        for length in (1, 4096, 4097, 1 << 20, LARGE, LARGE + 1, 40 << 20):
            a = e.allocate_managed_buffer(length)
            self.assertGreater(a, 0)
            self.assertEqual(a % PAGE, 0)
            data = os.urandom(min(length, 5000))
            self.assertEqual(e.write_bytes_to_buffer(a, data, len(data)), 0)
            self.assertEqual(e.write_bytes_to_buffer(a + length - 1, b"x", 1), 0)
            self.assertEqual(e.read_bytes_from_buffer(a, 1), b"x" if length == 1 else data[:1])
            self.assertLess(e.free_managed_buffer(a, length + 1), 0)
            self.assertLess(e.free_managed_buffer(a, 0), 0)
            self.assertLess(e.free_managed_buffer(a + 1, length), 0)
            self.assertLess(e.free_managed_buffer(a + PAGE, length), 0)
            self.assertEqual(e.free_managed_buffer(a, length), 0)
            self.assertLess(e.free_managed_buffer(a, length), 0)

    def test_foreign(self):
        """foreign addresses and no memory"""
        e = self.e
        array = np.zeros(4096, dtype=np.uint8)
        for a in (0, 1, -1, 1 << 64, 1 << 200, array.ctypes.data):
            self.assertLess(e.free_managed_buffer(a, 4096), 0)
        for n in (0, -1, 1 << 62, 1 << 63, 1 << 64, 1 << 100):
            self.assertEqual(e.allocate_managed_buffer(n), 0)
        other = self.engine()
        a = other.allocate_managed_buffer(4096)
        self.assertLess(e.free_managed_buffer(a, 4096), 0)
        self.assertEqual(other.free_managed_buffer(a, 4096), 0)

    def test_merge(self):
        """freed blocks merge: what was cut into pages serves the longest block again, and memory does not grow"""
        e = self.e
        first = e.allocate_managed_buffer(LARGE)
        e.free_managed_buffer(first, LARGE)
        for order in (1, -1, 0):
            blocks = [e.allocate_managed_buffer(PAGE) for _ in range(64 << 20 >> 12)]
            self.assertEqual(len(set(blocks)), len(blocks))
            self.assertEqual(max(blocks) - min(blocks), (64 << 20) - PAGE)
            if order:
                blocks.sort(reverse=order < 0)
            else:
                random.Random(3).shuffle(blocks)
            for b in blocks:
                self.assertEqual(e.free_managed_buffer(b, PAGE), 0)
            big = [e.allocate_managed_buffer(LARGE) for _ in range(4)]
            self.assertEqual(max(big) - min(big), 3 * LARGE)
            for b in big:
                self.assertEqual(e.free_managed_buffer(b, LARGE), 0)

    def test_model(self):
        """30,000 random calls against a model"""
        e, rng, live = self.e, random.Random(7), {}
        pages = {}  # page -> start of the block that has it
        total = 0
        for _ in range(30_000 // lib.SLOW):
            if live and (rng.random() < 0.5 or total > 200 << 20):
                a = rng.choice(list(live))
                n = live[a]
                kind = rng.random()
                if kind < 0.05:
                    self.assertLess(e.free_managed_buffer(a, n + rng.choice((-1, 1, PAGE))), 0)
                elif kind < 0.1:
                    # The second page of a block, never the start of one.
                    self.assertLess(e.free_managed_buffer(a + PAGE * (1 if n > PAGE else 0) + 8, n), 0)
                else:
                    self.assertEqual(e.free_managed_buffer(a, n), 0)
                    self.assertLess(e.free_managed_buffer(a, n), 0)
                    del live[a]
                    total -= n
                    for p in range(a // PAGE, (a + n + PAGE - 1) // PAGE):
                        del pages[p]
                continue
            n = int(2 ** rng.uniform(0, 21)) if rng.random() < 0.99 else rng.randrange(LARGE, LARGE * 2)
            a = e.allocate_managed_buffer(n)
            self.assertGreater(a, 0)
            self.assertEqual(a % PAGE, 0)
            for p in range(a // PAGE, (a + n + PAGE - 1) // PAGE):
                self.assertNotIn(p, pages)
                pages[p] = a
            live[a] = n
            total += n
        for a, n in live.items():
            self.assertEqual(e.free_managed_buffer(a, n), 0)

    def test_peers(self):
        """peers reach managed buffers, not what has been given back for good"""
        other = self.engine()
        name = f"127.0.0.1:{self.e.get_rpc_port()}"
        a = self.e.allocate_managed_buffer(LARGE + 1)
        self.assertEqual(other.transfer_sync_write(name, b"abc", a, 3), 0)
        self.assertEqual(self.e.read_bytes_from_buffer(a, 3), b"abc")
        self.assertEqual(self.e.free_managed_buffer(a, LARGE + 1), 0)
        self.assertLess(other.transfer_sync_write(name, b"abc", a, 3), 0)


class Bytes(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.e = self.engine()

    def test_own_memory(self):
        """memory that is registered nowhere"""
        array = np.arange(10_000, dtype=np.uint8)
        a = array.ctypes.data
        self.assertEqual(self.e.read_bytes_from_buffer(a, len(array)), array.tobytes())
        self.assertEqual(self.e.write_bytes_to_buffer(a + 5, b"hello", 5), 0)
        self.assertEqual(array[5:10].tobytes(), b"hello")
        self.assertEqual(self.e.write_bytes_to_buffer(a, memoryview(b"xyz"), 2), 0)
        self.assertEqual(array[:3].tobytes(), b"xy\x02")
        self.assertEqual(self.e.read_bytes_from_buffer(a, 0), b"")

    def test_bad(self):
        """addresses where there is no memory, or none that may be written to"""
        e = self.e
        hole = mmap.mmap(-1, 4 * PAGE)
        view = (ctypes.c_char * (4 * PAGE)).from_buffer(hole)
        start = ctypes.addressof(view)
        libc = ctypes.CDLL(None)
        libc.mprotect(ctypes.c_void_p(start + PAGE), PAGE, 0)
        libc.mprotect(ctypes.c_void_p(start + 2 * PAGE), PAGE, 1)
        for a, n in ((0, 1), (1, 8), (-5, 8), (1 << 47, 10), ((1 << 64) - 4, 8), (1 << 70, 1), (start, 2 * PAGE),
                     (start + PAGE, 1), (start, 1 << 62), (start, -1)):
            with self.assertRaises(ValueError):
                e.read_bytes_from_buffer(a, n)
        for a in (0, 1, -5, 1 << 47, (1 << 64) - 4, 1 << 70, start + PAGE - 4, start + PAGE, start + 2 * PAGE):
            self.assertLess(e.write_bytes_to_buffer(a, b"12345678", 8), 0)
        self.assertEqual(e.read_bytes_from_buffer(start + 2 * PAGE, PAGE), bytes(PAGE))
        self.assertLess(e.write_bytes_to_buffer(start, b"12345678", 9), 0)
        self.assertLess(e.write_bytes_to_buffer(start, b"12345678", -1), 0)


    def test_forbidden(self):
        """the same where process_vm_readv is forbidden (seccomp, as containers do)"""
        if os.uname().machine != "x86_64":
            self.skipTest("the filter is written for x86_64")
        p = self.script("""
import ctypes, mmap, os, struct
from mooncake.engine import TransferEngine
libc = ctypes.CDLL(None, use_errno=True)
# load the number; 310 gets EPERM, all others pass
code = b"".join(struct.pack("HBBI", *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, 310), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)))
keep = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(keep))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
e = TransferEngine()
memory = mmap.mmap(-1, 1 << 20)
a = ctypes.addressof((ctypes.c_char * (1 << 20)).from_buffer(memory))
assert libc.process_vm_readv(os.getpid(), 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
data = os.urandom(300_000)
assert e.write_bytes_to_buffer(a + 5, data, len(data)) == 0
assert e.read_bytes_from_buffer(a + 5, len(data)) == data
libc.mprotect(ctypes.c_void_p(a + 4096), 4096, 1)
for bad in (0, 8, 1 << 47, a + 4096, a + 4000):
    assert e.write_bytes_to_buffer(bad, data, 200) < 0, bad
libc.mprotect(ctypes.c_void_p(a + 4096), 4096, 0)
for bad in (0, 8, 1 << 47, a + 4096, a + 4000):
    try:
        e.read_bytes_from_buffer(bad, 200)
        assert False, bad
    except ValueError:
        pass
print("good")
""")
        with open(p.log) as log:
            self.assertEqual(p.stdout.read(), "good\n", log.read())


class Registering(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.e, self.other = self.engine(), self.engine()
        self.name = f"127.0.0.1:{self.e.get_rpc_port()}"

    def test_addresses(self):
        """by address: codes of mistakes, and peers reach it between register and unregister only"""
        e = self.e
        array = np.zeros(1 << 20, dtype=np.uint8)
        a, n = array.ctypes.data, array.nbytes
        self.assertEqual(e.register_memory(buffer_addr=a, capacity=n), 0)
        self.assertEqual(e.register_memory(a, n), -7)
        self.assertEqual(e.register_memory(a + 10, 10), -7)
        self.assertEqual(e.register_memory(a + n + PAGE, 0), -1)
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abc", a + n - 3, 3), 0)
        self.assertEqual(array[-3:].tobytes(), b"abc")
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abc", a + n - 2, 3), -3)
        self.assertEqual(e.unregister_memory(a + 1), -3)
        self.assertEqual(e.unregister_memory(buffer_addr=a), 0)
        self.assertEqual(e.unregister_memory(a), -3)
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abc", a, 3), -3)
        self.assertEqual(e.register_memory(a, n, "cpu:0"), 0)
        self.assertEqual(e.unregister_memory(a), 0)
        self.assertEqual(e.register_memory(a, n, location="cuda:0"), -303)
        self.assertEqual(e.register_memory(a, n, location="moon"), -1)

    def test_no_memory(self):
        """addresses of nothing are refused"""
        for a, n in ((0, 4096), (4096, 4096), (1 << 47, 10), (-1, 10), (1 << 64, 1), ((1 << 64) - 100, 200)):
            self.assertLess(self.e.register_memory(a, n), 0)
            self.assertLess(self.e.unregister_memory(a), 0)

    def test_batch(self):
        """all or none"""
        e = self.e
        arrays = [np.zeros(5000, dtype=np.uint8) for _ in range(3)]
        at, lens = [x.ctypes.data for x in arrays], [5000] * 3
        self.assertEqual(e.batch_register_memory(at, lens), 0)
        self.assertEqual(e.batch_unregister_memory(at), 0)
        self.assertLess(e.batch_register_memory(at + [at[0]], lens + [1]), 0)
        self.assertLess(e.batch_register_memory(at, [1]), 0)
        self.assertLess(e.batch_unregister_memory(at), 0)
        self.assertEqual(e.batch_register_memory(buffer_addresses=at, capacities=lens, location="*"), 0)
        self.assertEqual(e.batch_unregister_memory(buffer_addresses=tuple(at)), 0)
        self.assertEqual(e.batch_register_memory([], []), 0)
        self.assertEqual(e.batch_unregister_memory([]), 0)

    def test_objects(self):
        """by object, which is kept; a read-only one is a source for us alone"""
        e = self.e
        array = np.zeros(5000, dtype=np.uint16)
        self.assertEqual(e.register(array), 0)
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abcd", array.ctypes.data + 9996, 4), 0)
        self.assertEqual(array[-2:].tobytes(), b"abcd")
        self.assertEqual(e.register(array), -7)
        self.assertEqual(e.deregister(array), 0)
        self.assertEqual(e.deregister(array), -3)
        grows = bytearray(100)
        self.assertEqual(e.register(grows), 0)
        with self.assertRaises(BufferError):
            grows.extend(b"x" * 10_000)
        self.assertEqual(e.deregister(grows), 0)
        grows.extend(b"x" * 10_000)
        data = os.urandom(100)
        a = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        self.assertEqual(e.register(data), 0)
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abcd", a, 4), -3)
        self.assertEqual(e.deregister(data), 0)
        self.assertEqual(e.deregister(b"never registered"), -3)
        self.assertEqual(e.register(buffer=array, length=10), 0)
        self.assertEqual(self.other.transfer_sync_write(self.name, b"abcd", array.ctypes.data + 8, 4), -3)
        self.assertEqual(e.deregister(buffer=array.ctypes.data), 0)
        self.assertLess(e.register(array, 10_001), 0)
        with self.assertRaises(TypeError):
            e.register(array.ctypes.data)

    def test_kept(self):
        """what is registered outlives its name"""
        array = np.full(5000, 7, dtype=np.uint8)
        a = array.ctypes.data
        self.assertEqual(self.e.register(array), 0)
        del array
        for _ in range(100):
            np.zeros(5000, dtype=np.uint8)
        back = bytearray(5000)
        self.assertEqual(self.other.transfer_sync_read(self.name, back, a, 5000), 0)
        self.assertEqual(back, b"\7" * 5000)
        self.assertEqual(self.e.deregister(a), 0)


if __name__ == "__main__":
    lib.main()
