#!/usr/bin/env python3
"""Tenants with weights on one CPU device, end to end: a scheduler, a server, two programs that keep
the device busy with kernels of different lengths, and the server's books of who has had it."""
import pathlib
import sys
import unittest

import harness
import local_server

sys.path.insert(0, str(harness.RUNFILES / "bench"))
import shares  # pylint: disable=wrong-import-position


class DispatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = local_server.Installation.from_bazel_bin(
            harness.RUNFILES, {"bin/shares": "bench/cuda/shares"})
        cls.program = pathlib.Path(cls.installation.root) / "bin/shares"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def books(self, weights, tier, *flags):
        """The first tenant's share of the device, as the server has it."""
        with shares.Pool(local_server, self.installation, weights,
                         ["--device=cpu", "--tiers=isolated,guarded", *flags]) as pool:
            measurement = shares.Measurement(pool, self.program, tier, ["--blocks=4"])
            kernels = [measurement.calibrate(length) for length in (300, 3000)]
            # So that the long one has a backlog before the short one comes, and the other way round.
            return measurement.together(kernels, weights, 4)["books"]

    def test_equal_weights_have_equal_shares_of_an_isolated_device(self):
        self.assertAlmostEqual(self.books((1, 1), "isolated"), 1 / 2, delta=0.05)

    def test_weights_are_kept_on_an_isolated_device(self):
        self.assertAlmostEqual(self.books((3, 1), "isolated"), 3 / 4, delta=0.05)

    def test_without_dispatch_there_are_no_books(self):
        self.assertEqual(self.books((3, 1), "isolated", "--dispatch=off"), 0)


if __name__ == "__main__":
    unittest.main()
