#!/usr/bin/env python3
"""What the version before reads and writes is still there in this one, under the same numbers and with
the same types: messages and their fields, methods, commands and their sizes, the journal."""
import os
import pathlib
import subprocess
import unittest

import layouts

HERE = pathlib.Path(__file__).resolve().parent
RUNFILES = pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline"
ADVICE = """
The version before (tests/versions/former/shape.txt) has this, and this version does not, or has it
otherwise. Fields and commands are added at the end and under new numbers, and stay; see "Change
something that another version reads" in docs/recipes/state.md."""


def lines_of(text):
    """[line], and the newest version of the protocol."""
    lines = text.splitlines()
    newest = [line for line in lines if line.startswith("protocol newest ")]
    return [line for line in lines if line not in newest], int(newest[0].split()[-1])


def missing(former, current):
    present = set(current)
    return [line for line in former if line not in present]


class ShapeTest(unittest.TestCase):
    def test_nothing_of_the_former_version_is_gone_or_different(self):
        former, former_newest = lines_of((HERE / "former/shape.txt").read_text())
        current, newest = lines_of(subprocess.run(
            [str(RUNFILES / "tests/versions/wire_shape")], check=True, capture_output=True,
            text=True).stdout + "\n".join(layouts.layouts(RUNFILES / "proto/calls.toml")))
        self.assertGreater(len(former), 500)
        self.assertEqual(missing(former, current), [], ADVICE)
        self.assertIn(newest, (former_newest, former_newest + 1), ADVICE)
        added = [line for line in missing(current, former) if line.startswith("command ")]
        if added:
            self.assertEqual(newest, former_newest + 1, "commands came without a [[version]]")
            for line in added:
                self.assertIn("version=%d " % newest, line)

    def test_a_change_is_seen(self):
        former = ["field a.B 1 x uint32", "command 1 Go version=1 bytes=16 tail=0"]
        self.assertEqual(missing(former, former + ["field a.B 2 y bytes"]), [])
        self.assertEqual(missing(former, ["field a.B 1 x uint64", former[1]]), former[:1])
        self.assertEqual(missing(former, [former[0]]), former[1:])


if __name__ == "__main__":
    unittest.main()
