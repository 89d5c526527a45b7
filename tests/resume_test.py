#!/usr/bin/env python3
"""Programs whose connections break or move in the middle of their work."""
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "chaos"))
import cuts  # noqa: E402  (found by the path above)
import shm_cuts  # noqa: E402

PROGRAMS = ["free_in_flight", "two_streams", "allocations", "vector_add"]
HELD = "long_program"
RELAY = harness.RUNFILES / "transport/testing/delay_relay_main"


class ResumeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {**{"bin/examples/" + name: "examples/" + name for name in PROGRAMS},
             "bin/examples/" + HELD: "tests/chaos/" + HELD})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def command(self, name, *arguments):
        return [str(self.installation.root / "bin/examples" / name), *arguments]

    def test_cut_connections_lose_and_repeat_nothing(self):
        counts, failures, left = cuts.run(
            self.installation, RELAY,
            [self.command("free_in_flight"), self.command("two_streams"),
             self.command("allocations", "--gib=1")],
            cuts=30, resumes=10, device="cpu", cut_every_ms="200-900", jobs=2)
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)

    def run_held(self, server, endpoint, moves, **env):
        """What a program says that goes on until its session has moved so often. Returns its stderr."""
        # A session that goes on in another way comes back to the server, which says one or the other.
        returns = lambda: len(re.findall(r" (?:moved|resumed) session=", server.log()))
        before = returns()
        program = harness.start_held(self.installation, endpoint, HELD, stat=True, env=env)
        harness.wait_until(lambda: returns() == before + moves, "it moves")
        status, stdout, stderr = harness.finish(program)
        self.assertEqual(status, 0, stdout + stderr)
        return stderr

    def test_a_session_of_this_host_goes_through_shared_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/socket"
            with harness.server(self.installation, "--listen=127.0.0.1:0,unix:" + path) as server:
                # From its opening on, or, at the path of a socket, once it is open.
                for endpoint, transfers in ((server.endpoint, 0), ("unix:" + path, 1)):
                    stderr = self.run_held(server, endpoint, transfers)
                    self.assertIn("transfers: %d (now shm)" % transfers, stderr)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight",
                                        stat=True, env={"WARPLINE_TRANSFER": "0"})
                self.assertEqual(harness.counters(stderr)["transfers"], 0)

    def test_cut_shared_memory_loses_and_repeats_nothing(self):
        with harness.server(self.installation) as server:
            program = harness.start_held(self.installation, server.endpoint, HELD, stat=True)
            done = 0
            while done < 10 and program.poll() is None:
                done += shm_cuts.cut(program.pid)
                time.sleep(0.2)
            status, stdout, stderr = harness.finish(program)
            self.assertEqual(status, 0, stdout + stderr)
            self.assertIn(HELD + ": ok", stdout)
            # The last one may have met its end.
            self.assertGreaterEqual(harness.counters(stderr)["resumes"], done - 1)

    def test_loopback_session_moves_to_the_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/socket"
            # The last of a flag counts: both addresses.
            with harness.server(self.installation, "--listen=127.0.0.1:0,unix:" + path,
                                "--shm=false") as server:
                stderr = self.run_held(server, server.endpoint, 1)
                self.assertEqual(harness.counters(stderr)["transfers"], 1)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight",
                                        stat=True, env={"WARPLINE_TRANSFER": "0"})
                self.assertEqual(harness.counters(stderr)["transfers"], 0)
                # Nobody listens there any more: the session stays where it is.
                os.unlink(path)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight",
                                        "--rounds=60", stat=True)
                self.assertEqual(harness.counters(stderr)["transfers"], 0)

    def test_client_gives_up_on_a_server_that_is_gone(self):
        with harness.server(self.installation) as server:
            client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   "--rounds=100000", env={"WARPLINE_RESUME_SECONDS": "1"})
            harness.await_work(self.installation, server.endpoint, client)
            os.kill(server.pid, signal.SIGKILL)
            status, stdout, stderr = harness.finish(client)
            self.assertNotEqual(status, 0)
            self.assertIn("could not be resumed", stderr)

    def test_client_of_a_server_that_was_started_again_fails_at_once(self):
        with harness.server(self.installation) as server:
            client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   # It would go on trying for longer than this test waits.
                                   "--rounds=100000", env={"WARPLINE_RESUME_SECONDS": "3600"})
            harness.await_work(self.installation, server.endpoint, client)
            os.kill(server.pid, signal.SIGKILL)
            with harness.server(self.installation, "--listen=" + server.endpoint):
                status, _, stderr = harness.finish(client)
                self.assertNotEqual(status, 0)
                self.assertIn("the session cannot be resumed", stderr)


if __name__ == "__main__":
    unittest.main()
