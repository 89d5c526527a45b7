#!/usr/bin/env python3
"""`warpline-scheduler state`: a state at rest is shown and copied, and what is killed in the middle of
that loses nothing."""
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline/tests"),
                str(pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline/tests/versions")]

import harness  # noqa: E402
import processes  # noqa: E402

KEPT = ("state.db", "keys")


@unittest.skipUnless(os.access(processes.ETCD, os.X_OK),
                     "etcd is not installed (apt-get install etcd-server)")
class StateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.local_server.Installation.from_bazel_bin(harness.RUNFILES, {})
        cls.binary = str(cls.installation.root / "bin/warpline-scheduler")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name) / "made"
        cls.fill(cls.made)

    @classmethod
    def fill(cls, folder):
        """A state in the folder that has something of everything, and no scheduler."""
        scheduler = processes.Scheduler(cls.installation.root, folder, str(folder))
        try:
            scheduler.must("slice", "add", "small", "--memory=64MiB", "--handles=500")
            scheduler.must("tenant", "add", "org", "--memory=8GiB")
            credential, server = folder.parent / "tenant", folder.parent / "server"
            credential.write_text(scheduler.must("tenant", "add", "vision", "--parent=org",
                                                 "--slices=small", "--weight=3"))
            server.write_text(scheduler.must("servers", "add", "gpu1"))
            scheduler.must("servers", "add", "gpu2")
            scheduler.must("servers", "cordon", "gpu2", "--reason=disk")
            with harness.server(cls.installation, "--name=gpu1",
                                "--scheduler=" + scheduler.endpoint,
                                "--scheduler_credential_file=%s" % server):
                environment = {"WARPLINE_CREDENTIAL_FILE": str(credential)}
                processes.wait_for(
                    lambda: scheduler.call("run", "--", "true", env=environment)[0] == 0,
                    "leases are given")
                scheduler.kill()
        finally:
            scheduler.kill()

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.etcd = processes.Etcd(self.folder)
        self.addCleanup(self.etcd.close)
        self.in_etcd = "etcd://127.0.0.1:%d" % self.etcd.port

    def command(self, *arguments):
        return [self.binary, "state", *arguments]

    def run_state(self, *arguments):
        """Returns (status, output)."""
        done = subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=harness.GIVE_UP_S, check=False)
        return done.returncode, done.stdout

    def must(self, *arguments):
        status, output = self.run_state(*arguments)
        self.assertEqual(status, 0, output)
        return output

    def refused(self, *arguments):
        status, output = self.run_state(*arguments)
        self.assertEqual(status, 2, output)
        return output

    def source(self, leases=0):
        """A folder as a scheduler left it, with more leases of it."""
        folder = self.folder / "source"
        shutil.copytree(self.made, folder)
        database = sqlite3.connect(folder / "state.db")
        lease, = database.execute("SELECT value FROM records WHERE key LIKE 'leases/%'").fetchone()
        for i in range(leases):
            database.execute("INSERT INTO records VALUES (?, ?)", ("leases/more%d" % i, lease))
        database.commit()
        database.close()
        return folder

    @staticmethod
    def rows(path):
        """All records, and the version."""
        database = sqlite3.connect(path)
        found = sorted(database.execute("SELECT key, value FROM records"))
        database.close()
        return found

    def expect_same(self, one, other):
        self.assertEqual(self.rows(one / "state.db"), self.rows(other / "state.db"))
        self.assertEqual((one / "keys").read_text(), (other / "keys").read_text())

    def test_a_copy_goes_to_etcd_and_back_whole(self):
        source, target = self.source(leases=130), self.folder / "target"
        said = self.must("copy", "--state=%s" % source, "--into=" + self.in_etcd)
        self.assertIn("copied and read back: 2 tenants, 1 slices, 1 servers", said)
        self.assertEqual(self.etcd.keys(b"/warpline/")["version"], b"1")
        said = self.must("copy", "--state=" + self.in_etcd, "--into=%s" % target)
        self.assertIn("The operator's credential is another one", said)
        self.expect_same(source, target)
        for name in KEPT:
            self.assertEqual((target / name).stat().st_mode & 0o777, 0o600)
        self.assertGreater(int((target / "epoch").read_text()), 1)
        # Nothing is overwritten.
        self.assertIn("is not overwritten",
                      self.refused("copy", "--state=%s" % source, "--into=" + self.in_etcd))
        self.assertIn("is not overwritten",
                      self.refused("copy", "--state=" + self.in_etcd, "--into=%s" % target))

    def test_what_has_no_state_is_not_copied(self):
        nowhere = self.folder / "nowhere"
        self.assertIn("there is no state in",
                      self.refused("copy", "--state=%s" % nowhere, "--into=" + self.in_etcd))
        self.assertFalse(nowhere.exists())
        self.assertIn("there is no state under",
                      self.refused("copy", "--state=" + self.in_etcd, "--into=%s" % nowhere))
        self.assertFalse((nowhere / "state.db").exists())
        self.assertIn("--into", self.refused("copy", "--state=%s" % nowhere))
        self.assertIn("one of --state and --into",
                      self.refused("copy", "--state=%s" % nowhere, "--into=%s2" % nowhere))

    def test_a_state_that_a_scheduler_has_is_left_alone(self):
        source = self.source()
        scheduler = processes.Scheduler(self.installation.root, source, str(source))
        self.addCleanup(scheduler.kill)
        for arguments in (("show",), ("copy", "--into=" + self.in_etcd)):
            self.assertIn("another scheduler runs",
                          self.refused(*arguments, "--state=%s" % source))
        other = processes.Scheduler(self.installation.root, self.folder / "own", self.in_etcd)
        self.addCleanup(other.kill)
        said = self.refused("copy", "--into=%s" % (self.folder / "target"),
                            "--state=" + self.in_etcd)
        self.assertIn("leads: stop all schedulers", said)
        self.assertIn(other.endpoint, said)
        self.assertIn("version 1", self.must("show", "--state=" + self.in_etcd))

    def test_a_state_of_another_version_is_neither_shown_nor_copied(self):
        source = self.source()
        self.assertIn("version 1\n2 tenants, 1 slices", self.must("show", "--state=%s" % source))
        database = sqlite3.connect(source / "state.db")
        database.execute("UPDATE records SET value = '10' WHERE key = 'version'")
        database.commit()
        database.close()
        self.etcd.put(b"/warpline/version", b"10")
        for state, other in ((source, self.in_etcd), (self.in_etcd, self.folder / "target")):
            for arguments in (("show",), ("copy", "--into=%s" % other)):
                self.assertIn("the state is of version 10",
                              self.refused(*arguments, "--state=%s" % state))

    def test_a_running_server_goes_on_with_a_state_that_moves(self):
        own, target = self.folder / "own", self.folder / "target"
        first = processes.Scheduler(self.installation.root, own, self.in_etcd)
        self.addCleanup(first.kill)
        processes.wait_for(lambda: first.call("tenant", "add", "org")[0] == 0, "it leads")
        credential, tenant = self.folder / "server.credential", self.folder / "tenant.credential"
        credential.write_text(first.must("servers", "add", "s"))
        tenant.write_text(first.must("tenant", "add", "vision"))
        server = harness.server(self.installation, "--name=s", "--scheduler=" + first.endpoint,
                                "--scheduler_credential_file=%s" % credential)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        environment = {"WARPLINE_CREDENTIAL_FILE": str(tenant)}

        def leased(scheduler):
            return scheduler.call("run", "--", "true", env=environment)[0] == 0

        processes.wait_for(lambda: leased(first), "leases are given")
        with subprocess.Popen(
                [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + first.endpoint,
                 "--", "sh", "-c", "echo ready; read line"],
                env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "ready\n")
            first.process.send_signal(signal.SIGTERM)
            first.process.wait(harness.GIVE_UP_S)
            self.must("copy", "--state=" + self.in_etcd, "--into=%s" % target)
            second = processes.Scheduler(self.installation.root, target, str(target), first.port)
            self.addCleanup(second.kill)
            processes.wait_for(lambda: leased(second), server.log_tail)
            # The lease of before is there, and ends in order.
            self.assertIn('"sh"', second.must("lease", "list", "--json"))
            holder.communicate("go\n", timeout=harness.GIVE_UP_S)
            self.assertEqual(holder.returncode, 0)
        processes.wait_for(lambda: '"active"' not in second.must("lease", "list", "--json"),
                        "the lease ends")

    def remove_all(self):
        for key in self.etcd.keys(b"/warpline/"):
            self.etcd.remove(b"/warpline/" + key.encode())

    def kill_when(self, condition, *arguments):
        """Kills it when the condition holds, unless it has ended before."""
        process = subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not condition():
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        # What keeps others out would last for half a minute.
        self.etcd.remove(b"/warpline/leader")

    def has_begun(self):
        """That a copy to etcd has."""
        return self.etcd.keys(b"/warpline/")

    @staticmethod
    def after(pause_s):
        end = time.monotonic() + pause_s
        return lambda: time.monotonic() >= end

    def test_a_copy_that_is_killed_at_any_time_is_begun_anew(self):
        source = self.source(leases=300)
        to_etcd = ("copy", "--state=%s" % source, "--into=" + self.in_etcd)
        is_whole = lambda: self.run_state("show", "--state=" + self.in_etcd)[0] == 0
        said = ""
        while "has not ended" not in said:
            if is_whole():
                self.remove_all()
            self.kill_when(self.has_begun, *to_etcd)
            said = self.run_state("show", "--state=" + self.in_etcd)[1]
        for step in range(20):
            self.kill_when(self.after(0.02 * step), *to_etcd)
            status, said = self.run_state("show", "--state=" + self.in_etcd)
            if status == 0:
                self.assertIn("2 tenants", said)
                break
            self.assertRegex(said, "has not ended|there is no state")
        if not is_whole():
            self.must(*to_etcd)
        target = self.folder / "target"
        pause_s = 0
        while self.run_state("show", "--state=%s" % target)[0] != 0:
            self.kill_when(self.after(pause_s), "copy", "--state=" + self.in_etcd, "--into=%s" % target)
            pause_s += 0.02
        self.expect_same(source, target)

    def test_nobody_leads_with_half_a_copy(self):
        self.etcd.put(b"/warpline/version", b"1000000")
        self.etcd.put(b"/warpline/tenants/a", b"\x0a\x01h")
        log = self.folder / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [self.binary, "--listen=127.0.0.1:0", "--state=" + self.in_etcd,
                 "--state_folder=%s" % (self.folder / "own")], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        processes.wait_for(lambda: "a copy into it has not ended" in log.read_text(), log.read_text)


if __name__ == "__main__":
    unittest.main()
