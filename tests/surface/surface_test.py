#!/usr/bin/env python3
"""Every function that libcuda.so.1 exports, called wrongly, on the CPU device."""
import os
import pathlib
import sys
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)
import local_server  # noqa: E402

FOLDER = RUNFILES / "tests/surface"


class SurfaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install([])
        cls.addClassCleanup(cls.installation.close)
        cls.server = harness.server(cls.installation)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def check(self, program, *arguments):
        environment = self.installation.client_environment(self.server.endpoint)
        status, stdout, stderr = local_server.run_group(
            [str(FOLDER / program), *arguments], environment, 120)
        lines = stdout.decode().splitlines()
        wrong = [line for line in lines if line.startswith("FAIL")]
        self.assertEqual([], wrong)
        self.assertEqual(0, status, "after %s: %s" % (lines[-1:], stderr.decode()[-2000:]))
        return lines

    def test_what_is_not_supported_says_so_and_the_session_goes_on(self):
        lines = self.check("unsupported")
        self.assertGreater(int(lines[-1].split()[0]), 100)

    def test_malformed_calls_are_errors_and_the_session_goes_on(self):
        for kind in ("nothing", "handles of nothing", "garbage"):
            with self.subTest(kind):
                self.assertGreater(len(self.check("malformed", kind)), 400)


if __name__ == "__main__":
    unittest.main()
