#!/usr/bin/env python3
"""What is counted: by a client (WARPLINE_STAT=1), and by a worker for its operator."""
import re
import socket
import subprocess
import unittest
import urllib.request

import harness


class CountersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(["launches", "allocations", "vector_add", "driver_api"])
        cls.server = harness.server(cls.installation, "--session_memory=16GiB")
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.installation.close()

    def stat(self, name, *arguments):
        _, stderr = harness.run(self.installation, self.server.endpoint, name, *arguments,
                                stat=True)
        counters = harness.counters(stderr)
        self.assertTrue(counters, stderr)
        return counters

    def test_launches_wait_for_nothing(self):
        few = self.stat("launches", "--n=10")
        many = self.stat("launches", "--n=10000")
        self.assertGreaterEqual(many["launches"], 10000)
        # What is left is the look-up of the kernel, however many launches follow it.
        self.assertEqual(many["round trips"], few["round trips"])
        self.assertEqual(many["memory requests"], 0)

    def test_waits_end_by_what_the_worker_reports(self):
        counters = self.stat("launches", "--n=10")
        self.assertGreaterEqual(counters["waits on the board"], 1)
        self.assertLessEqual(counters["waits on the board"],
                             counters["synchronizes"] + counters["copies out"])

    def test_allocations_are_grants_of_their_own_or_share_large_ones(self):
        counters = self.stat("allocations", "--gib=4")
        # Each of at least 64 MiB may cost a round trip, and less than that shares what grows from
        # 64 MiB to a GiB.
        self.assertLessEqual(counters["memory requests"] * (64 << 20), counters["allocated bytes"])

    def test_reason_of_refused_memory_is_said_once(self):
        # It asks for 64 TiB.
        _, stderr = harness.run(self.installation, self.server.endpoint, "driver_api", stat=True)
        self.assertGreaterEqual(harness.counters(stderr)["memory refused"], 1)
        self.assertEqual(len(re.findall(r"memory was refused: quota of \d+ bytes: ", stderr)), 1,
                         stderr)

    def test_opening_and_a_small_program_stay_under_ten(self):
        counters = self.stat("vector_add")
        self.assertLessEqual(counters["round trips"] + counters["opening"] +
                             counters["memory requests"] + counters["synchronizes"] +
                             counters["copies out"], 10)


class EnginesTest(unittest.TestCase):
    """Commands by the engine that they keep busy, in the metrics and in `warpline stat`."""

    def setUp(self):
        self.installation = harness.install(["launches", "vector_add"])
        self.addCleanup(self.installation.close)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port) as page:
            found = re.findall(r'^warpline_engine_commands_total{engine="(\w+)"} (\d+)',
                               page.read().decode(), re.M)
        return {engine: int(count) for engine, count in found}

    def stat(self, server, name):
        ended = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "stat", "--endpoint=" + server.endpoint],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
        found = re.search(r"^%s +(\d+)$" % name, ended.stdout, re.M)
        return int(found[1]) if found else 0

    def test_commands_are_counted_by_engine(self):
        with harness.server(self.installation,
                            "--admin_listen=127.0.0.1:%d" % self.port) as server:
            self.assertEqual(self.metrics(), {"compute": 0, "copy_in": 0, "copy_out": 0})
            harness.run(self.installation, server.endpoint, "vector_add")
            harness.wait_until(lambda: self.metrics()["copy_out"] >= 1, "copies")
            self.assertGreaterEqual(self.metrics()["compute"], 1)
            self.assertGreaterEqual(self.metrics()["copy_in"], 2)
            program = harness.start(self.installation, server.endpoint, "launches", "--n=100000000")
            try:
                harness.wait_until(lambda: self.stat(server, "compute") >= 1000, "launches")
            finally:
                program.kill()
                program.communicate()
            # The counts of sessions stay when they have ended.
            self.assertGreaterEqual(self.metrics()["compute"], 1000)


if __name__ == "__main__":
    unittest.main()
