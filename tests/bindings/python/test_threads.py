"""Many threads and transfers: the GIL is let go, nothing leaks."""

import gc
import os
import threading
import time

import lib

THREADS = 8
TRANSFERS = 10_000 // (lib.SLOW * 2 if lib.SANITIZED else 1)


class Threads(lib.TestCase):
    def load(self, engines, name, address, buffers):
        """All threads; the codes other than 0."""
        bad = []

        def work(i):
            e, b = engines[i % len(engines)], buffers[i]
            for k in range(TRANSFERS):
                call = e.transfer_sync_read if k % 2 else e.transfer_sync_write
                code = call(name, b, address + i * 65536, 4096)
                if code:
                    bad.append(code)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return bad

    def counted(self, engines, target, buffers):
        count, stop = [0], []

        def background():
            while not stop:
                count[0] += 1
                time.sleep(0)

        counter = threading.Thread(target=background)
        counter.start()
        start = time.monotonic()
        bad = self.load(engines, target["segment"], target["address"], buffers)
        took = time.monotonic() - start
        stop.append(1)
        counter.join()
        self.assertEqual(bad, [])
        rate = THREADS * TRANSFERS / took
        print(f"# {THREADS} threads, {rate:.0f} transfers/s, counter {count[0] / took:.0f}/s", flush=True)
        return count[0] / took

    def test_addresses(self):
        """8 threads x 10,000 transfers of one engine, managed buffers"""
        target, e = self.target(), self.engine()
        buffers = [e.allocate_managed_buffer(4096) for _ in range(THREADS)]
        self.assertGreater(self.counted([e], target, buffers), 100)
        before = lib.rss_kb()
        self.assertGreater(self.counted([e], target, buffers), 100)
        self.assertLess(lib.rss_kb() - before, 2048)

    def test_objects(self):
        """the same with four engines and objects of Python, over tcp"""
        os.environ["MC_FORCE_TCP"] = "1"
        self.addCleanup(os.environ.pop, "MC_FORCE_TCP")
        target = self.target()
        engines = [self.engine() for _ in range(4)]
        buffers = [bytearray(4096) for _ in range(THREADS)]
        self.assertGreater(self.counted(engines, target, buffers), 100)
        gc.collect()
        before = lib.rss_kb()
        self.assertGreater(self.counted(engines, target, buffers), 100)
        self.assertLess(lib.rss_kb() - before, 2048)

    def test_long_wait(self):
        """others run while a transfer waits for a frozen peer"""
        os.environ.update(MC_FORCE_TCP="1", MC_TRANSFER_TIMEOUT="1")
        self.addCleanup(os.environ.pop, "MC_FORCE_TCP")
        self.addCleanup(os.environ.pop, "MC_TRANSFER_TIMEOUT")
        target, e = self.target(), self.engine()
        local = e.allocate_managed_buffer(4096)
        args = target["segment"], local, target["address"], 4096
        self.assertEqual(e.transfer_sync_write(*args), 0)
        os.kill(target["process"].pid, lib.signal.SIGSTOP)
        lib.until(lambda: open(f"/proc/{target['process'].pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")
        codes = []
        t = threading.Thread(target=lambda: codes.append(e.transfer_sync_read(*args)))
        t.start()
        count = 0
        while t.is_alive():
            count += 1
            time.sleep(0.001)
        t.join()
        self.assertEqual(codes, [-203])
        self.assertGreater(count, 200)

    def test_leaks(self):
        """RSS is flat over every kind of call"""
        target, e = self.target(), self.engine()
        name, addr = target["segment"], target["address"]
        local = e.allocate_managed_buffer(1 << 20)
        big, small, sink = os.urandom(400_000), b"x" * 100, bytearray(400_000)

        def once():
            e.transfer_sync_write(name, big, addr, len(big))
            e.transfer_sync_read(name, sink, addr, len(sink))
            e.transfer_sync_write(name, small, 8, 3)
            e.transfer_sync_write("127.0.0.1:1", small, 8, 3)
            batch = e.transfer_submit_write(name, small, addr, len(small))
            while not e.transfer_check_status(batch):
                pass
            e.get_batch_transfer_status([e.batch_transfer_async_read(name, [sink, local], [addr, addr], [10, 10])])
            e.get_batch_transfer_status([e.batch_transfer_async_read(name, [sink, local], [addr, 8], [10, 10])])
            e.register(sink)
            e.deregister(sink)
            e.free_managed_buffer(e.allocate_managed_buffer(20_000), 20_000)
            e.read_bytes_from_buffer(local, 1 << 20)
            e.write_bytes_to_buffer(local, big, len(big))
            e.get_notifies()
            e.get_first_buffer_address(name)
            for call in (lambda: e.transfer_sync_read(name, small, addr, 1), lambda: e.register(None),
                         lambda: e.read_bytes_from_buffer(8, 8), lambda: e.transfer_sync_write(name, b"x", None, 1)):
                try:
                    call()
                except (TypeError, ValueError):
                    pass

        for _ in range(300):
            once()
        gc.collect()
        before = lib.rss_kb()
        for _ in range(1000 // lib.SLOW):
            once()
        gc.collect()
        self.assertLess(lib.rss_kb() - before, 1024 * lib.SLOW)

    def test_engines(self):
        """engines come and go without a trace"""
        target = self.target()

        def once():
            e = self.engine("127.0.0.1")
            self.assertEqual(e.transfer_sync_write(target["segment"], b"x" * 5000, target["address"], 5000), 0)
            e.allocate_managed_buffer(5000)

        for _ in range(10):
            once()
        before, fds, threads = lib.rss_kb(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for _ in range(40):
            once()
        self.assertLess(lib.rss_kb() - before, 2048 * lib.SLOW)
        self.assertEqual(len(os.listdir("/proc/self/fd")), fds)
        self.assertEqual(len(os.listdir("/proc/self/task")), threads)


if __name__ == "__main__":
    lib.main()
