#!/usr/bin/env python3
"""Sessions and leases of programs outlive the scheduler that gave them: three schedulers, a server
with the CPU device, `warpline run`, and a program that dials the schedulers itself."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ.get("TEST_SRCDIR", ".")) / "warpline/tests"))

import harness  # noqa: E402
import pool as pools  # noqa: E402

# So long that a busy machine does not keep a holder from renewing its lease.
TTL_S = 8


@unittest.skipUnless(os.access(pools.ETCD, os.X_OK),
                     "etcd is not installed (apt-get install etcd-server)")
class SessionsTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.installation = harness.install(["vector_add"])
        stack.callback(self.installation.close)
        self.pool = pools.Pool(pools.binaries_in(harness.RUNFILES), folder, stack, TTL_S)
        server = harness.server(self.installation, "--scheduler=" + self.pool.addresses,
                                "--name=a")
        stack.enter_context(server)
        # The server reports before its device is there.
        pools.wait_until(self.gives_leases, "leases are given")

    def gives_leases(self):
        process = self.run_program("true")
        process.communicate(timeout=harness.GIVE_UP_S)
        return process.returncode == 0

    def run_program(self, script):
        """Starts the script under a lease."""
        environment = self.installation.client_environment("")
        del environment["WARPLINE_ENDPOINT"], environment["LD_LIBRARY_PATH"]
        return subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "run", "--memory=1GiB",
             "--endpoint=" + self.pool.addresses, "--", "sh", "-c", script],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def kill_the_leader(self):
        former = self.pool.leader()
        epoch = former.epoch()
        former.process.kill()
        former.process.wait()
        pools.wait_until(lambda: self.pool.leader().epoch() > epoch, "another one leads")

    def test_a_lease_and_new_sessions_of_it_outlive_its_scheduler(self):
        program = self.installation.root / "bin/examples/vector_add"
        # Longer than a lease lasts that nobody renews.
        process = self.run_program("%s && sleep %d && %s" % (program, 2 * TTL_S, program))
        self.assertIn("vector_add: ok", process.stdout.readline())
        self.kill_the_leader()
        output, _ = process.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("vector_add: ok", output)

    def test_a_program_that_dials_any_scheduler_gets_to_the_server(self):
        harness.run(self.installation, self.pool.addresses, "vector_add")
        follower = min(self.pool.schedulers, key=pools.Scheduler.epoch)
        self.assertIsNot(follower, self.pool.leader())
        harness.run(self.installation, follower.address, "vector_add")
        self.kill_the_leader()
        pools.wait_until(self.gives_leases, "leases are given again")
        harness.run(self.installation, self.pool.addresses, "vector_add")


if __name__ == "__main__":
    unittest.main()
