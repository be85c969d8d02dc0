"""The wheel: built and installed by pip, without network, and used from an empty folder."""

import os
import subprocess
import sys
import unittest

import lib


@unittest.skipIf(lib.SANITIZED, "the wheel is built without sanitizers")
class Wheel(lib.TestCase):
    def run_in(self, folder, *command):
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_wheel(self):
        """one wheel for CPython 3.11 and later, that works in a new environment"""
        source = os.path.join(lib.TOP, "bindings/python")
        before = sorted(os.listdir(source))
        self.run_in(self.dir, sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-build-isolation", "--no-deps",
                    "-w", self.dir, source)
        wheels = [f for f in os.listdir(self.dir) if f.endswith(".whl")]
        self.assertEqual(len(wheels), 1)
        self.assertRegex(wheels[0], r"^mooncake_te-[\d.]+-cp311-abi3-linux_x86_64\.whl$|-cp311-abi3-")
        self.assertEqual(sorted(os.listdir(source)), before)
        venv = os.path.join(self.dir, "venv")
        self.run_in(self.dir, sys.executable, "-m", "venv", venv)
        python = os.path.join(venv, "bin/python")
        self.run_in(self.dir, python, "-m", "pip", "install", "-q", "--no-index", os.path.join(self.dir, wheels[0]))
        out = self.run_in(self.dir, python, "-c", """
import mooncake.engine, os
e = mooncake.engine.TransferEngine()
print(e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))
print(sorted(os.listdir(os.path.dirname(mooncake.engine.__file__))))
""")
        first, files = out.splitlines()
        self.assertEqual(first, "0")
        for f in ("engine.abi3.so", "engine.pyi", "py.typed"):
            self.assertIn(f"'{f}'", files)

    def test_symbols(self):
        """the module exports its one function, and needs no library of ours"""
        so = os.path.join(lib.TOP, lib.BUILD, "python/mooncake/engine.abi3.so")
        names = subprocess.run(["nm", "-D", "--defined-only", so], capture_output=True, text=True, check=True).stdout
        self.assertEqual([x.split()[-1] for x in names.splitlines()], ["PyInit_engine"])
        needed = subprocess.run(["readelf", "-d", so], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(needed, r"NEEDED.*(libte|libtransfer|libpython)")


if __name__ == "__main__":
    lib.main()
