#!/usr/bin/env python3
"""The Debian package: what is in it, and that it runs from where it is unpacked."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import bundling

import harness
import local_server


def output(*command, **variables):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          check=True, env=dict(os.environ, **variables)).stdout


class DebianPackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = bundling.temporary_folder()
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = pathlib.Path(cls.temporary.name)
        bundle = bundling.make(folder)
        output(sys.executable, bundling.RUNFILES / "deploy/debian/debian_package.py", bundle,
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
        self.assertEqual("/etc/default/warpline-server\n/etc/default/warpline-scheduler\n",
                         (control / "conffiles").read_text())

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

    def unit(self, name):
        """The [Service] section of a unit, and its last value for each key."""
        text = (self.root / "usr/lib/systemd/system" / (name + ".service")).read_text()
        section = text.partition("[Service]\n")[2].partition("\n[Install]")[0]
        return dict(line.split("=", 1) for line in section.splitlines()
                    if "=" in line and not line.startswith("#"))

    def command(self, name):
        """What a unit starts, with the words of its file in /etc/default."""
        unit = self.unit(name)
        program, *words = unit["ExecStart"].split()
        path = self.root / unit["EnvironmentFile"].lstrip("-").lstrip("/")
        variables = dict(re.findall(r'^(\w+)="(.*)"$', path.read_text(), re.MULTILINE))
        self.assertTrue((self.root / program.lstrip("/")).is_file())
        flags = []
        for word in words:
            flags += variables[word[1:]].split() if word.startswith("$") else [word]
        return [str(self.root / program.lstrip("/")), *flags]

    def test_services_start_programs_with_the_flags_of_etc_default(self):
        for name, wrong, complaint in (
                ("warpline-server", "--device=none", "--device=none: expected"),
                ("warpline-scheduler", "--placement=none", "--placement=none: expected")):
            ended = subprocess.run(
                [*self.command(name), wrong], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False, timeout=harness.GIVE_UP_S)
            self.assertIn(complaint, ended.stdout)

    def test_examples_in_etc_default_name_flags_that_exist(self):
        for name in ("warpline-server", "warpline-scheduler"):
            known = subprocess.run([str(self.root / "usr/bin" / name), "--help"],
                                   stdout=subprocess.PIPE, text=True, check=False).stdout
            text = (self.root / "etc/default" / name).read_text()
            flags = set(re.findall(r"--(\w+)", text))
            self.assertIn("tls_key", flags)
            for flag in flags:
                self.assertIn("--%s " % flag, known)

    def test_hardening_leaves_the_server_its_gpus(self):
        server = self.unit("warpline-server")
        for key in ("PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock",
                    "LockPersonality", "MemoryDenyWriteExecute", "ProtectProc", "PrivateUsers"):
            self.assertNotIn(key, server)
        scheduler = self.unit("warpline-scheduler")
        for unit in (server, scheduler):
            self.assertEqual("yes", unit["DynamicUser"])
            self.assertEqual("yes", unit["NoNewPrivileges"])
            self.assertEqual("strict", unit["ProtectSystem"])
        # What it takes to give workers users of their own, and nothing to the server's harm.
        self.assertEqual("CAP_SETUID CAP_SETGID CAP_KILL", server["CapabilityBoundingSet"])
        self.assertIn("cpu", server["Delegate"])
        self.assertEqual("", scheduler["CapabilityBoundingSet"])
        self.assertEqual("0700", scheduler["StateDirectoryMode"])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_understands_the_units(self):
        for name in ("warpline-server", "warpline-scheduler"):
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--root=%s" % self.root,
                 "/usr/lib/systemd/system/%s.service" % name],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            # The rest of a system is not there.
            about = [line for line in done.stdout.splitlines()
                     if name + ".service:" in line and "not found" not in line
                     and "Command /bin/kill is not executable" not in line]
            self.assertEqual([], about)

    def test_manual_pages_tell_every_flag(self):
        for name, section in (("warpline", 1), ("warpline-server", 8), ("warpline-scheduler", 8)):
            path = self.root / ("usr/share/man/man%d/%s.%d.gz" % (section, name, section))
            page = gzip.decompress(path.read_bytes()).decode().replace("\\-", "-")
            known = subprocess.run([str(self.root / "usr/bin" / name), "--help"],
                                   stdout=subprocess.PIPE, text=True, check=False).stdout
            # The last lines name flags of Abseil's own.
            flags = set(re.findall(r"--(\w+)", known.partition("\n\nTry --helpfull")[0]))
            self.assertGreater(len(flags), 5)
            for flag in flags:
                self.assertIn("--" + flag, page)

    def test_scheduler_of_the_package_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            port = pathlib.Path(folder) / "port"
            process = subprocess.Popen(
                [*self.command("warpline-scheduler"), "--listen=127.0.0.1:0",
                 "--state=%s/state" % folder, "--port_file=%s" % port],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            try:
                harness.wait_until(port.exists, "the scheduler serves")
                listed = output(self.root / "usr/bin/warpline", "tenant", "list",
                                "--endpoint=127.0.0.1:" + port.read_text().strip(),
                                WARPLINE_OPERATOR_CREDENTIAL_FILE=folder +
                                "/state/operator.credential")
                self.assertIn("default", listed)
            finally:
                process.terminate()
                self.assertEqual(0, process.wait(harness.GIVE_UP_S))

    def test_commands_run_a_program(self):
        home = self.root / "usr/lib/warpline"
        installation = local_server.Installation(home)
        with harness.server(installation) as server:
            ran = subprocess.run(
                [str(self.root / "usr/bin/warpline"), "run", "--endpoint=" + server.endpoint, "--",
                 str(home / "bin/examples/vector_add")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                timeout=harness.GIVE_UP_S)
            self.assertEqual(0, ran.returncode, ran.stdout)
            self.assertIn("vector_add: ok", ran.stdout)


if __name__ == "__main__":
    unittest.main()
