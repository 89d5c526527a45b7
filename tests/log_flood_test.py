#!/usr/bin/env python3
"""Nobody fills the server's log: what a client repeats is said a few times and then counted, and the
lines of its neighbours still arrive."""
import re
import subprocess
import time
import unittest

import harness

MOST_LOG_BYTES = 100_000
# What a session says at its end, after its worker's.
LEFT_OUT = r" server closed session=.*log_lines_left_out=(\d+)"
# The budget of lines about sessions (server_log.cc): so many at once, and one more each so many seconds.
SESSIONS_AT_ONCE, SESSION_INTERVAL_S = 200, 30


class LogFloodTest(unittest.TestCase):
    def setUp(self):
        self.installation = harness.install(["vector_add"])
        self.addCleanup(self.installation.close)

    def flood(self, server, what, count, meanwhile=lambda: None, last=""):
        """Returns what the server logged meanwhile, once all sessions are over and it has said `last`."""
        before = len(server.log())
        flood = subprocess.Popen(
            [str(harness.RUNFILES / "tests/hostile/log_flood"), "--endpoint=" + server.endpoint,
             "--what=" + what, "--count=%d" % count],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(flood.kill)
        meanwhile()
        said, _ = flood.communicate(timeout=600)
        harness.wait_until(lambda: not harness.server_processes(server.pid, "warpline-worker"),
                           "no worker left")
        harness.wait_until(lambda: re.search(last, server.log()[before:]), last)
        log = server.log()[before:]
        print("%s x %d: %d bytes, %d lines" % (what, count, len(log), log.count("\n")))
        self.assertEqual(flood.returncode, 0, said)
        return log

    def check_bounded(self, log):
        self.assertLess(len(log), MOST_LOG_BYTES, log[:4000])

    def check_neighbour_is_seen(self, server):
        """A program that runs is seen to come and go."""
        before = len(server.log())
        harness.run(self.installation, server.endpoint, "vector_add")
        seen = lambda line: re.search(line, server.log()[before:])
        harness.wait_until(lambda: seen(r" server opened session=\d+ .*vector_add"), "opened")
        harness.wait_until(lambda: seen(r" server closed session=\d+ .*reason=.client closed"),
                           "closed")
        harness.wait_until(lambda: seen(r" worker opened session=\d+"), "the worker's line")

    def test_a_million_refused_commands(self):
        with harness.server(self.installation) as server:
            log = self.flood(server, "commands", 1_000_000,
                             meanwhile=lambda: self.check_neighbour_is_seen(server), last=LEFT_OUT)
            self.check_bounded(log)
            # Neither unsaid nor lost: the first are there, and how many were not said.
            self.assertGreaterEqual(log.count("refused command="), 3)
            left_out = int(re.search(LEFT_OUT, log)[1])
            self.assertEqual(left_out + log.count("refused command="), 1_000_000)
            self.check_neighbour_is_seen(server)

    def test_first_messages_that_make_no_sense(self):
        with harness.server(self.installation) as server:
            log = self.flood(server, "strangers", 1000)
            self.check_bounded(log)
            self.assertGreaterEqual(log.count("protocol error peer="), 3)
            self.check_neighbour_is_seen(server)

    def test_hellos_that_are_refused(self):
        with harness.server(self.installation) as server:
            log = self.flood(server, "hellos", 1000)
            self.check_bounded(log)
            self.assertGreaterEqual(log.count('reason="refused'), 3)
            self.check_neighbour_is_seen(server)

    def test_a_session_that_comes_back_all_the_time(self):
        with harness.server(self.installation) as server:
            log = self.flood(server, "resumptions", 1000)
            self.check_bounded(log)
            self.assertGreaterEqual(log.count("resumed session="), 3)
            self.check_neighbour_is_seen(server)

    def test_sessions_that_open_and_close(self):
        with harness.server(self.installation) as server:
            began = time.monotonic()
            log = self.flood(server, "sessions", 260)
            more = (time.monotonic() - began) / SESSION_INTERVAL_S + 1
            for line in (" server opened session=", " server closed session=",
                         " worker opened session="):
                self.assertGreaterEqual(log.count(line), SESSIONS_AT_ONCE)
                self.assertLessEqual(log.count(line), SESSIONS_AT_ONCE + more)


if __name__ == "__main__":
    unittest.main()
