#!/usr/bin/env python3
"""`warpline-scheduler state`: a state at rest is shown, brought back and copied, and what is killed in
the middle of that loses nothing."""
import os
import pathlib
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
import record  # noqa: E402

FORMER = pathlib.Path(__file__).resolve().parent / "former"
KEPT = ("state.db", "keys")


@unittest.skipUnless(os.access(record.ETCD, os.X_OK),
                     "etcd is not installed (apt-get install etcd-server)")
class StateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.local_server.Installation.from_bazel_bin(harness.RUNFILES, {})
        cls.binary = str(cls.installation.root / "bin/warpline-scheduler")

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.etcd = record.Etcd(self.folder)
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

    def source(self, name="source", leases=0):
        """A folder as a scheduler of the former version left it, with more leases of it."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        database = sqlite3.connect(folder / "state.db")
        database.executescript((FORMER / "state.sql").read_text())
        columns = [row[1] for row in database.execute("PRAGMA table_info(leases)")]
        copied = ", ".join("?" if column == "id" else column for column in columns)
        for i in range(leases):
            database.execute("INSERT INTO leases SELECT %s FROM leases LIMIT 1" % copied,
                             ("more%d" % i,))
        database.commit()
        database.close()
        (folder / "keys").write_text((FORMER / "keys.txt").read_text())
        return folder

    @staticmethod
    def rows(path):
        """All rows of all tables."""
        database = sqlite3.connect(path)
        tables = [row[0] for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        found = {table: sorted(database.execute("SELECT * FROM %s" % table)) for table in tables}
        found["version"] = database.execute("PRAGMA user_version").fetchone()
        database.close()
        return found

    def expect_same(self, one, other):
        self.assertEqual(self.rows(one / "state.db"), self.rows(other / "state.db"))
        self.assertEqual((one / "keys").read_text(), (other / "keys").read_text())

    def test_a_copy_goes_to_etcd_and_back_whole(self):
        source, target = self.source(leases=130), self.folder / "target"
        said = self.must("copy", "--state=%s" % source, "--into=" + self.in_etcd)
        self.assertIn("copied and read back: 2 tenants, 1 slices, 1 servers", said)
        self.assertEqual(self.etcd.keys(b"/warpline/")["format"], b"2")
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
        scheduler = record.Scheduler(self.installation.root, source, str(source))
        self.addCleanup(scheduler.kill)
        for arguments in (("show",), ("back", "--state_version=6"), ("copy", "--into=" + self.in_etcd)):
            self.assertIn("another scheduler runs",
                          self.refused(*arguments, "--state=%s" % source))
        other = record.Scheduler(self.installation.root, self.folder / "own", self.in_etcd)
        self.addCleanup(other.kill)
        for arguments in (("back", "--state_version=1"),
                          ("copy", "--into=%s" % (self.folder / "target"))):
            said = self.refused(*arguments, "--state=" + self.in_etcd)
            self.assertIn("leads: stop all schedulers", said)
            self.assertIn(other.endpoint, said)
        self.assertIn("version 1", self.must("show", "--state=" + self.in_etcd))

    def test_going_back_says_what_is_lost_and_loses_nothing_unasked(self):
        source = self.source()
        before = self.rows(source / "state.db")
        said = self.must("show", "--state=%s" % source)
        self.assertRegex(said, r"back to version 6: loses 1 tenants below another one, 1 cordons")
        said = self.refused("back", "--state_version=5", "--state=%s" % source)
        self.assertRegex(said, r"version 5 has no place for .*1 slices")
        self.assertEqual(self.rows(source / "state.db"), before)
        self.assertIn("names no version", self.refused("back", "--state=%s" % source))
        self.assertIn("it can go back to",
                      self.refused("back", "--state_version=99", "--state=%s" % source))
        said = self.must("back", "--state_version=5", "--accept_loss", "--state=%s" % source)
        self.assertIn("state.db.version-", said)
        self.assertEqual(self.rows(source / "state.db")["version"], (5,))
        # What it was can be put back.
        version = before["version"][0]
        os.replace(source / ("state.db.version-%d" % version), source / "state.db")
        self.assertEqual(self.rows(source / "state.db"), before)
        # A scheduler takes what went back, too.
        self.must("back", "--state_version=6", "--accept_loss", "--state=%s" % source)
        scheduler = record.Scheduler(self.installation.root, source, str(source))
        self.addCleanup(scheduler.kill)
        self.assertIn("vision", scheduler.must("tenant", "list"))

    def test_the_way_back_in_etcd(self):
        source = self.source()
        self.must("copy", "--state=%s" % source, "--into=" + self.in_etcd)
        self.assertRegex(self.must("show", "--state=" + self.in_etcd),
                         r"version 2; this scheduler knows up to 3\n.*2 tenants.*\nback to version 1: loses 1 slices")
        self.assertIn("version 1 has no place for 1 slices",
                      self.refused("back", "--state_version=1", "--state=" + self.in_etcd))
        self.assertEqual(self.etcd.keys(b"/warpline/")["format"], b"2")
        self.must("back", "--state_version=1", "--accept_loss", "--state=" + self.in_etcd)
        keys = self.etcd.keys(b"/warpline/")
        self.assertEqual(keys["format"], b"1")
        self.assertFalse([name for name in keys if name.startswith("slices/")])
        self.assertIn("version 1 already",
                      self.must("back", "--state_version=1", "--state=" + self.in_etcd))

    def test_a_running_server_goes_on_with_a_state_that_moves(self):
        own, target = self.folder / "own", self.folder / "target"
        first = record.Scheduler(self.installation.root, own, self.in_etcd)
        self.addCleanup(first.kill)
        record.wait_for(lambda: first.call("tenant", "add", "org")[0] == 0, "it leads")
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

        record.wait_for(lambda: leased(first), "leases are given")
        with subprocess.Popen(
                [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + first.endpoint,
                 "--", "sh", "-c", "echo ready; read line"],
                env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as holder:
            self.assertEqual(holder.stdout.readline(), "ready\n")
            first.process.send_signal(signal.SIGTERM)
            first.process.wait(20)
            self.must("copy", "--state=" + self.in_etcd, "--into=%s" % target)
            second = record.Scheduler(self.installation.root, target, str(target), first.port)
            self.addCleanup(second.kill)
            record.wait_for(lambda: leased(second), server.log_tail)
            # The lease of before is there, and ends in order.
            self.assertIn('"sh"', second.must("lease", "list", "--json"))
            holder.communicate("go\n", timeout=60)
            self.assertEqual(holder.returncode, 0)
        record.wait_for(lambda: '"active"' not in second.must("lease", "list", "--json"),
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
        while not (target / "state.db").exists():
            self.kill_when(self.after(pause_s), "copy", "--state=" + self.in_etcd, "--into=%s" % target)
            pause_s += 0.02
        self.expect_same(source, target)

    def test_nobody_leads_with_half_a_copy(self):
        self.etcd.put(b"/warpline/format", b"1000000")
        self.etcd.put(b"/warpline/tenants/a", b"\x0a\x01h")
        log = self.folder / "log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [self.binary, "--listen=127.0.0.1:0", "--state=" + self.in_etcd,
                 "--state_folder=%s" % (self.folder / "own")], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        record.wait_for(lambda: "a copy into it has not ended" in log.read_text(), log.read_text)


if __name__ == "__main__":
    unittest.main()
