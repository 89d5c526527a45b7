#!/usr/bin/env python3
"""Programs and servers of which one speaks an older version of the protocol, or has fewer features.
older_peer stands between the two and makes each look so to the other."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline/tests"),
                str(pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline/tests/versions")]

import harness  # noqa: E402
import processes  # noqa: E402

# They copy, launch, read back, allocate, use streams and events, and load modules.
PROGRAMS = ["vector_add", "allocations", "two_streams", "events_and_memset", "launches", "driver_api"]


class OlderPeerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(PROGRAMS)
        cls.server = harness.server(cls.installation)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.installation.close()

    @contextlib.contextmanager
    def older(self, *flags):
        """An address at which both ends look older."""
        with tempfile.TemporaryDirectory() as folder:
            port_file = pathlib.Path(folder) / "port"
            peer = subprocess.Popen(
                [str(harness.RUNFILES / "tests/versions/older_peer"),
                 "--server=" + self.server.endpoint, "--port_file=%s" % port_file, *flags],
                stdin=subprocess.PIPE)
            try:
                processes.wait_for(port_file.exists, "older_peer listens")
                yield "127.0.0.1:" + port_file.read_text().strip()
            finally:
                peer.stdin.close()
                peer.wait(harness.GIVE_UP_S)

    def test_every_program_runs_without_any_feature(self):
        with self.older("--newest=1", "--features=0") as endpoint:
            for program in PROGRAMS:
                with self.subTest(program):
                    harness.run(self.installation, endpoint, program)

    def test_each_feature_may_be_lacking(self):
        for bit in range(10):
            with self.subTest("feature %d" % (1 << bit)):
                with self.older("--features=%d" % (~(1 << bit) & (1 << 64) - 1)) as endpoint:
                    harness.run(self.installation, endpoint, "vector_add")


if __name__ == "__main__":
    unittest.main()
