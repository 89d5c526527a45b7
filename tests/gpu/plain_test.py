#!/usr/bin/env python3
"""The cases of tests/gpu that need no framework, with `warpline run --` on the CPU device."""
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402


class PlainCases(unittest.TestCase):
    def test_all_pass(self):
        installation = harness.install([])
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / "run.py"), "--bundle=%s" % installation.root,
                 "--device=cpu", "--remote_only", "--only=plain.*"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S, check=False)
        finally:
            installation.close()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"total: (\d+) of \1 good", done.stdout)


if __name__ == "__main__":
    unittest.main()
