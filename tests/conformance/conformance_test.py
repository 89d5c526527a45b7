#!/usr/bin/env python3
"""Every conformance program on the CPU device, against the cpu column of docs/conformance.csv."""
import os
import pathlib
import sys
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))
sys.path.insert(0, str(RUNFILES / "tests/conformance"))

import harness  # noqa: E402  (found by the path above)
import run  # noqa: E402

FOLDER = RUNFILES / "tests/conformance"


class ConformanceTest(unittest.TestCase):
    def test_the_cpu_device_gives_what_the_table_says(self):
        installation = harness.install([])
        self.addCleanup(installation.close)
        with harness.server(installation) as server:
            env = run.environment("cpu", installation.root / "lib", server.endpoint)
            summary = run.summarize(run.run_all(FOLDER, env))
        table = run.read_table(RUNFILES / "docs/conformance.csv")
        self.assertGreater(len(summary), 200)
        worse, better = run.disagreements(table, "cpu", summary)
        for call in better:
            print("better than the table, which run.py makes anew: " + call)
        self.assertEqual([], worse)


if __name__ == "__main__":
    unittest.main()
