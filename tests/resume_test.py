#!/usr/bin/env python3
"""Programs whose connections break or move in the middle of their work."""
import os
import pathlib
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
# A session moves once its program has settled.
LONG = "--rounds=60"
RELAY = harness.RUNFILES / "transport/testing/delay_relay_main"


class ResumeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(PROGRAMS)

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
            cuts=30, device="cpu", cut_every_ms="200-900", jobs=2)
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)
        self.assertGreaterEqual(counts["cuts"], 30)
        # The others hit a program at its opening or its end.
        self.assertGreaterEqual(counts["resumes"], 10)

    def test_a_session_of_this_host_goes_through_shared_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/socket"
            with harness.server(self.installation, "--listen=127.0.0.1:0,unix:" + path) as server:
                # From its opening on, or, at the path of a socket, once it is open.
                for endpoint, transfers in ((server.endpoint, 0), ("unix:" + path, 1)):
                    _, stderr = harness.run(self.installation, endpoint, "free_in_flight", LONG,
                                            stat=True)
                    self.assertIn("transfers: %d (now shm)" % transfers, stderr)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight", LONG,
                                        stat=True, env={"WARPLINE_TRANSFER": "0"})
                self.assertEqual(harness.counters(stderr)["transfers"], 0)

    def test_cut_shared_memory_loses_and_repeats_nothing(self):
        with harness.server(self.installation) as server:
            program = harness.start(self.installation, server.endpoint, "free_in_flight",
                                    "--rounds=400", stat=True)
            done = 0
            while program.poll() is None:
                done += shm_cuts.cut(program.pid)
                time.sleep(0.2)
            status, stdout, stderr = harness.finish(program)
            self.assertEqual(status, 0, stdout + stderr)
            self.assertIn("free_in_flight: ok", stdout)
            self.assertGreaterEqual(done, 3)
            self.assertGreaterEqual(harness.counters(stderr)["resumes"], done - 1)

    def test_loopback_session_moves_to_the_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/socket"
            # The last of a flag counts: both addresses.
            with harness.server(self.installation, "--listen=127.0.0.1:0,unix:" + path,
                                "--shm=false") as server:
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight", LONG,
                                        stat=True)
                self.assertEqual(harness.counters(stderr)["transfers"], 1)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight", LONG,
                                        stat=True, env={"WARPLINE_TRANSFER": "0"})
                self.assertEqual(harness.counters(stderr)["transfers"], 0)
                # Nobody listens there any more: the session stays where it is.
                os.unlink(path)
                _, stderr = harness.run(self.installation, server.endpoint, "free_in_flight", LONG,
                                        stat=True)
                self.assertEqual(harness.counters(stderr)["transfers"], 0)

    def test_client_gives_up_on_a_server_that_is_gone(self):
        with harness.server(self.installation) as server:
            client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   "--rounds=100000", env={"WARPLINE_RESUME_SECONDS": "1"})
            harness.wait_until(lambda: harness.server_processes(server.pid, "warpline-worker"),
                               "a worker")
            time.sleep(0.3)
            os.kill(server.pid, signal.SIGKILL)
            start = time.monotonic()
            status, stdout, stderr = harness.finish(client, 30)
            self.assertNotEqual(status, 0)
            self.assertIn("could not be resumed", stderr)
            self.assertLess(time.monotonic() - start, 15)

    def test_client_of_a_server_that_was_started_again_fails_at_once(self):
        with harness.server(self.installation) as server:
            client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   "--rounds=100000", env={"WARPLINE_RESUME_SECONDS": "60"})
            harness.wait_until(lambda: harness.server_processes(server.pid, "warpline-worker"),
                               "a worker")
            time.sleep(0.3)
            os.kill(server.pid, signal.SIGKILL)
            with harness.server(self.installation, "--listen=" + server.endpoint):
                start = time.monotonic()
                status, _, stderr = harness.finish(client, 60)
                self.assertNotEqual(status, 0)
                self.assertIn("the session cannot be resumed", stderr)
                self.assertLess(time.monotonic() - start, 15)


if __name__ == "__main__":
    unittest.main()
