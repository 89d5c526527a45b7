#!/usr/bin/env python3
"""The programs and libraries of an installation are built as .bazelrc says: hardened.

What is looked for is in the files themselves, so that an option which the compiler ignores, or which
a target's own options take back, shows. docs/security.md has what each is for.
"""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

INSTALLED = {**harness.local_server.CLIENT_LIBRARIES, **harness.local_server.BINARIES}
ENDBR64 = b"\xf3\x0f\x1e\xfa"
# The one shim does nothing but find the core and call it by a table, the other answers getenv() and
# opens descriptors: no buffer is written there.
WITHOUT_BUFFERS = {"libcuda.so.1", "libwarpline_ucx.so"}
# It has a few dozen.
FEW_FUNCTIONS = {"libwarpline_ucx.so"}


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, stdout=subprocess.PIPE,
                          text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}).stdout


class HardeningTest(unittest.TestCase):
    def files(self):
        for name in INSTALLED.values():
            path = harness.RUNFILES / name
            if path.read_bytes()[:4] != b"\x7fELF":
                continue
            with self.subTest(name):
                yield path

    def test_is_what_an_installation_is_made_of(self):
        self.assertGreaterEqual(len(list(self.files())), len(INSTALLED) - 1)

    def test_relocations_are_read_only_before_the_program_starts(self):
        for path in self.files():
            self.assertIn("GNU_RELRO", readelf("--program-headers", str(path)))
            self.assertRegex(readelf("--dynamic", str(path)), r"\bNOW\b")

    def test_no_stack_can_be_executed(self):
        for path in self.files():
            stack = re.search(r"GNU_STACK.*", readelf("--program-headers", str(path)))
            self.assertRegex(stack.group(), r" RW ")

    def test_lies_wherever_the_kernel_puts_it(self):
        for path in self.files():
            self.assertRegex(readelf("--file-header", str(path)), r"Type:\s+DYN")

    def test_stacks_and_buffers_are_guarded(self):
        for path in self.files():
            if path.name in WITHOUT_BUFFERS:
                continue
            symbols = readelf("--dyn-syms", str(path))
            self.assertIn("__stack_chk_fail", symbols)
            self.assertRegex(symbols, r"__\w+_chk@")

    def test_libraries_of_applications_read_no_variable_for_more_rights_than_its_user_has(self):
        # getenv() would, in a setuid program; secure_getenv() does not.
        reads = 0
        for name in harness.local_server.CLIENT_LIBRARIES.values():
            path = harness.RUNFILES / name
            if path.read_bytes()[:4] != b"\x7fELF":
                continue
            symbols = readelf("--dyn-syms", str(path))
            self.assertNotRegex(symbols, r" UND (std::)?getenv\b", name)
            reads += " secure_getenv" in symbols
        self.assertGreater(reads, 0)

    def test_functions_begin_where_an_indirect_branch_may_land(self):
        for path in self.files():
            # The start-up code of the system's own has a few.
            least = 2 if path.name in FEW_FUNCTIONS else 20
            self.assertGreater(path.read_bytes().count(ENDBR64), least)


if __name__ == "__main__":
    unittest.main()
