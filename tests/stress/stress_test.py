#!/usr/bin/env python3
"""The stress program on the CPU device: right results whatever the timing, the same each time."""
import os
import pathlib
import re
import sys
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

SMALL = ["--rounds=6", "--operations=4", "--words=512"]


def needs_tsan(library):
    return b"libtsan.so.2" in library.read_bytes()


class StressTest(unittest.TestCase):
    def setUp(self):
        self.installation = harness.installation_with({"bin/examples/stress": "tests/stress/stress"})
        self.addCleanup(self.installation.close)
        self.env = {}
        if needs_tsan(self.installation.root / "lib/libwarpline_core.so"):
            # The client's threads outlive main(), as in any program that never ends its session.
            self.env["LD_PRELOAD"] = "libtsan.so.2"
            self.env["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"

    def test_sixteen_threads_on_sixty_four_streams_give_the_same_checksum_twice(self):
        found = []
        with harness.server(self.installation) as server:
            for _ in range(2):
                stdout, _ = harness.run(self.installation, server.endpoint, "stress", *SMALL,
                                        env=self.env)
                found.append(re.search(r"checksum ([0-9a-f]+)", stdout)[1])
            self.assertTrue(server.running())
            self.assertNotIn("ThreadSanitizer", server.log_tail(10000))
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
