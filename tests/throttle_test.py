#!/usr/bin/env python3
"""A policy slows down kernels of the guarded tier, or keeps them apart from urgent ones, end to end on
the CPU device: a scheduler, a server with the policy, a best-effort program and an urgent one."""
import os
import pathlib
import sys
import time
import unittest

import harness
import local_server

sys.path.insert(0, str(harness.RUNFILES / "bench"))
import shares  # pylint: disable=wrong-import-position

# Each thread of a kernel asks several times, and goes on for thousands of iterations if it naps.
ROUNDS = 60000


class ThrottleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = local_server.Installation.from_bazel_bin(
            harness.RUNFILES, {"bin/shares": "bench/cuda/shares", "bin/reduction": "examples/reduction"})
        cls.bin = pathlib.Path(cls.installation.root) / "bin"
        cls.policy = harness.RUNFILES / "policy/examples/throttle.bpf.o"
        cls.orion = harness.RUNFILES / "policy/examples/orion.bpf.o"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def pool(self, policy, priorities):
        tenants = [["--priority=%d" % priority] for priority in priorities]
        return shares.Pool(local_server, self.installation, tenants,
                           ["--device=cpu", "--tiers=isolated,guarded", "--dispatch=%s" % policy])

    def busy(self, pool, tenant, seconds, rounds=ROUNDS):
        return pool.start(tenant, "guarded", str(self.bin / "shares"), "--rounds=%d" % rounds, "--kernel_us=1000",
                          "--seconds=%d" % seconds, "--blocks=4")

    def kernels_beside(self, policy, priorities):
        """Kernels a second of the first tenant, while another one works and afterwards."""
        with self.pool(policy, priorities) as pool:
            effort = self.busy(pool, 0, 16)
            time.sleep(2)
            urgent = self.busy(pool, 1, 6, rounds=300)
            self.assertEqual(urgent.wait(60), 0)
            progress = shares.results_of(effort, 100)[0]["progress"]
        start = progress[0][0]
        during = shares.at(progress, start + 7) - shares.at(progress, start + 4)
        after = shares.at(progress, start + 15) - shares.at(progress, start + 12)
        return during / 3, after / 3

    def test_a_best_effort_program_goes_slowly_beside_an_urgent_one_and_then_fast(self):
        during, after = self.kernels_beside(self.policy, (0, 3))
        self.assertGreater(after, 0)
        self.assertLess(during, after / 4)

    def test_programs_of_the_same_priority_are_not_slowed_down_for_each_other(self):
        during, after = self.kernels_beside(self.policy, (0, 0))
        if during <= after / 4 and os.getloadavg()[0] > 1.5 * os.cpu_count():
            self.skipTest("others keep the processors busy")
        self.assertGreater(during, after / 4)

    # They have the same processors, so each kernel of the urgent one takes longer beside the other's.
    def test_a_best_effort_program_that_slows_an_urgent_one_down_is_kept_apart(self):
        during, after = self.kernels_beside(self.orion, (0, 3))
        self.assertGreater(after, 0)
        self.assertLess(during, after / 4)

    def test_a_program_that_is_killed_while_it_is_kept_apart_is_gone(self):
        with self.pool(self.orion, (0, 3)) as pool:
            urgent = self.busy(pool, 1, 9, rounds=300)
            effort = self.busy(pool, 0, 30)
            time.sleep(5)
            effort.kill()
            effort.wait()
            self.assertEqual(pool.start(0, "guarded", str(self.bin / "reduction")).wait(60), 0)
            self.assertEqual(urgent.wait(60), 0)

    def test_programs_that_are_slowed_down_have_right_results(self):
        with self.pool(self.policy, (0, 3)) as pool:
            urgent = self.busy(pool, 1, 12, rounds=300)
            out, errors = pool.start(0, "guarded", str(self.bin / "reduction")).communicate(timeout=100)
            self.assertIsNone(urgent.poll(), "the other one was at work all the time")
            self.assertNotIn("error", errors.lower(), out)
            self.assertEqual(urgent.wait(60), 0)

    def test_a_program_that_is_killed_while_its_kernels_nap_is_gone(self):
        with self.pool(self.policy, (0, 3)) as pool:
            urgent = self.busy(pool, 1, 8, rounds=300)
            effort = self.busy(pool, 0, 30)
            time.sleep(4)
            effort.kill()
            effort.wait()
            started = time.monotonic()
            again = pool.start(0, "guarded", str(self.bin / "reduction"))
            self.assertEqual(again.wait(60), 0)
            self.assertLess(time.monotonic() - started, 60)
            self.assertEqual(urgent.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
