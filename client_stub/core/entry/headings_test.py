#!/usr/bin/env python3
"""Each heading of proto/client_calls.toml names the file here that defines the calls under it."""
import pathlib
import re
import unittest

FOLDER = pathlib.Path("client_stub/core/entry")
# What a file may define by a macro that is given the rest of the name.
VARIANT = re.compile(r"(_v\d+)?(_ptds|_ptsz)?$")
HELPERS = {"driver_view.cc"}


def exports_by_file():
    found = {}
    file = None
    for line in pathlib.Path("proto/client_calls.toml").read_text(encoding="utf-8").split("\n"):
        heading = re.fullmatch(r"# ---- .* \((\w+\.cc)\)", line)
        if heading:
            file = heading[1]
        elif line.startswith("# ----"):
            raise ValueError("a heading without a file: " + line)
        elif line.startswith("exports = "):
            found.setdefault(file, []).extend(re.findall(r'"(\w+)"', line))
    return found


class Headings(unittest.TestCase):

    def test_each_call_is_defined_in_the_file_of_its_heading(self):
        for file, exports in exports_by_file().items():
            named = set(re.findall(r"\bcu\w+", (FOLDER / file).read_text(encoding="utf-8")))
            for export in exports:
                self.assertTrue({export, VARIANT.sub("", export)} & named,
                                "%s does not define %s" % (file, export))

    def test_each_file_has_a_heading(self):
        files = {path.name for path in FOLDER.glob("*.cc")} - HELPERS
        self.assertEqual(set(exports_by_file()), files)


unittest.main()
