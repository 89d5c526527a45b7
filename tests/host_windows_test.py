#!/usr/bin/env python3
"""Host windows of the guarded tier: large copies of sessions that have one do not go with their
commands, sessions that find none go on without, and a window goes along when the worker is lost."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

import harness

WORKER = "warpline-worker"
GUARDED = {"WARPLINE_TIER": "guarded"}
MIB = 1 << 20
COPIED_MIB = 64


class HostWindowsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/large_copies": "tests/chaos/large_copies"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def server(self, *flags):
        return harness.local_server.Server(
            self.installation, ["--device=cpu", "--warm_workers=0", "--tiers=isolated,guarded",
                                "--noguarded_standby", *flags])

    def start(self, server, *arguments):
        return harness.start(self.installation, server.endpoint, "large_copies",
                             "--mib=%d" % COPIED_MIB, *arguments, stat=True, env=GUARDED)

    def finish(self, server, process):
        """The bytes that the client sent with its commands."""
        status, stdout, stderr = harness.finish(process)
        self.assertEqual(status, 0, stdout + stderr + server.log_tail())
        self.assertIn("large_copies: ok", stdout)
        return harness.counters(stderr)["bytes sent"]

    def sessions(self, server):
        done = subprocess.run([str(self.installation.root / "bin/warpline"), "stat", "--json"],
                              env=dict(os.environ, WARPLINE_ENDPOINT=server.endpoint),
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout).get("sessions", [])

    @staticmethod
    def has_window(session):
        return int(session.get("host_window_bytes", 0)) > 0

    def await_sessions(self, server, state, what):
        harness.wait_until(
            lambda: [s for s in self.sessions(server) if state(s)], what)

    def test_large_copies_go_through_the_window(self):
        with self.server() as server:
            self.assertLess(self.finish(server, self.start(server, "--rounds=2")), MIB)
            self.assertIn("guarded worker's host windows gpu=0", server.log())

    def test_without_windows_they_go_with_the_commands(self):
        with self.server("--guarded_windows=0") as server:
            self.assertGreater(self.finish(server, self.start(server, "--rounds=1")), COPIED_MIB * MIB)

    def test_two_have_one_each_and_a_third_goes_on_without(self):
        with self.server("--guarded_windows=2") as server:
            held = [self.start(server, "--rounds=40", "--rest_ms=100", "--seed=%d" % i)
                    for i in range(2)]
            harness.wait_until(
                lambda: sum(self.has_window(s) for s in self.sessions(server)) == 2, "two windows")
            third = self.finish(server, self.start(server, "--rounds=1", "--seed=3"))
            self.assertGreater(third, COPIED_MIB * MIB)
            self.assertIn("no host window is free gpu=0", server.log())
            for process in held:
                self.assertLess(self.finish(server, process), 4 * MIB)

    def test_a_window_is_had_again_by_another_session(self):
        with self.server("--guarded_windows=1") as server:
            for seed in range(3):
                def copy(seed=seed):
                    return self.finish(server, self.start(server, "--rounds=1", "--seed=%d" % seed))
                deadline = time.monotonic() + 30
                # The window is somebody's again once its memory has been replaced.
                while copy() >= MIB:
                    self.assertLess(time.monotonic(), deadline)

    def test_a_session_goes_on_with_its_window_in_the_next_worker(self):
        with self.server() as server:
            went_on = False
            for _ in range(10):
                process = self.start(server, "--rounds=20", "--rest_ms=200")
                self.await_sessions(server, self.has_window, "a window")
                time.sleep(0.1)
                for worker in harness.server_processes(server.pid, WORKER):
                    os.kill(worker, signal.SIGKILL)
                status, stdout, stderr = harness.finish(process)
                # If a copy was in flight it is CUDA's sticky error, as for any session.
                if status == 0:
                    went_on = True
                    self.assertLess(harness.counters(stderr)["bytes sent"], 2 * MIB)
                    break
                self.assertNotIn("wrong bytes", stdout)
            self.assertTrue(went_on, server.log_tail())
            self.assertTrue(re.search("another worker takes over", server.log()))


if __name__ == "__main__":
    unittest.main()
