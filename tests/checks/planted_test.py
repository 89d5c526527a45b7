#!/usr/bin/env python3
"""`warpline run --check` on the CPU device: planted mistakes are told, and correct programs are not."""
import os
import pathlib
import sys
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))
sys.path.insert(0, str(RUNFILES / "tests/checks"))

import harness  # noqa: E402  (found by the path above)
import planted  # noqa: E402

PROGRAM = RUNFILES / "tests/checks/planted"
LINES = planted.mistakes(RUNFILES / "tests/checks/planted.cu")


class PlantedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(["histogram", "malloc_async", "constants"])
        cls.server = harness.server(cls.installation)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.installation.close()

    def environment(self, mode):
        return planted.environment(self.installation.root / "lib", self.server.endpoint, mode)

    def test_each_mistake_is_told_with_its_place(self):
        env = self.environment("report")
        names = planted.names(PROGRAM, env)
        self.assertGreater(len(names), 10)
        self.assertEqual(set(LINES), set(names) - {"correct"})
        for name in names:
            with self.subTest(name):
                done = planted.run(PROGRAM, name, env)
                self.assertEqual("", planted.wrong_with(name, done, LINES.get(name, 0)))

    def test_without_the_check_the_fence_alone_tells_of_nothing(self):
        done = planted.run(PROGRAM, "overflow", self.environment("fence"))
        self.assertNotIn("check:", done.stderr)
        self.assertIn("cudaSuccess", done.stdout)

    def test_correct_programs(self):
        for name in ("histogram", "malloc_async", "constants"):
            _, stderr = harness.run(self.installation, self.server.endpoint, name,
                                    env={"WARPLINE_GUARD": "report"})
            self.assertNotIn("warpline: ", stderr)


if __name__ == "__main__":
    unittest.main()
