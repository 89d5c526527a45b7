#!/usr/bin/env python3
"""A lease that `warpline hold` keeps for programs that are started elsewhere, as a pod's containers
are."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import unittest

import harness


class HoldTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/examples/vector_add": "examples/vector_add",
            "bin/examples/lease_tree": "tests/cuda/lease_tree"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(self.scheduler.close)
        folder = tempfile.TemporaryDirectory(prefix="warpline-hold-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, *flags):
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=a", *flags)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=a" in self.scheduler.log(), "server is up")
        return server

    def environment(self, **more):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"]
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(
            self.scheduler.folder / "state/operator.credential")
        env.update(more)
        return env

    def start(self, *command, **env):
        process = subprocess.Popen(command, env=self.environment(**env), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def binary(self, name):
        return str(self.installation.root / "bin" / name)

    def hold(self, *options):
        return self.start(self.binary("warpline"), "hold", "--folder=%s" % self.folder,
                          "--endpoint=" + self.scheduler.endpoint, *options)

    def wait_for_lease(self):
        harness.wait_until((self.folder / "token").exists, "the lease is there")

    def leases(self):
        done = self.start(self.binary("warpline"), "lease", "list", "--json",
                          "--endpoint=" + self.scheduler.endpoint)
        out, err = done.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, 0, err)
        return [lease for lease in json.loads(out)["leases"] if lease["state"] == "active"]

    def run_program(self, *command):
        """As in another container: it knows the folder, and that is all."""
        done = self.start(*command, WARPLINE_LEASE_FOLDER=str(self.folder))
        out, err = done.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, 0, out + err)
        return out

    def test_programs_elsewhere_share_the_lease_and_its_end_leaves_nothing(self):
        self.serve()
        holder = self.hold("--memory=4GiB")
        self.wait_for_lease()
        held = self.leases()
        self.assertEqual(len(held), 1)
        self.assertEqual(held[0]["program"], socket.gethostname())
        self.assertIn("vector_add: ok", self.run_program(self.binary("examples/vector_add")))
        self.assertIn("lease_tree: ok (4 processes, 4 GiB)",
                      self.run_program(self.binary("examples/lease_tree")))
        # `warpline run` there is part of the lease, and so is what asks for the devices.
        self.assertIn("vector_add: ok", self.run_program(
            self.binary("warpline"), "run", "--", self.binary("examples/vector_add")))
        self.assertIn("uuid ", self.run_program(self.binary("warpline"), "devices"))
        self.assertEqual([lease["id"] for lease in self.leases()], [held[0]["id"]])
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 0)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertEqual(self.leases(), [])

    def test_waits_until_there_is_room(self):
        holder = self.hold("--memory=1GiB")
        line = holder.stderr.readline()
        self.assertIn("waiting:", line)
        self.assertFalse((self.folder / "token").exists())
        self.serve()
        self.wait_for_lease()
        self.assertEqual(len(self.leases()), 1)

    def test_a_signal_ends_the_wait(self):
        holder = self.hold()
        self.assertIn("waiting:", holder.stderr.readline())
        holder.terminate()
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 0)

    def test_a_wait_that_is_over_ends_the_holder_and_says_why(self):
        holder = self.hold("--wait=0s")
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 4)
        self.assertRegex(holder.stderr.read(), "no lease within 0: the scheduler at .* has no server")
        self.serve()
        holder = self.hold("--wait=0s", "--memory=4000GiB")
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 3)
        self.assertIn("no lease within 0: ", holder.stderr.read())
        # It does not wait where it is refused for good.
        holder = self.hold("--wait=1h", "--slice=none-of-this-name")
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 1)
        self.assertIn("none-of-this-name", holder.stderr.read())

    def test_a_lease_that_is_revoked_ends_the_holder(self):
        self.serve()
        holder = self.hold()
        self.wait_for_lease()
        done = self.start(self.binary("warpline"), "lease", "revoke", self.leases()[0]["id"],
                          "--endpoint=" + self.scheduler.endpoint)
        self.assertEqual(done.wait(harness.GIVE_UP_S), 0)
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 1)
        self.assertIn("the lease is lost", holder.stderr.read())
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_token_is_the_owners_unless_it_is_shared(self):
        self.serve()
        self.folder.chmod(0o777)
        holder = self.hold()
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 2)
        self.assertIn("--share_token", holder.stderr.read())
        self.assertEqual(list(self.folder.iterdir()), [])
        self.hold("--share_token")
        self.wait_for_lease()
        self.assertEqual((self.folder / "token").stat().st_mode & 0o777, 0o644)

    def test_the_token_is_written_for_one_other_user(self):
        self.serve()
        self.folder.chmod(0o755)
        holder = self.hold("--reader=%d" % os.geteuid())
        self.wait_for_lease()
        info = (self.folder / "token").stat()
        self.assertEqual((info.st_mode & 0o777, info.st_uid), (0o640, os.geteuid()))
        self.assertIn("vector_add: ok", self.run_program(self.binary("examples/vector_add")))
        holder.terminate()
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 0)
        self.folder.chmod(0o777)
        holder = self.hold("--reader=%d" % os.geteuid())
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 2)
        self.assertIn("others may write in", holder.stderr.read())

    def test_a_folder_that_is_not_there_is_said(self):
        holder = self.start(self.binary("warpline"), "hold", "--folder=%s/none" % self.folder,
                            "--endpoint=" + self.scheduler.endpoint)
        self.serve()
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 2)
        self.assertIn("cannot write", holder.stderr.read())

    def test_what_a_former_holder_left_is_gone_before_there_is_a_lease(self):
        (self.folder / "token").write_text("old\n")
        holder = self.hold()
        self.assertIn("waiting:", holder.stderr.readline())
        self.assertFalse((self.folder / "token").exists())

    def test_fresh_tokens_come_while_it_is_held(self):
        self.serve()
        self.hold()
        self.wait_for_lease()
        first = (self.folder / "token").read_text()
        harness.wait_until(lambda: (self.folder / "token").read_text() not in ("", first),
                           "a fresh token")
        # The lease lives for longer than its time.
        self.assertEqual(len(self.leases()), 1)


if __name__ == "__main__":
    unittest.main()
