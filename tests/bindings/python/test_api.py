"""What every call takes, refuses and returns."""

import ctypes
import inspect
import json
import os
import threading
import time

import numpy as np

import lib
import mooncake.engine
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

SIZE = 1 << 20


class Api(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.engine(), self.engine()
        self.name = f"127.0.0.1:{self.b.get_rpc_port()}"
        self.addr = self.b.allocate_managed_buffer(SIZE)
        self.local = self.a.allocate_managed_buffer(SIZE)
        self.to = {"target_hostname": self.name, "peer_buffer_address": self.addr}

    def remote(self, n):
        return self.b.read_bytes_from_buffer(self.addr, n)

    def end(self, batch):
        return lib.until(lambda: self.a.transfer_check_status(batch))

    def test_keywords(self):
        """transfers with the documented keywords, and by position"""
        a = self.a
        a.write_bytes_to_buffer(dest_address=self.local, src_ptr=b"abcdef", length=6)
        self.assertEqual(a.transfer_sync_write(target_hostname=self.name, buffer=self.local,
                                               peer_buffer_address=self.addr, length=6), 0)
        self.assertEqual(self.remote(6), b"abcdef")
        self.assertEqual(a.transfer_sync_read(target_hostname=self.name, buffer=self.local + 100,
                                              peer_buffer_address=self.addr + 1, length=4), 0)
        self.assertEqual(a.read_bytes_from_buffer(source_address=self.local + 100, length=4), b"bcde")
        for op, data in ((TransferOpcode.WRITE, b"ghijkl"), (mooncake.engine.Write, b"mnopqr")):
            a.write_bytes_to_buffer(self.local, data, 6)
            self.assertEqual(a.transfer_sync(target_hostname=self.name, buffer=self.local, length=6,
                                             peer_buffer_address=self.addr, opcode=op), 0)
            self.assertEqual(self.remote(6), data)
        for op in (TransferOpcode.READ, TransferOpcode.Read, mooncake.engine.Read):
            back = bytearray(6)
            self.assertEqual(a.transfer_sync(self.name, back, self.addr, 6, op), 0)
            self.assertEqual(back, data)
        batch = a.transfer_submit_write(buffer=b"123", length=3, **self.to)
        self.assertGreaterEqual(batch, 1)
        self.assertEqual(self.end(batch), 1)
        self.assertLess(a.transfer_check_status(batch_id=batch), 0)
        self.assertEqual(self.remote(3), b"123")
        self.assertEqual(self.b.free_managed_buffer(buffer_addr=self.addr, length=SIZE), 0)
        self.assertEqual(a.get_first_buffer_address(segment_name=self.name), self.addr)

    def test_objects(self):
        """all that has bytes is a source; what is writable, a destination; short and long, registered or not"""
        for n in (1, 5000, 300_000):
            data = os.urandom(n)
            array = np.frombuffer(data, dtype=np.uint8)
            for source in (data, bytearray(data), memoryview(data), array, array.copy(),
                           (ctypes.c_char * n).from_buffer_copy(data)):
                self.b.write_bytes_to_buffer(self.addr, bytes(n), n)
                self.assertEqual(self.a.transfer_sync_write(buffer=source, length=n, **self.to), 0)
                self.assertEqual(self.remote(n), data)
            for sink in (bytearray(n), memoryview(bytearray(n)), np.zeros(n, dtype=np.uint8),
                         (ctypes.c_char * n)()):
                self.assertEqual(self.a.transfer_sync_read(buffer=sink, length=n, **self.to), 0)
                self.assertEqual(bytes(sink), data)
                batch = self.a.transfer_submit_read(buffer=sink, length=n, **self.to)
                self.assertEqual(self.end(batch), 1)
            for sink in (data, memoryview(data), array):
                with self.assertRaises(TypeError):
                    self.a.transfer_sync_read(buffer=sink, length=n, **self.to)

    def test_numbers(self):
        """numpy's integers are addresses; an array is memory, even of one element"""
        a = np.uint64(self.local)
        self.a.write_bytes_to_buffer(a, b"q", np.int32(1))
        self.assertEqual(self.a.transfer_sync_write(self.name, a, np.uint64(self.addr), np.int64(1)), 0)
        self.assertEqual(self.remote(1), b"q")
        one = np.array([7], dtype=np.uint8)
        self.assertEqual(self.a.transfer_sync_write(self.name, one, self.addr, 1), 0)
        self.assertEqual(self.remote(1), b"\7")

    def test_overlap(self):
        """objects of which a part is registered, and two transfers of the same object at once"""
        data = np.frombuffer(os.urandom(SIZE), dtype=np.uint8).copy()
        self.assertEqual(self.a.register_memory(data.ctypes.data + 1000, 500_000), 0)
        for n in (2000, SIZE):
            self.b.write_bytes_to_buffer(self.addr, bytes(n), n)
            self.assertEqual(self.a.transfer_sync_write(buffer=data, length=n, **self.to), 0)
            self.assertEqual(self.remote(n), data[:n].tobytes())
        self.assertEqual(self.a.transfer_sync_write(buffer=data[1000:300_000], length=299_000, **self.to), 0)
        self.assertEqual(self.a.unregister_memory(data.ctypes.data + 1000), 0)
        back = np.zeros(SIZE, dtype=np.uint8)
        self.b.write_bytes_to_buffer(self.addr, data, SIZE)
        batches = [self.a.transfer_submit_read(buffer=back, length=SIZE, **self.to) for _ in range(8)]
        batches += [self.a.transfer_submit_write(buffer=data[i:], length=SIZE - i, target_hostname=self.name,
                                                 peer_buffer_address=self.addr + i) for i in range(8)]
        self.assertEqual([self.end(x) for x in batches], [1] * 16)
        self.assertEqual(back.tobytes(), data.tobytes())
        self.assertEqual(self.a.register(data), 0)
        self.assertEqual(self.a.deregister(data), 0)

    def test_in_flight(self):
        """an object is kept while its transfer is in flight, and let go at its end"""
        class Noted(bytearray):
            gone = 0

            def __del__(self):
                Noted.gone += 1

        batches = []
        for i in range(20):
            batches.append(self.a.transfer_submit_write(self.name, Noted(bytes([i]) * 40_000), self.addr + i * 40_000,
                                                        40_000))
        self.assertEqual(Noted.gone, 0)
        self.assertEqual([self.end(x) for x in batches], [1] * 20)
        self.assertEqual(Noted.gone, 20)
        for i in range(20):
            self.assertEqual(self.b.read_bytes_from_buffer(self.addr + i * 40_000, 40_000), bytes([i]) * 40_000)

    def test_wrong_addresses(self):
        """wrong addresses and lengths are negative, and the next transfer works"""
        sync, submit = self.a.transfer_sync_write, self.a.transfer_submit_write
        array = np.zeros(100, dtype=np.uint8)
        local, addr, big = self.local, self.addr, 1 << 64
        for buffer, peer, n in ((array.ctypes.data, addr, 8), (0, addr, 8), (-1, addr, 8), (8, addr, 8),
                                (big, addr, 8), (big << 99, addr, 8), (local, 0, 8), (local, -1, 8),
                                (local, big, 8), (local, big - 4, 8), (local, addr + SIZE * 64, 8),
                                (local, addr, -1), (local, addr, big), (local, addr, 1 << 63), (local + SIZE * 64, addr, 8),
                                (b"abc", addr, 4), (b"abc", addr, -1), (b"abc", addr, big), (b"abc", 8, 3),
                                (bytes(SIZE), 8, SIZE)):
            with self.subTest(buffer=buffer if isinstance(buffer, int) else len(buffer), peer=peer, n=n):
                self.assertLess(sync(self.name, buffer, peer, n), 0)
                self.assertLess(self.a.batch_transfer_sync_write(self.name, [local, buffer], [addr, peer], [8, n]), 0)
                batch = submit(self.name, buffer, peer, n)
                if batch >= 0:
                    self.assertEqual(self.end(batch), -1)
        for batch in (0, -1, 1, 4711, 1 << 63, 1 << 64):
            self.assertLess(self.a.transfer_check_status(batch), 0)
            self.assertEqual(self.a.get_batch_transfer_status([batch]), -1)
        for name in ("", "nonsense", "127.0.0.1:1", "a/b", "x" * 5000, "127.0.0.1:99999", "[::1", "\u6708:1"):
            with self.subTest(name=name):
                self.assertLess(sync(name, local, addr, 8), 0)
                self.assertLess(submit(name, local, addr, 8), 0)
        self.assertEqual(sync(self.name, local, addr, 8), 0)
        self.assertEqual(sync(self.name, local, addr, 0), 0)
        self.assertEqual(sync(self.name, b"", addr, 0), 0)

    def test_types(self):
        """wrong types are TypeErrors, whatever the argument"""
        a, local, addr, name = self.a, self.local, self.addr, self.name
        op = TransferOpcode.WRITE
        good = {
            "transfer_sync_write": (name, local, addr, 8),
            "transfer_sync_read": (name, local, addr, 8),
            "transfer_submit_write": (name, local, addr, 8),
            "transfer_submit_read": (name, local, addr, 8),
            "transfer_sync": (name, local, addr, 8, op),
            "transfer_check_status": (1,),
            "allocate_managed_buffer": (8,),
            "free_managed_buffer": (local, 8),
            "get_first_buffer_address": (name,),
            "write_bytes_to_buffer": (local, b"abc", 3),
            "read_bytes_from_buffer": (local, 3),
            "register_memory": (local, 8),
            "unregister_memory": (local,),
            "register": (local, 8),
            "deregister": (local,),
            "batch_register_memory": ([local], [8]),
            "batch_unregister_memory": ([local],),
            "batch_transfer_sync_write": (name, [local], [addr], [8]),
            "batch_transfer_sync": (name, [local], [addr], [8], op),
            "batch_transfer_async_read": (name, [local], [addr], [8]),
            "batch_transfer_async": (name, [local], [addr], [8], op),
            "get_batch_transfer_status": ([1],),
            "send_probe": (name,),
            "initialize": ("127.0.0.1", "P2PHANDSHAKE", "tcp", ""),
            "initialize_ext": ("127.0.0.1", "P2PHANDSHAKE", "tcp", "", "p2p"),
        }
        for call, args in good.items():
            f = getattr(a, call)
            for i, value in enumerate(args):
                for wrong in (None, 1.5, object(), {}, {1}, len):
                    if call == "register" and i == 1 and wrong is None:
                        continue
                    with self.subTest(call=call, argument=i, wrong=wrong), self.assertRaises(TypeError):
                        f(*args[:i], wrong, *args[i + 1:])
                if isinstance(value, (str, list)):
                    for wrong in (7, b"bytes"):
                        with self.subTest(call=call, argument=i, wrong=wrong), self.assertRaises(TypeError):
                            f(*args[:i], wrong, *args[i + 1:])
                if isinstance(value, list):
                    for wrong in ([None], ["x"], [1.5], [[]]):
                        with self.subTest(call=call, argument=i, wrong=wrong), self.assertRaises(TypeError):
                            f(*args[:i], wrong, *args[i + 1:])
                if isinstance(value, int):
                    with self.subTest(call=call, argument=i), self.assertRaises(TypeError):
                        f(*args[:i], "text", *args[i + 1:])
            with self.subTest(call=call):
                with self.assertRaises(TypeError):
                    f()
                with self.assertRaises(TypeError):
                    f(*args, *[None] * 9)
                with self.assertRaises(TypeError):
                    f(*args, no_such_argument=1)
                first = next(iter(inspect.signature(f).parameters))
                with self.assertRaises(TypeError):
                    f(*args, **{first: args[0]})
        for wrong in (0, 1, "READ", "Write"):
            with self.assertRaises(TypeError):
                a.transfer_sync(name, local, addr, 8, wrong)
        for wrong in ("x", ("a", "b"), 3):
            with self.assertRaises(TypeError):
                a.transfer_sync(name, local, addr, 8, op, wrong)
        with self.assertRaises(TypeError):
            TransferEngine("x")
        with self.assertRaises(ValueError):
            a.transfer_sync_write("nul\0inside", local, addr, 8)

    def test_batches(self):
        """several at once: all or -1, lists of one length"""
        a = self.a
        parts = [bytes([i]) * 1000 for i in range(50)]
        at = [self.addr + 1000 * i for i in range(50)]
        lens = [1000] * 50
        sinks = [bytearray(1000) for _ in parts]
        self.assertEqual(a.batch_transfer_sync_write(target_hostname=self.name, buffers=parts,
                                                     peer_buffer_addresses=at, lengths=lens), 0)
        self.assertEqual(a.batch_transfer_sync_read(self.name, sinks, at, lens), 0)
        self.assertEqual(sinks, parts)
        ids = [a.batch_transfer_async_write(self.name, parts[::-1], at, lens) for _ in range(3)]
        self.assertTrue(all(i >= 1 for i in ids))
        self.assertEqual(a.get_batch_transfer_status(ids), 0)
        self.assertEqual(a.get_batch_transfer_status(batch_ids=ids[:1]), -1)
        # What is unknown ends the wait: not 2^60 warnings, and what comes after it is not told yet.
        later = a.batch_transfer_async_write(self.name, parts[::-1], at, lens)
        self.assertEqual(a.get_batch_transfer_status(range(1 << 61, 1 << 62)), -1)
        self.assertEqual(a.get_batch_transfer_status([ids[0], later]), -1)
        self.assertEqual(a.get_batch_transfer_status([later]), 0)
        batch = a.batch_transfer_async(self.name, sinks, at, lens, TransferOpcode.READ)
        self.assertEqual(self.end(batch), 1)
        self.assertEqual(sinks, parts[::-1])
        self.assertEqual(a.batch_transfer_sync(self.name, parts, at, lens, opcode=TransferOpcode.WRITE), 0)
        self.assertEqual(a.batch_transfer_sync_write(self.name, parts, at, lens[1:]), -1)
        self.assertEqual(a.batch_transfer_sync_write(self.name, parts, at[1:], lens), -1)
        self.assertEqual(a.batch_transfer_async_write(self.name, parts, at[1:], lens), 0)
        self.assertEqual(a.batch_transfer_sync_write(self.name, [], [], []), 0)
        bad = a.batch_transfer_async_write(self.name, parts, at[:-1] + [8], lens)
        self.assertEqual(a.get_batch_transfer_status([bad]), -1)
        self.assertLess(a.batch_transfer_sync_write(self.name, parts, at[:-1] + [8], lens), 0)

    def test_notify(self):
        """a message behind the bytes, and none behind a failure"""
        n = TransferNotify("name", "text \u6708")
        self.assertEqual((n.name, n.msg, repr(n)), ("name", "text \u6708", "TransferNotify(name='name', msg='text \u6708')"))
        self.assertEqual(self.b.get_notifies(), [])
        self.assertLess(self.a.transfer_sync(self.name, b"x", 8, 1, TransferOpcode.WRITE, notify=n), 0)
        self.assertEqual(self.a.transfer_sync(self.name, b"x", self.addr, 1, TransferOpcode.WRITE, notify=n), 0)
        got = lib.until(self.b.get_notifies)
        self.assertEqual([(x.name, x.msg) for x in got], [("name", "text \u6708")])
        self.assertEqual(self.b.get_notifies(), [])
        n.msg = "2"
        self.assertEqual(self.a.batch_transfer_sync(self.name, [b"x"], [self.addr], [1], TransferOpcode.WRITE, n), 0)
        self.assertEqual(lib.until(self.b.get_notifies)[0].msg, "2")
        self.assertEqual((TransferNotify().name, TransferNotify(msg="x").msg), ("", "x"))
        for bad in (lambda: TransferNotify(1, "x"), lambda: TransferNotify("a", None), lambda: setattr(n, "msg", 3)):
            self.assertRaises(TypeError, bad)
        self.assertRaises(ValueError, TransferNotify, "nul\0inside")

    def test_rest(self):
        """opcodes, topology, help, several engines, a subclass, an engine without initialize"""
        self.assertEqual([o.name for o in TransferOpcode], ["READ", "WRITE"])
        self.assertIs(TransferOpcode.READ, TransferOpcode.Read)
        self.assertIs(TransferOpcode.WRITE, TransferOpcode.Write)
        self.assertIsInstance(json.loads(TransferEngine().get_local_topology()), dict)
        self.assertIsInstance(json.loads(self.a.get_local_topology(device_name="mlx5_0")), dict)
        for name, method in inspect.getmembers(TransferEngine, callable):
            if not name.startswith("_"):
                self.assertGreater(len(method.__doc__), 50, name)
                self.assertTrue(inspect.signature(method), name)
        self.assertIn("Returns 0", TransferEngine.initialize.__doc__)

        class Mine(TransferEngine):
            def __init__(self, word):
                self.word = word

        mine = Mine("w")
        self.assertLess(mine.transfer_sync_write(self.name, b"x", self.addr, 1), 0)
        self.assertEqual((mine.get_notifies(), mine.allocate_managed_buffer(8)), ([], 0))
        self.assertLess(mine.register_memory(self.addr, 8), 0)
        self.assertEqual(mine.initialize("127.0.0.1", "P2PHANDSHAKE", "", ""), 0)
        self.assertEqual(mine.transfer_sync_write(self.name, b"x", self.addr, 1), 0)
        own = f"127.0.0.1:{mine.get_rpc_port()}"
        here = mine.allocate_managed_buffer(100)
        self.assertEqual(mine.transfer_sync_write(own, b"self", here, 4), 0)
        self.assertEqual(mine.read_bytes_from_buffer(here, 4), b"self")

    def test_stub(self):
        """the type stubs have every method, with its arguments"""
        import ast

        with open(os.path.join(lib.TOP, "bindings/python/mooncake/engine.pyi")) as f:
            tree = ast.parse(f.read())
        classes = {c.name: c for c in tree.body if isinstance(c, ast.ClassDef)}
        stubs = {m.name: [x.arg for x in m.args.args] for m in classes["TransferEngine"].body
                 if isinstance(m, ast.FunctionDef)}
        stubs.pop("__init__")
        real = {n: list(inspect.signature(m).parameters) for n, m in inspect.getmembers(TransferEngine, callable)
                if not n.startswith("_")}
        self.assertEqual(stubs, real)

    def test_end(self):
        """an engine that is let go while others are in its calls"""
        e = self.engine()
        stop = []

        def work(i):
            while not stop:
                e.transfer_sync_write(self.name, b"abc", self.addr + 8 * i, 3)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        time.sleep(0.1)
        stop.append(1)
        for t in threads:
            t.join()
        del work, e


if __name__ == "__main__":
    lib.main()
