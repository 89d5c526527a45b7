#!/usr/bin/env python3
"""What every file of a bundle asks of the system that it runs on, as readelf tells it: that is
independent of what bundle.py checks."""
import re
import subprocess
import unittest

import bundling

OLDEST_GLIBC = (2, 34)
SYSTEM = re.compile(r"ld-linux-x86-64\.so\.2|lib(c|m|dl|rt|pthread)\.so\.[0-9]+|libgcc_s\.so\.1")

# Functions of the C library that open descriptors, for their caller or while they run.
OPENERS = set("""
    accept accept4 creat creat64 dup epoll_create epoll_create1 eventfd fanotify_init fcntl fcntl64 fopen
    fopen64 freopen freopen64 ftw ftw64 getaddrinfo gethostbyaddr gethostbyaddr_r gethostbyname
    gethostbyname2 gethostbyname2_r gethostbyname_r getifaddrs getpt glob glob64 if_indextoname
    if_nameindex if_nametoindex inotify_init inotify_init1 memfd_create mkostemp mkostemp64 mkostemps
    mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64 mq_open nftw nftw64 open open64
    open_by_handle_at openat openat64 opendir openlog pidfd_open pipe pipe2 popen posix_openpt recvmmsg
    recvmsg scandir scandir64 shm_open signalfd socket socketpair timerfd_create tmpfile tmpfile64
    __open64_2 __open_2 __openat64_2 __openat_2
    """.split())
# What guests do not do: OpenSSL connects and logs for nobody, and UCX starts no debugger.
NOT_CALLED = {"gethostbyname", "openlog", "popen"}


def output(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def symbols(path):
    """(name, version or "", binding, is defined) of each dynamic symbol."""
    found = []
    for line in output("readelf", "-W", "--dyn-syms", path).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit():
            continue
        name, _, version = words[7].partition("@")
        found.append((name, version.lstrip("@"), words[4], words[6] != "UND"))
    return found


def numbers(text):
    return tuple(int(part) for part in text.split("."))


class BundleSymbolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = bundling.temporary_folder()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.bundle = bundling.make(cls.folder.name)
        cls.files = bundling.elf_files(cls.bundle)
        # Programs that are copied as they are take the host's C++ library.
        cls.ours = [path for path in cls.files
                    if "examples" not in path.parts and path.name not in bundling.programs()]
        cls.symbols = {path: symbols(path) for path in cls.files}

    def test_every_kind_of_file_is_there(self):
        names = {str(path.relative_to(self.bundle)) for path in self.files}
        for name in ("lib/libcuda.so.1", "lib/libwarpline_core.so", "lib/libnvidia-ml.so.1",
                     "bin/warpline",
                     "bin/warpline-server", "bin/warpline-supervisor", "bin/warpline-worker",
                     "bin/warpline-keeper", "bin/warpline-relay", "bin/warpline-compiler",
                     "bin/warpline-mps",
                     "lib/warpline/libwarpline-grpc.so.29", "lib/warpline/libwarpline-stdc++.so.6",
                     "bin/examples/vector_add"):
            self.assertIn(name, names)
        self.assertGreater(len(names), 60)

    def test_no_symbol_is_newer_than_glibc_2_34(self):
        looked_at = 0
        for path, listed in self.symbols.items():
            for name, version, _, defined in listed:
                if defined or not version.startswith("GLIBC_"):
                    continue
                looked_at += 1
                with self.subTest(path=path.name, symbol=name, version=version):
                    self.assertRegex(version, r"^GLIBC_[0-9.]+$")
                    self.assertLessEqual(numbers(version[len("GLIBC_"):]), OLDEST_GLIBC)
        self.assertGreater(looked_at, 1000)

    def test_no_version_of_a_newer_glibc_is_asked_for(self):
        # The loader checks these whether a symbol uses them or not.
        for path in self.files:
            needs = output("readelf", "-VW", path).split("Version needs section")[1:]
            for version in re.findall(r"Name: GLIBC_([0-9.]+)", "".join(needs)):
                with self.subTest(path=path.name, version=version):
                    self.assertLessEqual(numbers(version), OLDEST_GLIBC)

    def test_what_has_no_version_is_defined_in_the_bundle(self):
        # An older glibc may lack it, and a host's library of the same name must not provide it.
        defined = {name for path in self.ours for name, _, _, here in self.symbols[path] if here}
        for path in self.ours:
            missing = [name for name, version, binding, here in self.symbols[path]
                       if name and not here and not version and binding != "WEAK" and
                       name not in defined]
            self.assertEqual([], missing, path.name)

    def test_what_guests_open_gets_the_numbers_that_the_guest_wants(self):
        # common/guest_descriptors.c has a function for each that they use.
        by_name = {path.name: path for path in self.files}
        for guest in ("libwarpline_core.so", "libwarpline_ucx.so"):
            own = {name for name, _, _, here in self.symbols[by_name[guest]] if here}
            self.assertIn("socket", own)
            found, new = set(), {guest}
            while new:
                found |= new
                new = {needed for name in new for needed in re.findall(
                    r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", by_name[name]))
                       if needed in by_name} - found
            self.assertGreater(len(found), 3)
            for name in found:
                used = {symbol for symbol, _, _, here in self.symbols[by_name[name]] if not here}
                self.assertEqual(set(), (used & OPENERS) - own - NOT_CALLED, name)

    def test_no_symbol_is_unique(self):
        for path in self.ours:
            unique = [name for name, _, binding, _ in self.symbols[path] if binding == "UNIQUE"]
            self.assertEqual([], unique, path.name)

    def test_libraries_come_from_the_bundle_or_from_glibc(self):
        for path in self.ours:
            dynamic = output("readelf", "-dW", path)
            for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
                with self.subTest(path=path.name, needed=needed):
                    self.assertTrue(SYSTEM.fullmatch(needed) or
                                    (self.bundle / "lib/warpline" / needed).is_file())
            for folder in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                self.assertTrue(folder.startswith("$ORIGIN"), "%s: %s" % (path.name, folder))
        for shim in ("lib/libcuda.so.1", "lib/libnvidia-ml.so.1"):
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]",
                                output("readelf", "-dW", self.bundle / shim))
            self.assertEqual(["libc.so.6"], needed)

    def test_private_libraries_carry_private_names(self):
        for path in (self.bundle / "lib/warpline").iterdir():
            name = re.search(r"\(SONAME\).*\[(.*)\]", output("readelf", "-dW", path))
            self.assertEqual(path.name, name[1])
            self.assertRegex(path.name, "^libwarpline[-_]")

    def test_no_file_has_an_executable_stack_or_text_relocations(self):
        for path in self.files:
            stack = re.search(r"GNU_STACK .* (RWE?) ", output("readelf", "-lW", path))
            self.assertEqual("RW", stack[1], path.name)
            self.assertNotIn("TEXTREL", output("readelf", "-dW", path), path.name)


if __name__ == "__main__":
    unittest.main()
