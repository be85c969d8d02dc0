"""What Python costs above C: transfer_sync_read of 4 KiB, both in turns in one run."""

import os
import statistics
import time
import unittest

import lib

ROUNDS, READS = 15, 1500


@unittest.skipIf(lib.SANITIZED, "a sanitizer's times say nothing")
class Speed(lib.TestCase):
    def measure(self, buffer_of):
        """One run counts; a machine that others use gets three tries."""
        for _ in range(3):
            more = self.once(buffer_of)
            if more <= 5:
                return
        self.fail(f"{more:.2f} us more than C")

    def once(self, buffer_of):
        target, e = self.target(), self.engine("127.0.0.1")
        name, addr, buffer = target["segment"], target["address"], buffer_of(e)
        c = self.start(os.path.join(lib.TOP, lib.BUILD, "progs/sync_read"), name, str(addr), stdin=lib.subprocess.PIPE,
                       stdout=lib.subprocess.PIPE)
        read, clock = e.transfer_sync_read, time.perf_counter_ns
        mine, theirs = [], []
        for _ in range(ROUNDS):
            c.stdin.write(f"{READS}\n")
            c.stdin.flush()
            theirs.append(int(c.stdout.readline()))
            times = []
            for _ in range(READS):
                start = clock()
                code = read(name, buffer, addr, 4096)
                times.append(clock() - start)
                assert code == 0
            mine.append(int(statistics.median(times)))
        mine, theirs = statistics.median(mine) / 1000, statistics.median(theirs) / 1000
        print(f"# C {theirs:.2f} us, Python {mine:.2f} us, {mine - theirs:.2f} us more", flush=True)
        self.murder(c)
        return mine - theirs

    def test_shm(self):
        """shm: at most 5 us more"""
        self.measure(lambda e: e.allocate_managed_buffer(4096))

    def test_shm_object(self):
        """shm, into a bytearray that is registered nowhere: at most 5 us more"""
        self.measure(lambda e: bytearray(4096))

    def test_tcp(self):
        """tcp: at most 5 us more"""
        os.environ["MC_FORCE_TCP"] = "1"
        self.addCleanup(os.environ.pop, "MC_FORCE_TCP")
        self.measure(lambda e: e.allocate_managed_buffer(4096))


if __name__ == "__main__":
    lib.main()
