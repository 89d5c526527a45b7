#!/usr/bin/env python3
"""Sessions outlive their workers: killed at rest or replaced on request, they go on; killed in the
middle of something, their memory can be read back."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import harness

PROGRAM = "long_program"


class ReplaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM,
             "bin/examples/variables": "tests/chaos/variables",
             "bin/long_program": "tests/chaos/" + PROGRAM,
             "bin/examples/mapped_memory": "tests/chaos/mapped_memory"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def start(self, server):
        return harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")

    def replace(self, server, times):
        for _ in range(times):
            status, output = self.warpline(server, "replace")
            self.assertEqual(status, 0, output + server.log_tail())
            self.assertIn("replaced", output)
            time.sleep(0.2)  # So that each falls into some work of another kind.
        self.assertEqual(self.restarts(server), [times])

    def warpline(self, server, *arguments):
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline"), arguments[0],
             "--endpoint=" + server.endpoint, *arguments[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S,
            check=False)
        return run.returncode, run.stdout

    def restarts(self, server):
        return [int(session["restarts"])
                for session in harness.sessions(self.installation, server.endpoint)]

    def verdict(self, process, name=PROGRAM):
        status, stdout, stderr = harness.finish(process)
        lines = [line for line in stdout.splitlines() if line.startswith(name + ": ")]
        self.assertTrue(lines, "status %d\n%s\n%s" % (status, stdout, stderr))
        return status, lines[-1], stderr

    def test_replaced_on_request_it_goes_on_with_right_results(self):
        with harness.server(self.installation, "--warm_workers=1") as server:
            program = self.start(server)
            self.replace(server, 4)
            # Three streams and two events at least, made again.
            handles = re.search(r"^handles +(\d+)$", self.warpline(server, "stat")[1], re.M)
            self.assertGreaterEqual(int(handles[1]), 6)
            status, verdict, stderr = self.verdict(program)
            self.assertEqual(status, 0, verdict + stderr + server.log_tail())
            status, output = self.warpline(server, "replace", "99")
            self.assertEqual(status, 1, output)

    def test_who_is_not_the_operator_is_told_who_may(self):
        with harness.server(self.installation, "--admin_socket=none") as server:
            for verb in ("ps", "stat", "replace"):
                status, output = self.warpline(server, verb)
                self.assertEqual(status, 1, output)
                self.assertIn("operator of the server", output)
                self.assertIn("--admin_socket", output)

    def test_a_revoked_session_ends_and_others_go_on(self):
        with harness.server(self.installation) as server:
            programs = [self.start(server) for _ in range(3)]
            harness.wait_until(lambda: len(harness.sessions(self.installation, server.endpoint)) == 3,
                               "all are open")
            numbers = sorted(one["id"] for one in harness.sessions(self.installation, server.endpoint))
            status, output = self.warpline(server, "revoke")
            self.assertEqual(status, 2, output)
            status, output = self.warpline(server, "revoke", "999")
            self.assertEqual(status, 1, output)
            self.assertIn("no session 999", output)
            revoked = numbers[1]
            status, output = self.warpline(server, "revoke", str(revoked), "--reason=too loud")
            self.assertEqual(status, 0, output)
            self.assertIn("session %s: revoked" % revoked, output)
            harness.wait_until(lambda: len(harness.sessions(self.installation, server.endpoint)) == 2,
                               "it has ended")
            ended = [harness.finish(program) for program in programs]
            failed = [one for one in ended if one[0] != 0]
            self.assertEqual(len(failed), 1, ended)
            self.assertIn("ended the session: too loud", failed[0][1] + failed[0][2])

    def test_a_lease_shows_its_own_sessions(self):
        with harness.server(self.installation, "--admin_socket=none") as server:
            program = self.start(server)
            warpline = self.installation.root / "bin/warpline"
            status, output = self.warpline(server, "run", "--", str(warpline), "ps", "--json")
            self.assertEqual(status, 0, output)
            self.assertEqual(json.loads(output).get("sessions", []), [])
            self.verdict(program)

    def test_module_variables_survive_a_replacement_on_request(self):
        with harness.server(self.installation, "--warm_workers=1") as server:
            program = harness.start_held(self.installation, server.endpoint, "variables")
            self.replace(server, 3)
            status, verdict, stderr = self.verdict(program, "variables")
            self.assertEqual(status, 0, verdict + stderr + server.log_tail())

    def test_module_variables_are_lost_with_a_worker_that_dies(self):
        with harness.server(self.installation) as server:
            program = harness.start_held(self.installation, server.endpoint, "variables")
            for worker in harness.server_processes(server.pid, "warpline-worker"):
                os.kill(worker, signal.SIGKILL)
            # It ends by itself at the first call that meets the loss.
            program.wait(timeout=harness.GIVE_UP_S)
            status, verdict, stderr = self.verdict(program, "variables")
            self.assertEqual(status, 3, verdict + stderr + server.log_tail())
            self.assertRegex(stderr, "module variables|in flight")

    def test_what_it_mapped_itself_outlives_its_workers(self):
        with harness.server(self.installation, "--warm_workers=1") as server:
            program = harness.start_held(self.installation, server.endpoint, "mapped_memory")
            self.replace(server, 4)
            status, stdout, stderr = harness.finish(program)
            self.assertEqual(status, 0, stdout + stderr + server.log_tail())
            self.assertIn("mapped_memory: ok", stdout)

    def test_killed_at_random_it_resumes_or_reads_its_memory_back(self):
        kills = pathlib.Path(harness.ROOT / "tests/chaos/kills.py")
        environment = dict(os.environ, PYTHONPATH=str(harness.RUNFILES / "deploy/local"))
        run = subprocess.run(
            ["python3", str(kills), "--bundle=%s" % self.installation.root, "--device=cpu",
             "--kills=20", "--least_resumed=3", "--parallel=2", "--seconds=5", "--words=1024"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
        print(run.stdout)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, r"kills=(\d+) resumed=(\d+) errors=(\d+) failures=0")

    def kill_worker_of_open_session(self, server):
        """False once the session has failed."""
        listed = harness.sessions(self.installation, server.endpoint)
        if not listed or listed[0]["state"] in ("faulted", "ending", "ended"):
            return False
        if listed[0]["state"] == "open":
            try:
                os.kill(int(listed[0]["worker_pid"]), signal.SIGKILL)
            except ProcessLookupError:
                pass  # It has died of the former one.
        return True

    def test_lost_sessions_say_why(self):
        with harness.server(self.installation) as server:
            program = self.start(server)
            # Until it is hit in the middle of something. The worker through which the program reads
            # its memory back then is left alone.
            while self.kill_worker_of_open_session(server):
                time.sleep(0.13)
            status, verdict, stderr = self.verdict(program)
            self.assertEqual(status, 3, verdict + stderr + server.log_tail())
            self.assertRegex(stderr, "in flight|the next one died")


if __name__ == "__main__":
    unittest.main()
