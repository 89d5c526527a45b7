#!/usr/bin/env python3
"""The Debian package: what is in it, and that it runs from where it is unpacked."""
import pathlib
import re
import subprocess
import sys
import unittest

import bundling

import harness
import local_server


def output(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


class DebianPackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = bundling.temporary_folder()
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = pathlib.Path(cls.temporary.name)
        bundle = bundling.make(folder)
        output(sys.executable, bundling.RUNFILES / "deploy/debian_package.py", bundle,
               "--out=%s" % folder, "--stamp=1700000000", "--compression=gzip")
        cls.package, = folder.glob("warpline_*_amd64.deb")
        cls.listing = output("dpkg-deb", "--contents", cls.package)
        cls.root = folder / "root"
        output("dpkg-deb", "--extract", cls.package, cls.root)

    def test_control_says_what_it_needs(self):
        fields = output("dpkg-deb", "--field", self.package)
        version = output(self.root / "usr/bin/warpline", "--version").split()[1]
        self.assertIn("Package: warpline\n", fields)
        self.assertIn("Version: %s\n" % version, fields)
        self.assertIn("libc6 (>= 2.34)", fields)

    def test_there_are_no_maintainer_scripts(self):
        control = self.root.parent / "control"
        output("dpkg-deb", "--control", self.package, control)
        self.assertEqual({"control", "conffiles", "md5sums"},
                         {path.name for path in control.iterdir()})
        self.assertEqual("/etc/warpline/server.flags\n", (control / "conffiles").read_text())

    def test_files_are_root_s_and_nobody_else_writes_them(self):
        for line in self.listing.splitlines():
            mode, owner = line.split()[:2]
            self.assertEqual("root/root", owner, line)
            if mode[0] != "l":
                self.assertNotIn("w", mode[4:], line)

    def test_libraries_stay_out_of_the_loader_s_folders(self):
        libraries = re.findall(r" \./(\S+\.so\S*)", self.listing)
        self.assertGreater(len(libraries), 50)
        for name in libraries:
            self.assertTrue(name.startswith("usr/lib/warpline/lib/"), name)

    def test_licences_of_what_was_copied_are_in_the_copyright_file(self):
        text = (self.root / "usr/share/doc/warpline/copyright").read_text(errors="replace")
        for name in ("libgrpc29", "libprotobuf32", "libssl3", "libstdc++6"):
            self.assertIn(name, text)

    def test_service_starts_a_program_and_flags_of_the_package(self):
        service = (self.root / "usr/lib/systemd/system/warpline-server.service").read_text()
        program, flags = re.search(r"ExecStart=/(\S+) --flagfile=/(\S+)", service).groups()
        self.assertTrue((self.root / program).is_file())
        ended = subprocess.run(
            [str(self.root / program), "--flagfile=%s" % (self.root / flags), "--device=none"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        self.assertIn("--device=none: expected", ended.stdout)

    def test_commands_run_a_program(self):
        home = self.root / "usr/lib/warpline"
        installation = local_server.Installation(home)
        with harness.server(installation) as server:
            ran = subprocess.run(
                [str(self.root / "usr/bin/warpline"), "run", "--endpoint=" + server.endpoint, "--",
                 str(home / "bin/examples/vector_add")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                timeout=120)
            self.assertEqual(0, ran.returncode, ran.stdout)
            self.assertIn("vector_add: ok", ran.stdout)


if __name__ == "__main__":
    unittest.main()
