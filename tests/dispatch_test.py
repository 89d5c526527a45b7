#!/usr/bin/env python3
"""Tenants with weights on one CPU device, end to end: a scheduler, a server, two programs that keep
the device busy with kernels of different lengths, and the server's books of who has had it."""
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


# Of the device, in seconds: each session has had so much when all are at work; a share is judged from so much of
# it on, and has come to what is due by so much at the latest.
AT_WORK_S, LEAST_S, MOST_S = 0.1, 2, 30
# They launch, copy, wait and free in several streams.
EXAMPLES = ("two_streams", "free_in_flight", "malloc_async", "pageable_copies", "host_functions",
            "events_and_memset", "reduction")


class DispatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/shares": "bench/cuda/shares",
             **{"bin/" + name: "examples/" + name for name in EXAMPLES}})
        cls.program = pathlib.Path(cls.installation.root) / "bin/shares"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def programs(self, pool, tier, counts=(1, 1), programs=(1, 1), streams=(1, 1), nice=(0, 0)):
        """Keeps the device busy with kernels of two lengths until the programs are ended: `counts`
        processes of each of `programs`, with `streams` each, that are `nice` steps nicer than this
        one. So much is always queued that a program which is not let run for a while still has
        kernels that wait."""
        started = []
        tiers = tier.split(",")
        for tenant, rounds in enumerate((400, 2400)):
            several = [sys.executable, "-c", shares.SEVERAL,
                       ",".join(tiers[i % len(tiers)] for i in range(counts[tenant]))] if counts[tenant] > 1 else []
            nicer = ["nice", "-n", str(nice[tenant])]
            started += [pool.start(tenant, tiers[0], *nicer, *several, str(self.program), "--held", "--blocks=4",
                                   "--rounds=%d" % rounds, "--kernel_us=%d" % (rounds * 5 / 4), "--batches=200",
                                   "--streams=%d" % streams[tenant],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True) for _ in range(programs[tenant])]
        return started

    @staticmethod
    def sessions(pool):
        """Seconds of the device that each session has had, with its tenant, as the server has it."""
        stat = json.loads(pool.warpline("stat", "--json", endpoint=pool.server.endpoint))
        return [(session["tenant"], sum(int(row.get("value", 0)) * 1e-6 for row in session["usage"]
                                        if row["name"] == "compute_us"))
                for session in stat.get("sessions", [])]

    def booked(self, pool):
        """The same by tenant."""
        sessions = self.sessions(pool)
        return [sum(had for tenant, had in sessions if tenant == "tenant%d" % number) for number in (0, 1)]

    def are_at_work(self, pool, count):
        had = [had for _, had in self.sessions(pool)]
        return len(had) == count and min(had) > AT_WORK_S

    def expect_share(self, weights, tier, is_right, *flags, slice_of_first=(), **several):
        """What the first tenant has of the device comes to what is due, once both are at work. It is
        judged by what has been booked, however long that takes."""
        tenants = shares.tenants_of(weights)
        if slice_of_first:
            tenants[0] = [*tenants[0], "--slices=" + slice_of_first[0]]
        with shares.Pool(local_server, self.installation, tenants,
                         ["--device=cpu", "--tiers=isolated,guarded", *flags],
                         {slice_of_first[0]: slice_of_first[1:]} if slice_of_first else None) as pool:
            started = self.programs(pool, tier, **several)
            try:
                sessions = sum(several.get("counts", (1, 1))) + sum(several.get("programs", (1, 1))) - 2
                harness.wait_until(lambda: self.are_at_work(pool, sessions), "all are at work")
                before = self.booked(pool)
                seen = []

                def comes_to_it():
                    had = [now - then for now, then in zip(self.booked(pool), before)]
                    if sum(had) < LEAST_S:
                        return False
                    seen.append(had[0] / sum(had))
                    return is_right(seen[-1]) or sum(had) > MOST_S

                harness.wait_until(comes_to_it, "the device is busy")
                self.assertTrue(is_right(seen[-1]), "the shares were %s" % seen)
                self.assertEqual([program.poll() for program in started], [None] * len(started))
            finally:
                for program in started:
                    os.killpg(program.pid, signal.SIGTERM)
                for program in started:
                    program.communicate()

    @staticmethod
    def about(due):
        return lambda share: abs(share - due) <= 0.05

    def test_equal_weights_have_equal_shares_of_an_isolated_device(self):
        self.expect_share((1, 1), "isolated", self.about(1 / 2))

    def test_weights_are_kept_on_an_isolated_device(self):
        self.expect_share((3, 1), "isolated", self.about(3 / 4))

    def test_streams_of_one_program_have_its_weight_together(self):
        self.expect_share((1, 1), "isolated", self.about(1 / 2), streams=(3, 1))

    def test_a_nicer_program_has_less(self):
        own = os.nice(0)
        if own > 14:
            self.skipTest("this process has the nice value %d, and programs can hardly be nicer" % own)
        # Each step is 0.8.
        self.expect_share((1, 1), "isolated", self.about(1 / (1 + 0.8 ** 5)), nice=(0, 5))

    def test_sessions_of_both_tiers_have_their_leases_weight_together(self):
        self.expect_share((1, 1), "isolated,guarded", self.about(1 / 2), counts=(2, 1))

    def test_programs_of_one_tenant_have_its_weight_together(self):
        self.expect_share((1, 1), "isolated", self.about(1 / 2), programs=(3, 1))

    def test_a_reservation_is_kept_beside_a_larger_weight(self):
        # By weight it would be a quarter.
        self.expect_share((1, 3), "isolated", lambda share: share >= 0.5, "--dispatch=reservation",
                          slice_of_first=("reserved", "--period_ms=50", "--budget_ms=30"))

    def test_programs_that_take_turns_give_right_results(self):
        flags = ["--device=cpu", "--tiers=isolated,guarded", "--dispatch_quantum_us=1000"]
        with shares.Pool(local_server, self.installation, shares.tenants_of((1, 1)), flags) as pool:
            busy, copies = [pool.start(0, "isolated", str(self.program), "--held", "--kernel_us=500", *arguments,
                                       stdin=subprocess.PIPE)
                            for arguments in (("--rounds=400", "--blocks=4"), ("--copy_kib=4096",))]
            for name in EXAMPLES:
                with self.subTest(name):
                    program = pool.start(1, "isolated", str(self.program.parent / name))
                    out, errors = program.communicate(timeout=harness.GIVE_UP_S)
                    self.assertEqual(program.returncode, 0, out + errors)
            for process in (busy, copies):
                self.assertIsNone(process.poll(), "it was at work all the time")
                self.assertGreater(shares.results_of(process, harness.GIVE_UP_S)[0]["progress"][-1][1], 0)

    def test_without_dispatch_there_are_no_books(self):
        with shares.Pool(local_server, self.installation, shares.tenants_of((3, 1)),
                         ["--device=cpu", "--dispatch=off"]) as pool:
            program = pool.start(0, "isolated", str(self.program), "--held", "--blocks=4", "--rounds=400",
                                 stdin=subprocess.PIPE)
            harness.await_held(program, "shares")
            self.assertEqual(self.booked(pool), [0, 0])
            self.assertGreater(shares.results_of(program, harness.GIVE_UP_S)[0]["progress"][-1][1], 0)


if __name__ == "__main__":
    unittest.main()
