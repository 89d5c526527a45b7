#!/usr/bin/env python3
"""A server under attack goes on serving a neighbour who checks its results all the while."""
import subprocess
import threading
import unittest

import harness

MESSAGES = 100_000
VANISHING_CLIENTS = 200


class HostileTest(unittest.TestCase):
    def test_neighbour_is_served_and_everything_is_given_back(self):
        installation = harness.install(["vector_add", "constants"])
        self.addCleanup(installation.close)
        with harness.server(installation, "--session_memory=2GiB") as server:
            harness.run(installation, server.endpoint, "vector_add")
            harness.wait_until(lambda: not harness.server_processes(server.pid, "warpline-worker"),
                               "the end of the first session")
            descriptors = harness.descriptors(server.pid)
            stop = threading.Event()
            runs, failures = [], []

            def neighbour():
                while not stop.is_set():
                    try:
                        harness.run(installation, server.endpoint, "vector_add")
                        harness.run(installation, server.endpoint, "constants")
                        runs.append(2)
                    except AssertionError as error:
                        failures.append(str(error))
                        return

            thread = threading.Thread(target=neighbour)
            thread.start()
            attack = subprocess.run(
                [str(harness.RUNFILES / "tests/hostile/attack"), "--endpoint=" + server.endpoint,
                 "--messages=%d" % MESSAGES, "--vanish=%d" % VANISHING_CLIENTS],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
            stop.set()
            thread.join()
            print(attack.stdout[-2000:])
            print("neighbour's runs: %d" % sum(runs))
            print("server: %d descriptors before, %d after, %.0f MiB" % (
                descriptors, harness.descriptors(server.pid), harness.resident_mib(server.pid)))
            self.assertEqual(attack.returncode, 0)
            self.assertEqual(failures, [])
            self.assertGreater(sum(runs), 0)
            self.assertTrue(server.running())
            harness.wait_until(lambda: not harness.server_processes(server.pid, "warpline-worker"),
                               "no worker left")
            harness.wait_until(lambda: harness.descriptors(server.pid) <= descriptors + 8,
                               "descriptors back where they were")
            self.assertLess(harness.resident_mib(server.pid), 300)
            harness.run(installation, server.endpoint, "vector_add")


if __name__ == "__main__":
    unittest.main()
