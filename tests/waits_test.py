#!/usr/bin/env python3
"""Waits with deadlines and cancelled streams, of sessions in both tiers, as a program in Python has them."""
import json
import os
import random
import subprocess
import sys
import unittest

import harness

APPLICATION = harness.RUNFILES / "tests/waits/application.py"
TIERS = ("isolated", "guarded")
# The random test has programs with so many steps in all. Every second program is killed on its way.
STEPS = 2000
PROGRAMS = 8


class WaitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install([])

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def server(self):
        return harness.server(self.installation, "--warm_workers=0", "--tiers=isolated,guarded",
                              "--noguarded_standby")

    def start(self, server, tier, *arguments, **variables):
        environment = self.installation.client_environment(server.endpoint)
        environment.update(variables, WARPLINE_TIER=tier,
                           PYTHONPATH=str(harness.RUNFILES / "client_stub"))
        return subprocess.Popen([sys.executable, str(APPLICATION), *arguments], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, server, process):
        status, stdout, stderr = harness.finish(process)
        self.assertEqual((status, stdout.split("\n")[-2:]), (0, ["application: ok", ""]),
                         stdout + stderr + server.log_tail())

    def run_one(self, server, tier, *arguments, **variables):
        self.finish(server, self.start(server, tier, *arguments, **variables))

    def expect_nothing_left(self, server):
        def left():
            answer = subprocess.run([str(self.installation.root / "bin/warpline"), "stat", "--json"],
                                    env=dict(os.environ, WARPLINE_ENDPOINT=server.endpoint),
                                    stdout=subprocess.PIPE, text=True, check=True)
            stat = json.loads(answer.stdout)
            return (stat.get("sessions", []), int(stat["devices"][0].get("granted_bytes", 0)))

        harness.wait_until(lambda: left() == ([], 0), lambda: "empty books: %s" % (left(),))
        # A guarded session's process is for all of them, and stays.
        harness.wait_until(lambda: len(harness.server_processes(server.pid, "warpline-worker")) <= 1,
                           "the isolated sessions' workers have ended")

    def test_a_wait_ends_at_its_deadline_and_may_be_tried_again(self):
        with self.server() as server:
            for tier in TIERS:
                self.run_one(server, tier, "deadlines")
            self.expect_nothing_left(server)

    def test_cudas_own_waits_end_by_the_environment(self):
        with self.server() as server:
            for tier in TIERS:
                self.run_one(server, tier, "environment", WARPLINE_WAIT_SECONDS="0.05")
            self.expect_nothing_left(server)

    def test_a_guarded_stream_is_cancelled_alone(self):
        with self.server() as server:
            self.run_one(server, "guarded", "stop")
            self.expect_nothing_left(server)

    def test_an_isolated_session_ends_with_the_work_that_is_cancelled(self):
        with self.server() as server:
            self.run_one(server, "isolated", "end")
            self.expect_nothing_left(server)

    def test_a_flood_of_cancels_is_the_sessions_own_affair(self):
        with self.server() as server:
            neighbour = self.start(server, "guarded", "neighbour", "300")
            self.assertEqual(neighbour.stdout.readline(), "application: goes on\n")
            self.run_one(server, "guarded", "flood", "2000")
            self.finish(server, neighbour)
            self.expect_nothing_left(server)

    def test_random_waits_cancels_and_kills_leave_nothing(self):
        choose = random.Random(55)
        with self.server() as server:
            for program in range(PROGRAMS):
                process = self.start(server, "guarded", "steps", str(choose.randrange(1 << 30)),
                                     str(STEPS // PROGRAMS))
                if program % 2 == 0:
                    self.finish(server, process)
                    continue
                self.assertEqual(process.stdout.readline(), "application: goes on\n",
                                 server.log_tail())
                process.kill()
                process.communicate()
            self.run_one(server, "isolated", "end")
            self.expect_nothing_left(server)


if __name__ == "__main__":
    unittest.main()
