#!/usr/bin/env python3
"""Best-effort work makes way, end to end on the CPU device: a scheduler, a server with a policy that
kills what is in the way, a program whose kernel never ends, and an urgent one."""
import json
import pathlib
import sys
import tempfile
import time
import unittest

import harness
import local_server

sys.path.insert(0, str(harness.RUNFILES / "bench"))
import make_way  # pylint: disable=wrong-import-position
from pool import Pool  # pylint: disable=wrong-import-position

# Of the guarded tier: a kernel that takes long enough to be seen stuck, since on the CPU device both run.
LONG_ROUNDS = 3000000
EFFORT_OPTIONS = ("--blocks=1",)


class BestEffortTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/make_way": "bench/cuda/make_way"})
        cls.program = str(pathlib.Path(cls.installation.root) / "bin/make_way")
        cls.policy = harness.RUNFILES / "policy/examples/reef.bpf.o"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def pool(self, best_effort, *flags):
        slices, tenants = make_way.tenants(best_effort)
        return Pool(local_server, self.installation, tenants,
                    ["--device=cpu", "--tiers=isolated,guarded", "--dispatch=%s" % self.policy, *flags], slices)

    def urgent(self, pool, tier, rounds=100):
        return make_way.Urgent(pool, tier, self.program, "--blocks=1", "--rounds=%d" % rounds)

    def effort(self, pool, tier):
        effort = make_way.Effort(pool, tier, self.program, *EFFORT_OPTIONS)
        time.sleep(make_way.HEAD_START_S)
        return effort

    def stat(self, pool):
        return json.loads(pool.warpline("stat", "--json", endpoint=pool.server.endpoint))

    def expect_books_at_zero(self, pool):
        harness.wait_until(lambda: not self.stat(pool).get("sessions"), "the sessions are over")
        harness.wait_until(lambda: int(self.stat(pool)["devices"][0].get("granted_bytes", 0)) == 0,
                           lambda: "empty books: %s" % self.stat(pool))

    @staticmethod
    def requested_until_it_ends(urgent, effort):
        """How the other program ends. A request that is over too soon has not waited for it."""
        ends = []

        def ended():
            urgent.request_us()
            ends.append(effort.end(1))
            return ends[-1] != make_way.RUNS

        harness.wait_until(ended, "the program with the endless kernel ends")
        return ends[-1]

    def expect_killed(self, tier, rounds):
        with tempfile.TemporaryDirectory(prefix="audit-") as audit, \
                self.pool(True, "--audit_dir=" + audit) as pool:
            urgent = self.urgent(pool, tier, rounds)
            effort = self.effort(pool, tier)
            self.assertEqual(effort.end(0), make_way.RUNS, "its kernel runs until it is killed")
            error, _, said = self.requested_until_it_ends(urgent, effort)
            self.assertEqual(error, "cudaErrorLaunchTimeout", said)
            self.assertRegex(said, r"ended by policy \S+: best-effort work held gpu 0 for \S+ while more "
                                   "urgent work waited")
            self.assertNotIn("tenant1", said, "it does not hear who is more urgent")
            # Whoever comes next finds nothing of it.
            urgent.request_us()
            urgent.close()
            self.expect_books_at_zero(pool)
            records = [json.loads(line) for path in pathlib.Path(audit).glob("*") if path.is_file()
                       for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
            killed = [record for record in records if record.get("event") == "session.killed"]
            self.assertEqual([(record["tenant"], record["urgent"]) for record in killed], [("tenant0", "tenant1")])

    def test_an_endless_kernel_of_an_isolated_session_is_killed_for_an_urgent_request(self):
        self.expect_killed("isolated", rounds=100)

    def test_an_endless_kernel_of_a_guarded_session_is_killed_for_an_urgent_request(self):
        self.expect_killed("guarded", rounds=LONG_ROUNDS)

    def test_a_tenant_whose_slice_is_not_best_effort_is_never_killed(self):
        for tier, rounds in (("isolated", 100), ("guarded", LONG_ROUNDS)):
            with self.subTest(tier=tier), self.pool(False) as pool:
                urgent = self.urgent(pool, tier, rounds)
                effort = self.effort(pool, tier)
                # It has its share all the same.
                for _ in range(5):
                    urgent.request_us()
                self.assertEqual(effort.end(0.5), make_way.RUNS)
                effort.kill()
                urgent.close()
                self.expect_books_at_zero(pool)

    def test_a_lease_keeps_what_its_slice_was_when_it_was_made(self):
        with self.pool(False) as pool:
            urgent = self.urgent(pool, "isolated")
            effort = self.effort(pool, "isolated")
            pool.warpline("slice", "set", "effort", "--best_effort")
            urgent.request_us()
            self.assertEqual(effort.end(0.5), make_way.RUNS)
            effort.kill()
            self.expect_books_at_zero_but_for(pool, "tenant1")
            effort = self.effort(pool, "isolated")
            self.assertEqual(self.requested_until_it_ends(urgent, effort).error, "cudaErrorLaunchTimeout")
            urgent.close()
            self.expect_books_at_zero(pool)

    def expect_books_at_zero_but_for(self, pool, tenant):
        harness.wait_until(lambda: {s["tenant"] for s in self.stat(pool).get("sessions", [])} == {tenant},
                           "the other sessions are over")


if __name__ == "__main__":
    unittest.main()
