"""The four examples of the Python document, on tcp with a real etcd, against a te-target."""

import os

import lib

EXAMPLES = os.path.join(lib.TOP, "bindings/python/examples")


class Examples(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.etcd = self.store("etcd")

    def example(self, name, **env):
        """Its output; it must end well."""
        names = {"LOCAL": f"127.0.0.1:{lib.free_port()}", "METADATA": self.etcd, "PROTOCOL": "tcp", "DEVICES": ""}
        done = lib.subprocess.run([lib.sys.executable, "-B", os.path.join(EXAMPLES, name)], capture_output=True, text=True,
                                  env={**os.environ, **lib.PRELOAD, **names, **env}, timeout=60 * lib.SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout

    def read(self, target, n):
        back = bytearray(n)
        self.assertEqual(self.engine("", self.etcd).transfer_sync_read(target["segment"], back, target["address"], n), 0)
        return bytes(back)

    def test_basic(self):
        """basic set-up and transfer"""
        target = self.target(name="the-target", store=self.etcd)
        self.assertEqual(self.example("basic.py", TARGET=target["segment"]), "Data transfer completed successfully\n")
        self.assertEqual(self.read(target, 23), b"Hello, Transfer Engine!")

    def test_asynchronous(self):
        """asynchronous transfer"""
        target = self.target(name="the-target", store=self.etcd)
        self.assertEqual(self.example("asynchronous.py", TARGET=target["segment"]), "Transfer completed successfully\n")
        self.assertEqual(self.read(target, 1 << 20), b"\xa5" * (1 << 20))

    def test_managed(self):
        """managed buffers"""
        self.assertEqual(self.example("managed.py"), "Read data: b'Test data for managed buffer'\n")

    def test_environment(self):
        """environment variables"""
        self.assertEqual(self.example("environment.py"), "initialize: 0\n")


if __name__ == "__main__":
    lib.main()
