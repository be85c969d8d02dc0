"""What the tests of the Python module share: TAP, processes that never outlive their test, stores, targets."""

import atexit
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

for name in [v for v in os.environ if v.startswith("MC_")]:
    del os.environ[name]
os.environ["MC_TCP_BIND_ADDRESS"] = "127.0.0.1"
# A sanitizer's run-time is for Python, which is built without it, not for the servers.
PRELOAD = {"LD_PRELOAD": os.environ.pop("LD_PRELOAD")} if "LD_PRELOAD" in os.environ else {}
# What is refused here on purpose is logged, and of no interest.
LOGS = tempfile.mkdtemp(prefix="te-python-log.")
atexit.register(shutil.rmtree, LOGS, True)
os.environ["MC_LOG_DIR"] = LOGS

BUILD = os.environ.get("O", "build")
SANITIZED = BUILD.endswith(("asan", "tsan"))
SLOW = 5 if SANITIZED else 1
TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))


# ---- TAP -----------------------------------------------------------------------------------------


class Tap(unittest.TestResult):
    def _line(self, ok, test, more=""):
        name = (test.shortDescription() or test.id()).replace("#", "")
        print(f"{'ok' if ok else 'not ok'} {self.testsRun} - {name}{more}", flush=True)

    def addSuccess(self, test):
        self._line(True, test)

    def _bad(self, test, err):
        self._line(False, test)
        for line in self._exc_info_to_string(err, test).splitlines():
            print("#", line, flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._bad(subtest, err)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")


def main():
    """Runs the tests of the calling script, or those named on its command line."""
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)
    result = Tap()
    suite.run(result)
    print(f"1..{result.testsRun}", flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)


# ---- processes -----------------------------------------------------------------------------------


def until(what, seconds=10, every=0.02):
    """Call what() until it returns something true, and return that."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s for {getattr(what, '__name__', what)}")
        time.sleep(every)


def free_port():
    """A port below the ephemeral range that nobody listens on."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)):
                return port


def connects(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class TestCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="te-python.")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def start(self, *command, **kw):
        """In the background; killed and reaped at the end. Its standard error goes to the file .log names."""
        log = tempfile.NamedTemporaryFile(dir=self.dir, suffix=".log", delete=False)
        p = subprocess.Popen(command, stderr=log, stdin=kw.pop("stdin", subprocess.DEVNULL), text=True, **kw)
        p.log = log.name
        self.addCleanup(self.murder, p)
        return p

    def murder(self, p):
        if p.poll() is None:
            p.send_signal(signal.SIGCONT)
            p.kill()
        p.wait()
        for f in (p.stdin, p.stdout):
            if f:
                f.close()

    def script(self, text, *args, **kw):
        """Python code in a process of its own."""
        env = {**kw.pop("env", os.environ), **PRELOAD}
        return self.start(sys.executable, "-B", "-c", text, *args, stdout=subprocess.PIPE, env=env, **kw)

    def target(self, *options, name=None, store="P2PHANDSHAKE", size="16M"):
        """A te-target that can be reached: the document of its ready file, and .process."""
        name = name or f"127.0.0.1:{free_port()}"
        ready = os.path.join(self.dir, f"{len(os.listdir(self.dir))}.json")
        p = self.start("te-target", f"--metadata-server={store}", f"--local-server-name={name}",
                       f"--ready-file={ready}", f"--buffer-size={size}", *options, stdout=subprocess.DEVNULL)
        until(lambda: os.path.exists(ready) or p.poll() is not None, 15)
        if p.poll() is not None:
            with open(p.log) as f:
                raise RuntimeError(f"te-target ended: {f.read()}")
        with open(ready) as f:
            doc = json.load(f)
        doc["process"] = p
        doc["address"] = int(doc["buffers"][0]["addr"]) if not isinstance(doc["buffers"][0]["addr"], str) \
            else int(doc["buffers"][0]["addr"], 0)
        return doc

    def store(self, kind):
        """A metadata store that serves: what goes behind "kind://"."""
        port = free_port()
        if kind == "http":
            self.start("te-http-meta", f"--listen=127.0.0.1:{port}", stdout=subprocess.DEVNULL)
        elif kind == "redis":
            self.start("redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", self.dir,
                       stdout=subprocess.DEVNULL)
        else:
            peer = f"http://127.0.0.1:{free_port()}"
            client = f"http://127.0.0.1:{port}"
            self.start("etcd", "--data-dir", os.path.join(self.dir, "etcd"), "--log-level", "error",
                       "--listen-client-urls", client, "--advertise-client-urls", client,
                       "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                       "--initial-cluster", f"default={peer}", stdout=subprocess.DEVNULL)
        until(lambda: connects(port), 20)
        if kind == "etcd":
            until(lambda: subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/health"],
                                         capture_output=True, text=True).stdout.count("true"), 20)
        return f"127.0.0.1:{port}" + ("/metadata" if kind == "http" else "")

    def engine(self, name=None, store="P2PHANDSHAKE", protocol="tcp"):
        from mooncake.engine import TransferEngine

        e = TransferEngine()
        self.assertEqual(e.initialize(name or f"127.0.0.1:{free_port()}", store, protocol, ""), 0)
        return e


def rss_kb():
    """Of this process, in KiB. A sanitizer keeps freed memory for a while: 0."""
    if SANITIZED:
        return 0
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1])
