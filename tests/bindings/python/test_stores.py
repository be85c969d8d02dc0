"""Python against te-target and against Python, with each metadata store."""

import os
import unittest

import lib
from mooncake.engine import TransferEngine

PEER = """
import sys
from mooncake.engine import TransferEngine
name, server, kind = sys.argv[1:4]
engine = TransferEngine()
assert engine.initialize_ext(name, server, "tcp", "", kind) == 0
address = engine.allocate_managed_buffer(1 << 20)
engine.write_bytes_to_buffer(address, b"from the peer", 13)
print(address, engine.get_rpc_port(), flush=True)
sys.stdin.read()
"""


class Stores(lib.TestCase):
    def move(self, engine, name, address):
        data = os.urandom(300_000)
        back = bytearray(len(data))
        self.assertEqual(engine.transfer_sync_write(name, data, address, len(data)), 0)
        self.assertEqual(engine.transfer_sync_read(name, back, address, len(data)), 0)
        self.assertEqual(back, data)

    def with_store(self, kind, server, uri, names):
        peer = self.script(PEER, names[0], server, kind, stdin=lib.subprocess.PIPE)
        address, port = map(int, peer.stdout.readline().split())
        target = self.target(name=names[1], store=uri)
        engine = TransferEngine()
        self.assertEqual(engine.initialize(names[2], uri, "tcp", ""), 0)
        hello = bytearray(13)
        self.assertEqual(engine.transfer_sync_read(names[0], hello, address, 13), 0)
        self.assertEqual(hello, b"from the peer")
        self.assertEqual(engine.get_first_buffer_address(names[0]), address)
        self.move(engine, names[0], address)
        self.assertEqual(engine.get_first_buffer_address(names[1]), target["address"])
        self.move(engine, names[1], target["address"])
        self.assertGreater(port, 1023)
        self.assertEqual(engine.send_probe(names[0]), 0)
        peer.stdin.close()
        self.assertEqual(peer.wait(20), 0)
        self.assertLess(engine.send_probe(names[0]), 0)
        self.assertEqual(engine.get_first_buffer_address("nobody-of-that-name:9"), 0)
        self.assertLess(engine.transfer_sync_write("nobody-of-that-name:9", b"x", 4096, 1), 0)

    def test_p2p(self):
        """P2P, whatever the metadata string says"""
        names = [f"127.0.0.1:{lib.free_port()}" for _ in range(3)]
        self.with_store("p2p", "127.0.0.1:2379", "P2PHANDSHAKE", names)

    def test_http(self):
        """http"""
        server = self.store("http")
        self.with_store("http", server, f"http://{server}", ["peer", "target", "initiator"])

    def test_redis(self):
        """redis"""
        server = self.store("redis")
        self.with_store("redis", server, f"redis://{server}", ["peer", "target", "initiator"])

    def test_etcd(self):
        """etcd, with and without a scheme"""
        server = self.store("etcd")
        self.with_store("etcd", server, server, ["peer", "target", "initiator"])

    def test_failures(self):
        """a store that is not there, an unknown scheme, type and protocol are negative, and one may try again"""
        e = TransferEngine()
        dead = lib.free_port()
        self.assertLess(e.initialize("a", f"redis://127.0.0.1:{dead}", "tcp", ""), 0)
        self.assertLess(e.initialize("a", f"pigeon://127.0.0.1:{dead}", "tcp", ""), 0)
        self.assertLess(e.initialize_ext("a", f"127.0.0.1:{dead}", "tcp", "", "pigeon"), 0)
        self.assertLess(e.initialize("127.0.0.1", "P2PHANDSHAKE", "pigeon", ""), 0)
        self.assertLess(e.get_rpc_port(), 0)
        self.assertEqual(e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""), 0)
        self.assertLess(e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""), 0)
        self.assertGreater(e.get_rpc_port(), 0)

    def test_environment(self):
        """MC_METADATA_SERVER where no server is given"""
        server = self.store("http")
        os.environ["MC_METADATA_SERVER"] = f"http://{server}"
        self.addCleanup(os.environ.pop, "MC_METADATA_SERVER")
        target = self.target(name="target", store=f"http://{server}")
        e = self.engine("initiator", "")
        self.assertEqual(e.get_first_buffer_address("target"), target["address"])

    def test_silent(self):
        """an object that is registered for its transfer costs the store nothing"""
        server = "http://" + self.store("http")
        self.target(name="target", store=server)
        e = self.engine("initiator", server)
        there = e.get_first_buffer_address("target")
        published = []
        for _ in range(2):
            self.assertEqual(e.transfer_sync_write("target", bytes(1 << 20), there, 1 << 20), 0)
            get = ["te-meta", f"--metadata-server={server}", "get", "mooncake/ram/initiator"]
            published.append(lib.subprocess.run(get, capture_output=True, text=True, check=True).stdout)
        self.assertIn("initiator", published[0])
        self.assertEqual(*published)

    def test_owner(self):
        """a name whose owner is alive is refused, and free when its engine is let go"""
        server = "http://" + self.store("http")
        a = self.engine("name", server)
        b = TransferEngine()
        self.assertLess(b.initialize("name", server, "tcp", ""), 0)
        del a
        self.assertEqual(b.initialize("name", server, "tcp", ""), 0)

    @unittest.skipIf(os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"),
                     "there are RDMA devices here")
    def test_protocol(self):
        """protocol selects: rdma fails where there is none"""
        e = TransferEngine()
        self.assertLess(e.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", ""), 0)
        self.assertEqual(e.initialize("127.0.0.1", "P2PHANDSHAKE", "auto", ""), 0)


if __name__ == "__main__":
    lib.main()
