#!/usr/bin/env python3
"""Sessions of the guarded tier: many of them in one process and one context."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest
from random import Random

import harness

WORKER = "warpline-worker"
PROGRAMS = ("vector_add", "histogram", "two_streams", "events_and_memset", "matmul_tiled",
            "malloc_async", "host_functions")
CHAOS = ("long_program", "unruly")
# What unruly sessions do; the last two wait for a kernel that does not end.
ROLES = ("stray", "misaligned", "shared", "trap", "assert", "deep", "calls", "code", "endless",
         "partial")
GUARDED = {"WARPLINE_TIER": "guarded"}


class GuardedTierTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + name: ("tests/chaos/" if name in CHAOS else "examples/") + name
             for name in PROGRAMS + CHAOS})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def server(self, *flags):
        return harness.local_server.Server(
            self.installation, ["--device=cpu", "--warm_workers=0", "--tiers=isolated,guarded",
                                "--noguarded_standby", *flags])

    def workers(self, server):
        return harness.server_processes(server.pid, WORKER)

    def run_warpline(self, server, *arguments):
        return subprocess.run([str(self.installation.root / "bin/warpline"), *arguments],
                              env=dict(os.environ, WARPLINE_ENDPOINT=server.endpoint),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def run_program(self, server, name, *flags):
        return self.run_warpline(server, "run", *flags, "--",
                                 str(self.installation.root / "bin/examples" / name))

    def start_long(self, server):
        """One that works until it is finished or killed."""
        return harness.start_held(self.installation, server.endpoint, "long_program", env=GUARDED)

    def test_programs_run_with_one_worker_for_all(self):
        with self.server() as server:
            for name in PROGRAMS:
                done = self.run_program(server, name, "--tier=guarded")
                self.assertEqual(done.returncode, 0, done.stdout + server.log_tail())
                self.assertIn(name + ": ok", done.stdout)
            self.assertEqual(len(self.workers(server)), 1)
            harness.wait_until(lambda: len(re.findall("worker closed session=", server.log())) == len(PROGRAMS),
                               "every session is closed")

    def test_many_at_a_time_have_right_results(self):
        with self.server() as server:
            running = [harness.start(self.installation, server.endpoint, "histogram", env=GUARDED)
                       for _ in range(12)]
            for process in running:
                status, stdout, stderr = harness.finish(process)
                self.assertEqual(status, 0, stdout + stderr + server.log_tail())
                self.assertIn("histogram: ok", stdout)
            self.assertEqual(len(self.workers(server)), 1)

    def test_ps_tells_the_tier(self):
        with self.server() as server:
            program = self.start_long(server)
            try:
                harness.wait_until(lambda: "guarded" in self.run_warpline(server, "ps").stdout,
                                   "a guarded session in the list")
            finally:
                program.kill()
                program.communicate()

    def test_a_client_that_is_killed_leaves_nothing_and_disturbs_nobody(self):
        with self.server() as server:
            victim, neighbour = self.start_long(server), self.start_long(server)
            self.assertEqual(len(self.workers(server)), 1)
            victim.kill()
            victim.communicate()
            harness.wait_until(lambda: "worker closed session=" in server.log(), "the session is closed")
            status, stdout, stderr = harness.finish(neighbour)
            self.assertEqual(status, 0, stdout + stderr)
            self.assertEqual(len(self.workers(server)), 1)

    def test_random_sessions_leave_nothing(self):
        """Sessions that run to their end, or whose clients are killed at some time, several at once."""
        random = Random(int(os.environ.get("SEED", "1")))
        total = int(os.environ.get("SESSIONS", "60"))
        with self.server() as server:
            harness.run(self.installation, server.endpoint, "vector_add", env=GUARDED)
            worker = self.workers(server)[0]
            harness.wait_until(lambda: "worker closed session=" in server.log(), "the first is closed")
            before = self.settled(worker)
            running, begun = [], 0
            while begun < total or running:
                while begun < total and len(running) < 8:
                    name = random.choice(("vector_add", "histogram", "malloc_async", "two_streams"))
                    process = harness.start(self.installation, server.endpoint, name, env=GUARDED)
                    running.append((process, name, random.choice((None, None, random.uniform(0, 0.3)))))
                    begun += 1
                process, name, kill_after = running.pop(random.randrange(len(running)))
                if kill_after is not None:
                    time.sleep(kill_after)
                    process.kill()
                    process.communicate()
                    continue
                status, stdout, stderr = harness.finish(process)
                self.assertEqual(status, 0, stdout + stderr)
                self.assertIn(name + ": ok", stdout)
            harness.wait_until(lambda: all(now <= then for now, then in zip(self.held_by(worker), before)),
                               lambda: "the worker holds what it held before: %s, %s" % (
                                   before, self.held_by(worker)))
            self.assertEqual(self.workers(server), [worker])
            self.assertEqual(self.stat(server).get("sessions", []), [])

    def settled(self, pid):
        """What it holds once the thread that has said so last has ended."""
        while True:
            held = self.held_by(pid)
            time.sleep(0.3)
            if self.held_by(pid) == held:
                return held

    @staticmethod
    def held_by(pid):
        """Threads, descriptors and mapped ranges of addresses at arenas' places of a process."""
        threads = len(os.listdir("/proc/%d/task" % pid))
        arenas = [line for line in pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines()
                  if 0x180000000000 - (1 << 32) <= int(line.split("-")[0], 16) < 0x500000000000]
        return threads, harness.descriptors(pid), len(arenas)

    def test_unruly_sessions_disturb_nobody(self):
        # A launch of hours that is in nobody's way ends as well, or the test would not.
        with self.server("--guarded_launch_seconds=20") as server:
            healthy = [self.start_long(server) for _ in range(4)]
            workers = self.workers(server)
            unruly = {role: harness.start(self.installation, server.endpoint, "unruly", "--role=" + role,
                                          "--seconds=2", "--rounds=1", env=GUARDED) for role in ROLES}
            for role in ROLES[:-2]:
                status, stdout, stderr = harness.finish(unruly[role])
                self.assertEqual(status, 0, role + stdout + stderr[-2000:])
                self.assertRegex(stdout, r"unruly: done rounds=[1-9]", role + stderr[-2000:])
            for role in ROLES[-2:]:
                subprocess.run(["pkill", "-KILL", "-P", str(unruly[role].pid)], check=False)
                unruly[role].kill()
                unruly[role].communicate()
            for process in healthy:
                status, stdout, stderr = harness.finish(process)
                self.assertEqual(status, 0, stdout + stderr + server.log_tail())
            self.assertEqual(self.workers(server), workers, server.log_tail())

    def test_a_launch_that_takes_longer_than_it_may_is_ended(self):
        with self.server("--guarded_launch_seconds=5") as server:
            healthy = self.start_long(server)
            workers = self.workers(server)
            unruly = harness.start(self.installation, server.endpoint, "unruly", "--role=endless",
                                   "--seconds=0", "--rounds=1", env=GUARDED)
            status, stdout, stderr = harness.finish(unruly)
            self.assertEqual(status, 0, stdout + stderr[-2000:])
            self.assertIn("unruly: done rounds=1 errors=1", stdout)
            self.assertIn("CUDA_ERROR_LAUNCH_TIMEOUT", stderr)
            self.assertIn("ran for longer than 5s", server.log())
            status, stdout, stderr = harness.finish(healthy)
            self.assertEqual(status, 0, stdout + stderr + server.log_tail())
            self.assertEqual(self.workers(server), workers)

    def test_sessions_without_work_in_flight_survive_their_worker(self):
        with self.server() as server:
            running = [self.start_long(server) for _ in range(3)]
            os.kill(self.workers(server)[0], signal.SIGKILL)
            ends = [harness.finish(process) for process in running]
            for status, stdout, stderr in ends:
                # Whoever had work in flight hears of it, and the program reads the rest back;
                # nobody has a wrong result.
                self.assertRegex(stdout, "long_program: (ok|LOST)", stderr)
                self.assertIn(status, (0, 3))
            done = self.run_program(server, "vector_add", "--tier=guarded")
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_standby_takes_over_and_is_followed_by_another(self):
        ready = r"guarded standby is ready gpu=0 worker_pid=(\d+)"
        with self.server("--guarded_standby") as server:
            running = [self.start_long(server) for _ in range(2)]
            harness.wait_until(lambda: re.search(ready, server.log()), "a standby")
            standby = int(re.search(ready, server.log())[1])
            current, = (pid for pid in self.workers(server) if pid != standby)
            os.kill(current, signal.SIGKILL)
            harness.wait_until(lambda: "guarded sessions recovered" in server.log(), "the recovery")
            print(re.search("guarded sessions recovered.*", server.log())[0])
            self.assertRegex(server.log(), "guarded standby takes over gpu=0 worker_pid=%d former_pid=%d"
                             % (standby, current))
            recovered = re.search(r"recovered gpu=0 lost_pid=(\d+) went_on=(\d+) lost=(\d+) left=(\d+) ",
                                  server.log())
            self.assertEqual(int(recovered[1]), current)
            self.assertEqual(sum(int(recovered[i]) for i in (2, 3, 4)), 2)
            done = self.run_program(server, "vector_add", "--tier=guarded")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(server.log(), r'opened session=\d+ gpu=0 pid=%d .*program="vector_add"' % standby)
            # Those that were at rest may be none.
            running.append(self.start_long(server))
            harness.wait_until(lambda: len(re.findall(ready, server.log())) == 2, "the next standby")
            for process in running:
                status, stdout, stderr = harness.finish(process)
                self.assertIn(status, (0, 3), stdout + stderr)

    def test_a_quota_includes_sinks_and_variables_and_the_books_end_at_zero(self):
        flags = ("--guarded_memory=256MiB", "--guarded_context_memory=1GiB")
        with self.server(*flags, "--guarded_standby") as both, self.server(*flags) as one:
            capacities = [self.stat(server)["devices"][0]["capacity_bytes"] for server in (both, one)]
            self.assertEqual(int(capacities[1]) - int(capacities[0]), 1 << 30, "a standby's context")
            program = self.start_long(one)
            try:
                session, = self.stat(one)["sessions"]
                self.assertEqual(int(session["memory_bytes"]), (214 + 26) << 20)
                self.assertEqual(int(self.stat(one)["devices"][0]["granted_bytes"]), (214 + 26) << 20)
            finally:
                program.kill()
                program.communicate()
            harness.wait_until(
                lambda: int(self.stat(one)["devices"][0]["granted_bytes"]) == 0, "empty books")

    def stat(self, server):
        return json.loads(self.run_warpline(server, "stat", "--json").stdout)

    def test_what_the_tier_cannot_have_is_refused_with_a_reason(self):
        with self.server() as server:
            done = self.run_program(server, "vector_add", "--tier=guarded", "--guard=fence")
            self.assertEqual(done.returncode, 2)
            self.assertIn("isolated tier", done.stdout)
            done = self.run_program(server, "vector_add", "--tier=none")
            self.assertEqual(done.returncode, 2)
            self.assertIn("expected isolated, guarded or auto", done.stdout)
        with self.server("--tiers=isolated") as server:
            done = self.run_program(server, "vector_add", "--tier=guarded")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("isolated", done.stdout)


if __name__ == "__main__":
    unittest.main()
