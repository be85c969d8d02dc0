"""The extension is built by the tree's own Makefile, like everything else of te."""

import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILT = "build/python/mooncake/engine.abi3.so"

WORK = TOP / "build/python-wheel"
WORK.mkdir(parents=True, exist_ok=True)


class Make(build_ext):
    def build_extension(self, ext):
        subprocess.check_call(["make", "-s", "-C", str(TOP), f"PYTHON={sys.executable}", BUILT])
        to = pathlib.Path(self.get_ext_fullpath(ext.name))
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / BUILT, to)


setup(
    version=(TOP / "VERSION").read_text().strip(),
    ext_modules=[Extension("mooncake.engine", [], py_limited_api=True)],
    cmdclass={"build_ext": Make},
    # Nothing is left in the sources.
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        "build": {"build_base": str(WORK)},
        "egg_info": {"egg_base": str(WORK)},
    },
)
