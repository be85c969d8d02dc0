"""Calls with arguments that make no sense, from several threads at once: errors, never a crash."""

import inspect
import os
import random
import threading

import numpy as np

import lib
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

CALLS = 30_000 // (lib.SLOW if lib.SANITIZED else 1)
SIZE = 1 << 16

METHODS = [n for n, m in inspect.getmembers(TransferEngine, callable) if not n.startswith("_") and n != "initialize_ext"]
# These block for a name that nobody has.
SLOW_ONES = {"send_probe", "get_first_buffer_address", "initialize", "get_local_topology"}


class Fuzz(lib.TestCase):
    def pools(self, e, other, name):
        """By the name of an argument. A good address goes with lengths that stay inside, or far outside."""
        arrays = [np.zeros(SIZE, dtype=np.uint8) for _ in range(4)]
        managed = [e.allocate_managed_buffer(SIZE) for _ in range(4)]
        remote = [other.allocate_managed_buffer(SIZE) for _ in range(4)]
        junk = [None, 1.5, "x", b"x", [], {}, object(), -1, 0, 8, 1 << 47, 1 << 64, 1 << 200, "", [None], TransferEngine]
        addresses = managed + [a.ctypes.data for a in arrays] + [a + 100 for a in managed]
        lengths = [0, 1, 7, 4096, 65_000, 1 << 62, -1, 1 << 64]
        batches = [random.randrange(1 << 30) for _ in range(8)]
        objects = arrays + [bytes(SIZE), bytearray(SIZE), memoryview(bytearray(SIZE))[::1], bytearray(SIZE)]
        some = {
            "target_hostname": [name] * 4,
            "segment_name": [name],
            "peer_server_name": [name],
            "buffer": addresses + objects,
            "peer_buffer_address": remote + [a + 1 for a in remote],
            "length": lengths,
            "capacity": lengths,
            "opcode": [TransferOpcode.READ, TransferOpcode.WRITE],
            "notify": [None, TransferNotify("a", "b")],
            "batch_id": batches,
            "dest_address": managed,
            "src_ptr": [bytes(SIZE - 1)],
            "source_address": addresses,
            "buffer_addr": addresses,
            "location": ["*", "cpu:0", "cuda:1", "moon", None],
            "transport_hint": [None],
        }
        some["buffers"] = [[random.choice(some["buffer"]) for _ in range(k)] for k in (0, 1, 2, 2)]
        some["peer_buffer_addresses"] = [[random.choice(remote) for _ in range(k)] for k in (0, 1, 2, 2)]
        some["lengths"] = [[random.choice(lengths) for _ in range(k)] for k in (0, 1, 2, 2)]
        some["capacities"] = some["lengths"]
        some["buffer_addresses"] = [[random.choice(addresses) for _ in range(k)] for k in (1, 2)]
        some["batch_ids"] = [batches[:k] for k in (1, 2)]
        return some, junk, batches, (arrays, objects)

    def work(self, seed, e, pools, wrong):
        some, junk, batches, _ = pools
        rng = random.Random(seed)
        for i in range(CALLS // 4):
            method = rng.choice(METHODS)
            if method in SLOW_ONES and i % 100:
                continue
            call = getattr(e, method)
            args = []
            for p in inspect.signature(call).parameters:
                args.append(rng.choice(junk if rng.random() < 0.08 else some.get(p, junk)))
            if method == "initialize":
                args[1] = "P2PHANDSHAKE"
            # Never a name that takes long to look up.
            if args and isinstance(args[0], str) and args[0] in ("x", ""):
                args[0] = "127.0.0.1:1"
            try:
                result = call(*args[: rng.randrange(len(args) + 1)] if rng.random() < 0.05 else args)
            except (TypeError, ValueError, BufferError, IndexError):
                continue
            except BaseException as x:  # pylint: disable=broad-except
                wrong.append((method, args, x))
                return
            if ("submit" in method or "async" in method) and isinstance(result, int) and result > 0:
                batches[rng.randrange(len(batches))] = result

    def test_threads(self):
        """30,000 of them"""
        seed = int(os.environ.get("SEED", "1"))
        random.seed(seed)
        e, other = self.engine(), self.engine()
        name = f"127.0.0.1:{other.get_rpc_port()}"
        pools, wrong = self.pools(e, other, name), []
        threads = [threading.Thread(target=self.work, args=(seed + i, e, pools, wrong)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        data = os.urandom(1000)
        there = other.allocate_managed_buffer(1000)
        self.assertEqual(e.transfer_sync_write(name, data, there, 1000), 0)
        self.assertEqual(other.read_bytes_from_buffer(there, 1000), data)


if __name__ == "__main__":
    lib.main()
