#!/usr/bin/env python3
"""What the version with the last tag reads and writes is still there in this tree, under the same numbers
and with the same types: messages and their fields, methods, commands and their sizes, the journal.
shape.txt has the list of that version, or only "version none" while there is no tag:

  tests/versions/shape_test.py --record=v1.0.0

writes the list of this tree there, with the program of `./dev build //tests/versions:wire_shape`."""
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
IN_TEST = "TEST_SRCDIR" in os.environ
ROOT = pathlib.Path(os.environ["TEST_SRCDIR"]) / "warpline" if IN_TEST else HERE.parent.parent
RECORDED = HERE / "shape.txt"
ADVICE = """
The version with the last tag (tests/versions/shape.txt) has this, and this tree does not, or has it
otherwise. Fields and commands are added at the end and under new numbers, and stay; see "Change
something that another version reads" in docs/recipes/state.md."""

sys.path.insert(0, str(HERE))

import layouts  # noqa: E402  (found by the path above)


def shape():
    """The lines of this tree."""
    program = (ROOT if IN_TEST else ROOT / "bazel-bin") / "tests/versions/wire_shape"
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return said.splitlines() + layouts.layouts(ROOT / "proto/calls.toml")


def newest_of(lines):
    """The newest version of the protocol, and the other lines."""
    newest, = (line for line in lines if line.startswith("protocol newest "))
    return int(newest.split()[-1]), [line for line in lines if line != newest]


def missing(former, current):
    present = set(current)
    return [line for line in former if line not in present]


def faults(recorded, current):
    """What the recorded version would not find: lines for people."""
    version, former = recorded[0], recorded[1:]
    if version == "version none":
        return former
    former_newest, former = newest_of(former)
    newest, current = newest_of(current)
    found = missing(former, current)
    if newest not in (former_newest, former_newest + 1):
        found.append("protocol newest %d follows %d" % (newest, former_newest))
    for line in missing(current, former):
        if line.startswith("command ") and "version=%d " % (former_newest + 1) not in line:
            found.append("a command came without a [[version]]: " + line)
    return found


class ShapeTest(unittest.TestCase):
    def test_nothing_of_the_version_with_the_last_tag_is_gone_or_different(self):
        recorded, current = RECORDED.read_text().splitlines(), shape()
        self.assertGreater(len(current), 500)
        self.assertTrue(recorded[0].startswith("version "))
        self.assertEqual(faults(recorded, current), [], ADVICE)

    def test_a_change_is_seen(self):
        former = ["version 1.0", "field a.B 1 x uint32", "command 1 Go version=1 bytes=16 tail=0",
                  "protocol newest 1"]
        field, command, newest = former[1:]
        self.assertEqual(faults(former, former[1:] + ["field a.B 2 y bytes"]), [])
        self.assertEqual(faults(former, ["field a.B 1 x uint64", command, newest]), [field])
        self.assertEqual(faults(former, [field, newest]), [command])
        self.assertEqual(len(faults(former, [field, command, "protocol newest 3"])), 1)
        added = "command 2 Come version=%d bytes=16 tail=0"
        self.assertEqual(len(faults(former, former[1:] + [added % 1])), 1)
        self.assertEqual(
            faults(former, [field, command, added % 2, "protocol newest 2"]), [])

    def test_nothing_is_held_to_a_version_without_a_tag(self):
        self.assertEqual(faults(["version none"], ["protocol newest 1"]), [])
        self.assertEqual(faults(["version none", "field a.B 1 x uint32"], []),
                         ["field a.B 1 x uint32"])


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("--record="):
        name = sys.argv[1].split("=", 1)[1]
        RECORDED.write_text("\n".join(["version " + name, *shape()]) + "\n")
    else:
        unittest.main()
