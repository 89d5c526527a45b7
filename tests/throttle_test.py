#!/usr/bin/env python3
"""A policy slows down kernels of the guarded tier, or keeps them apart from urgent ones, end to end on
the CPU device: a scheduler, a server with the policy, a best-effort program and an urgent one.

Nothing is measured by a clock: how far one program has come is told by how far the other has."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import harness
import local_server

sys.path.insert(0, str(harness.RUNFILES / "bench"))
import shares  # pylint: disable=wrong-import-position

BUILT = harness.RUNFILES / "policy/examples"
APART = harness.RUNFILES / "tests/policies/apart.bpf.o"
EFFORT, URGENT = 0, 1
# A thread of a kernel that naps does so in each iteration, and the compiler makes one iteration of four rounds. At the
# throttle's 200 us such a kernel takes more than harness.GIVE_UP_S.
SLOW_ROUNDS = 6_000_000
# So many kernels are always queued that the urgent program is at work without a pause.
URGENT_ROUNDS, URGENT_QUEUED = 60_000, 200
# While the other program stands still, the urgent one does the work of so many of its kernels.
STEPS = 4


class ThrottleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/shares": "bench/cuda/shares", "bin/reduction": "examples/reduction"})
        cls.bin = pathlib.Path(cls.installation.root) / "bin"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def pool(self, policy, priorities=(0, 3)):
        tenants = [["--priority=%d" % priority] for priority in priorities]
        return shares.Pool(local_server, self.installation, tenants,
                           ["--device=cpu", "--tiers=isolated,guarded", "--dispatch=%s" % policy])

    def busy(self, pool, tenant):
        """A program that is at work until it is let go."""
        rounds, queued = (SLOW_ROUNDS, 1) if tenant == EFFORT else (URGENT_ROUNDS, URGENT_QUEUED)
        # With this length each kernel is a batch.
        program = pool.start(tenant, "guarded", str(self.bin / "shares"), "--held", "--rounds=%d" % rounds,
                             "--kernel_us=1000", "--batches=%d" % queued, "--blocks=1",
                             stdin=subprocess.PIPE, start_new_session=True)
        harness.await_held(program, "shares")
        return program

    @staticmethod
    def kernels(pool, tenant):
        """How many the tenant's program has launched: a few more than are complete."""
        stat = json.loads(pool.warpline("stat", "--json", endpoint=pool.server.endpoint))
        return sum(int(row.get("value", 0)) for session in stat.get("sessions", [])
                   if session["tenant"] == "tenant%d" % tenant
                   for row in session["usage"] if row["name"] == "compute")

    def await_more_kernels(self, pool, tenant, count):
        before = self.kernels(pool, tenant)
        harness.wait_until(lambda: self.kernels(pool, tenant) >= before + count, "tenant%d goes on" % tenant)

    def await_standstill(self, pool):
        """Until the best-effort program has launched nothing while the urgent one did the work of several of its
        kernels."""
        since = [-1, 0]

        def stands_still():
            effort, urgent = self.kernels(pool, EFFORT), self.kernels(pool, URGENT)
            if effort != since[0]:
                since[:] = effort, urgent
            return urgent - since[1] >= STEPS * SLOW_ROUNDS / URGENT_ROUNDS

        harness.wait_until(stands_still, "the best-effort program stands still")

    def let_go(self, program):
        self.assertIsNone(program.poll(), "it was at work all the time")
        self.assertGreater(shares.results_of(program, harness.GIVE_UP_S)[0]["progress"][-1][1], 0)

    def expect_standstill_beside_an_urgent_one(self, policy):
        with self.pool(policy) as pool:
            effort, urgent = self.busy(pool, EFFORT), self.busy(pool, URGENT)
            self.await_standstill(pool)
            self.let_go(urgent)
            self.await_more_kernels(pool, EFFORT, 2)
            self.let_go(effort)

    def test_a_best_effort_program_goes_slowly_beside_an_urgent_one_and_then_fast(self):
        self.expect_standstill_beside_an_urgent_one(BUILT / "throttle.bpf.o")

    def test_a_best_effort_program_that_is_kept_apart_goes_on_once_it_is_alone(self):
        self.expect_standstill_beside_an_urgent_one(APART)

    def test_programs_of_the_same_priority_are_not_slowed_down_for_each_other(self):
        with self.pool(BUILT / "throttle.bpf.o", (0, 0)) as pool:
            programs = [self.busy(pool, EFFORT), self.busy(pool, URGENT)]
            self.await_more_kernels(pool, EFFORT, 3)
            for program in programs:
                self.let_go(program)

    # The policy measures what it costs the urgent program that the other one goes on, apart and beside in turns.
    # server/gpu_server/policies/examples_effect_test.cc has the verdicts.
    def test_orion_tries_a_best_effort_program_apart_from_the_urgent_one_and_beside_it(self):
        with self.pool(BUILT / "orion.bpf.o") as pool:
            programs = [self.busy(pool, EFFORT), self.busy(pool, URGENT)]
            harness.wait_until(lambda: len(self.kept_apart(pool)) > 1, "it is kept apart, twice")
            for slice_name, other in self.kept_apart(pool):
                self.assertIn("tenant0", slice_name)
                self.assertIn("tenant1", other)
            for program in reversed(programs):
                self.let_go(program)

    def kept_apart(self, pool):
        """Who was, and from whom, each time that is over."""
        path = pathlib.Path(self.installation.root) / "trace.json"
        pool.warpline("trace", "--seconds=0", "-o", str(path), endpoint=pool.server.endpoint)
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        return [(e["args"]["slice"], e["args"]["for"]) for e in events
                if e.get("cat") == "limit" and e["args"]["reason"] == "kept_apart"]

    def kill_while_it_stands_still(self, pool):
        """Returns the urgent program."""
        effort, urgent = self.busy(pool, EFFORT), self.busy(pool, URGENT)
        self.await_standstill(pool)
        os.killpg(effort.pid, signal.SIGKILL)
        effort.communicate()
        return urgent

    def expect_right_results_beside(self, urgent, pool):
        program = pool.start(EFFORT, "guarded", str(self.bin / "reduction"))
        out, errors = program.communicate(timeout=harness.GIVE_UP_S)
        self.assertIn("reduction: ok", out, errors)
        self.assertNotIn("error", errors.lower(), out)
        self.let_go(urgent)

    def test_a_program_that_is_killed_while_it_is_kept_apart_is_gone(self):
        with self.pool(APART) as pool:
            urgent = self.kill_while_it_stands_still(pool)
            # With this one the next would have to wait for the urgent program's end.
            pool.warpline("policy", "swap", "band", endpoint=pool.server.endpoint)
            self.expect_right_results_beside(urgent, pool)

    def test_programs_that_are_slowed_down_have_right_results(self):
        with self.pool(BUILT / "throttle.bpf.o") as pool:
            self.expect_right_results_beside(self.busy(pool, URGENT), pool)

    def test_a_program_that_is_killed_while_its_kernels_nap_is_gone(self):
        with self.pool(BUILT / "throttle.bpf.o") as pool:
            self.expect_right_results_beside(self.kill_while_it_stands_still(pool), pool)


if __name__ == "__main__":
    unittest.main()
