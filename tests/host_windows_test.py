#!/usr/bin/env python3
"""Host windows of the guarded tier: large copies of sessions that have one do not go with their
commands, sessions that find none go on without, and a window goes along when the worker is lost."""
import json
import os
import re
import signal
import subprocess
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
            {"bin/examples/large_copies": "tests/chaos/large_copies",
             "bin/examples/readbacks": "tests/chaos/readbacks"})

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

    def start_held(self, server, *arguments):
        """One that has made a round and rests, with nothing in flight."""
        return harness.start_held(self.installation, server.endpoint, "large_copies",
                                  "--mib=%d" % COPIED_MIB, *arguments, stat=True, env=GUARDED)

    def step(self, process):
        """One more round."""
        process.stdin.write("\n")
        process.stdin.flush()
        harness.await_held(process, "large_copies")

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

    def test_large_copies_go_through_the_window(self):
        with self.server() as server:
            self.assertLess(self.finish(server, self.start(server, "--rounds=2")), MIB)
            self.assertIn("guarded worker's host windows gpu=0", server.log())

    def test_without_windows_they_go_with_the_commands(self):
        with self.server("--guarded_windows=0") as server:
            self.assertGreater(self.finish(server, self.start(server, "--rounds=1")), COPIED_MIB * MIB)

    def test_what_is_read_back_is_there_after_each_kind_of_wait(self):
        for tier, flags in (("guarded", []), ("guarded", ["--guarded_windows=0"]), ("isolated", []),
                            ("isolated", ["--shm=false"])):
            with self.subTest(tier=tier, flags=flags), self.server(*flags) as server:
                status, stdout, stderr = harness.finish(harness.start(
                    self.installation, server.endpoint, "readbacks", "--rounds=40",
                    env={"WARPLINE_TIER": tier}))
                self.assertEqual((status, stdout), (0, "readbacks: ok\n"), stderr + server.log_tail())

    def test_two_have_one_each_and_a_third_goes_on_without(self):
        with self.server("--guarded_windows=2") as server:
            held = [self.start_held(server, "--seed=%d" % i) for i in range(2)]
            self.assertEqual([self.has_window(s) for s in self.sessions(server)], [True, True])
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
                # The window is somebody's again once its memory has been replaced.
                harness.wait_until(lambda copy=copy: copy() < MIB, "the window is had again")

    def test_a_session_goes_on_with_its_window_in_the_next_worker(self):
        with self.server() as server:
            process = self.start_held(server)
            self.assertEqual([self.has_window(s) for s in self.sessions(server)], [True])
            for kills in range(1, 4):
                for worker in harness.server_processes(server.pid, WORKER):
                    os.kill(worker, signal.SIGKILL)
                self.step(process)
                self.assertEqual(len(re.findall("another worker takes over", server.log())), kills)
            self.assertLess(self.finish(server, process), 2 * MIB)


if __name__ == "__main__":
    unittest.main()
