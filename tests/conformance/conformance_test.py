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
    def test_the_cpu_device_gives_what_the_table_says_and_nothing_fails(self):
        installation = harness.install([])
        self.addCleanup(installation.close)
        with harness.server(installation) as server:
            env = run.environment("cpu", installation.root / "lib", server.endpoint)
            lines = run.run_all(FOLDER, env)
        table = run.read_table(RUNFILES / "docs/conformance.csv")
        summary = run.summarize(lines)
        self.assertGreater(len(summary), 200)
        self.assertEqual([], ["\t".join(line) for line in lines if line.verdict == "FAIL"])
        self.assertEqual([], [call for call, row in table.items() if row["cpu"] == "FAIL"])
        worse, _ = run.disagreements(table, "cpu", summary)
        self.assertEqual([], worse)

    def test_host_memory_is_the_same_without_a_memory_in_common(self):
        installation = harness.install([])
        self.addCleanup(installation.close)
        with harness.server(installation) as server:
            env = run.environment("cpu", installation.root / "lib", server.endpoint)
            env["WARPLINE_SHARE_MEMORY"] = "0"
            env["WARPLINE_TRANSFER"] = "0"
            for program, least in (("host_mapped", 40), ("pinned", 100), ("managed", 100)):
                lines = run.run_program(FOLDER / program, env)
                self.assertGreater(len(lines), least)
                self.assertEqual([], ["\t".join(line) for line in lines if line.verdict == "FAIL"])

    def test_what_crosses_devices(self):
        installation = harness.install([])
        self.addCleanup(installation.close)
        with harness.server(installation, "--device=cpu:2") as server:
            env = run.environment("cpu", installation.root / "lib", server.endpoint)
            env["CUDA_VISIBLE_DEVICES"] = "0,1"
            lines = run.run_program(FOLDER / "several_devices", env)
        self.assertGreater(len(lines), 100)
        self.assertEqual([], ["\t".join(line) for line in lines if line.verdict == "FAIL"])


if __name__ == "__main__":
    unittest.main()
