#!/usr/bin/env python3
"""Edits a copy of this machine's libstdc++, which has symbol versions and unique symbols."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import elf

LIBSTDCXX = pathlib.Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")


class Elf(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.library = self.folder / "libx.so"
        shutil.copyfile(LIBSTDCXX, self.library)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def libc_versions(self):
        return [version for library, version in elf.required_versions(self.library)
                if library == "libc.so.6"]

    def test_tells_elf_from_text(self):
        self.assertTrue(elf.is_elf(self.library))
        self.assertFalse(elf.is_elf(__file__))

    def test_required_versions_are_those_of_the_dynamic_linker(self):
        listed = subprocess.run(["readelf", "-VW", self.library], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        self.assertIn("GLIBC_2.14", self.libc_versions())
        for version in self.libc_versions():
            self.assertIn("Name: %s " % version, listed)

    def test_needed_libraries_and_folders_are_those_of_the_file(self):
        self.assertEqual(sorted(elf.needed_libraries(LIBSTDCXX.read_bytes())), sorted(
            subprocess.run(["patchelf", "--print-needed", LIBSTDCXX], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()))
        self.assertEqual(elf.library_folders(self.library.read_bytes()), [])
        subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/a:/b", self.library], check=True)
        self.assertEqual(elf.library_folders(self.library.read_bytes()), ["$ORIGIN/a", "/b"])

    def test_replaced_version_is_required_no_more(self):
        before = len(self.libc_versions())
        self.assertTrue(elf.replace_version(self.library, "GLIBC_2.14", "GLIBC_2.4"))
        self.assertNotIn("GLIBC_2.14", self.libc_versions())
        self.assertEqual(before, len(self.libc_versions()))
        self.assertFalse(elf.replace_version(self.library, "GLIBC_2.14", "GLIBC_2.4"))

    def test_unique_symbols_become_global_once(self):
        self.assertGreater(elf.make_unique_symbols_global(self.library), 0)
        self.assertEqual(0, elf.make_unique_symbols_global(self.library))
        symbols = subprocess.run(["readelf", "-sW", "--dyn-syms", self.library],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertNotIn(" UNIQUE ", symbols)


unittest.main()
