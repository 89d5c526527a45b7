"""Tests of sessions whose memory leaves the device: paging_test and suspend_test."""
import subprocess
import unittest

import harness

PROGRAM = "long_program"
SWAP = "--swap_host=256MiB"
GUARDED = ("--tiers=isolated,guarded", "--noguarded_standby", "--guarded_memory=192MiB")


class PagingCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM,
             "bin/long_program": "tests/chaos/" + PROGRAM,
             "bin/examples/both_devices": "tests/chaos/both_devices",
             "bin/examples/mapped_memory": "tests/chaos/mapped_memory",
             "bin/examples/pinned_memory": "tests/chaos/pinned_memory",
             "bin/examples/shared_memory": "tests/chaos/shared_memory",
             "bin/examples/variables": "tests/chaos/variables"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def warpline(self, server, *arguments):
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline"), arguments[0],
             "--endpoint=" + server.endpoint, *arguments[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S,
            check=False)
        return run.returncode, run.stdout

    def page(self, server, verb, said, *arguments):
        status, output = self.warpline(server, verb, *arguments)
        self.assertEqual(status, 0, output + server.log_tail())
        self.assertIn(said, output)

    def sessions(self, server):
        return harness.sessions(self.installation, server.endpoint)

    def finish(self, process, server, name=PROGRAM):
        status, stdout, stderr = harness.finish(process)
        self.assertEqual(status, 0, stdout + stderr + server.log_tail())
        self.assertIn(name + ": ok", stdout)
