#!/usr/bin/env python3
"""Every example, as nvcc built it, through a server on the CPU device."""
import unittest

import harness


def listed_programs():
    programs = []
    for line in (harness.RUNFILES / "examples/programs.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            programs.append((words[0], words[1:]))
    return programs


class ProgramsTest(unittest.TestCase):
    def test_every_listed_program_gives_right_results(self):
        programs = listed_programs()
        self.assertGreaterEqual(len(programs), 11)
        installation = harness.install(name for name, _ in programs)
        self.addCleanup(installation.close)
        with harness.server(installation) as server:
            for name, arguments in programs:
                with self.subTest(name):
                    harness.run(installation, server.endpoint, name, *arguments)


if __name__ == "__main__":
    unittest.main()
