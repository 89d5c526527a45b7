#!/usr/bin/env python3
"""warpline.connect(), with a program in place of `warpline` that only sets what that would."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parent / "package/warpline"
# As `warpline run` does: the tenant's tier where nobody has named one.
RUN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
export WARPLINE_ENDPOINT=gpuhost:14000 WARPLINE_TIER="${WARPLINE_TIER:-guarded}"
exec "$@"
"""
CONNECT = """
import os, warpline
warpline.connect("pool:14100")
print(os.environ["WARPLINE_ENDPOINT"], os.environ["WARPLINE_TIER"])
"""


def some_library():
    """A library that any process can load, in place of the driver."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libc.so.6" in line)


class ConnectTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(temporary.cleanup)
        self.site = pathlib.Path(temporary.name)
        package = self.site / "warpline"
        package.mkdir()
        for source in PACKAGE.glob("*.py"):
            shutil.copy(source, package)
        for folder in ("bin", "lib"):
            (package / "_bundle" / folder).mkdir(parents=True)
        run = package / "_bundle/bin/warpline"
        run.write_text(RUN)
        run.chmod(0o755)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(some_library(), package / "_bundle/lib" / name)

    def connect(self, **variables):
        env = {name: value for name, value in os.environ.items() if not name.startswith("WARPLINE_")}
        env.update(variables, PYTHONPATH=str(self.site))
        done = subprocess.run([sys.executable, "-c", CONNECT], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.split()

    def test_the_tenants_tier_is_that_of_the_process(self):
        self.assertEqual(["gpuhost:14000", "guarded"], self.connect())

    def test_a_tier_that_is_named_stays(self):
        self.assertEqual(["gpuhost:14000", "isolated"], self.connect(WARPLINE_TIER="isolated"))


if __name__ == "__main__":
    unittest.main()
