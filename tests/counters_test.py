#!/usr/bin/env python3
"""How often a session waits for the other end: the counters of WARPLINE_STAT=1."""
import re
import unittest

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

    def test_a_gibibyte_allocated_costs_at_most_one_round_trip(self):
        counters = self.stat("allocations", "--gib=4")
        self.assertLessEqual(counters["memory requests"] * 2**30, counters["allocated bytes"])

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


if __name__ == "__main__":
    unittest.main()
