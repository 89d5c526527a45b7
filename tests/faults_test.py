#!/usr/bin/env python3
"""What dies takes nothing else with it: workers, keepers, clients, servers."""
import os
import signal
import time
import unittest

import harness


class FaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(["free_in_flight", "vector_add", "launches"])

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def workers(self, server):
        return harness.server_processes(server.pid, "warpline-worker")

    def test_killed_worker_is_a_cuda_error_and_its_neighbour_finishes(self):
        with harness.server(self.installation) as server:
            victim = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   "--rounds=100000")
            harness.wait_until(lambda: self.workers(server), "the victim's worker")
            worker = self.workers(server)[0]
            neighbour = harness.start(self.installation, server.endpoint, "free_in_flight")
            harness.wait_until(lambda: len(self.workers(server)) == 2, "the neighbour's worker")
            neighbours = [pid for pid in self.workers(server) if pid != worker]
            harness.await_work(self.installation, server.endpoint, victim)
            # A worker that is hit between two commands is replaced, and the program goes on.
            while victim.poll() is None:
                for pid in self.workers(server):
                    if pid not in neighbours:
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.1)
            status, stdout, _ = harness.finish(victim)
            self.assertNotEqual(status, 0)
            self.assertIn("FAILED", stdout)
            status, stdout, stderr = harness.finish(neighbour)
            self.assertEqual(status, 0, stdout + stderr)
            harness.run(self.installation, server.endpoint, "vector_add")

    def test_killed_client_leaves_no_worker_and_no_descriptor(self):
        with harness.server(self.installation) as server:
            harness.run(self.installation, server.endpoint, "vector_add")
            harness.wait_until(lambda: not self.workers(server), "the first session's end")
            before = harness.descriptors(server.pid)
            for _ in range(5):
                client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                       "--rounds=100000")
                harness.wait_until(lambda: self.workers(server), "a worker")
                client.kill()
                harness.finish(client)
            harness.wait_until(lambda: not self.workers(server), "the workers' end")
            harness.wait_until(lambda: harness.descriptors(server.pid) <= before + 4,
                               "the descriptors' return")

    def test_killed_keeper_is_replaced(self):
        with harness.server(self.installation) as server:
            harness.run(self.installation, server.endpoint, "vector_add")
            keeper = harness.server_processes(server.pid, "warpline-keeper")[0]
            os.kill(keeper, signal.SIGKILL)
            harness.wait_until(
                lambda: keeper not in harness.server_processes(server.pid, "warpline-keeper") and
                harness.server_processes(server.pid, "warpline-keeper"), "a new keeper")
            harness.run(self.installation, server.endpoint, "vector_add")

    def test_killed_supervisor_is_followed_by_another(self):
        with harness.server(self.installation) as server:
            harness.run(self.installation, server.endpoint, "vector_add")
            supervisor = harness.children(server.pid, "warpline-supervisor")[0]
            os.kill(supervisor, signal.SIGKILL)
            harness.wait_until(lambda: harness.server_processes(server.pid, "warpline-keeper"),
                               "another supervisor with a keeper")
            harness.run(self.installation, server.endpoint, "vector_add")
            self.assertNotIn(supervisor, harness.children(server.pid, "warpline-supervisor"))

    def test_dead_server_is_an_error_and_no_hang(self):
        with harness.server(self.installation) as server:
            client = harness.start(self.installation, server.endpoint, "free_in_flight",
                                   "--rounds=100000", env={"WARPLINE_RESUME_SECONDS": "2"})
            harness.await_work(self.installation, server.endpoint, client)
            os.kill(server.pid, signal.SIGKILL)
            status, stdout, _ = harness.finish(client)
            self.assertNotEqual(status, 0)
            self.assertIn("FAILED", stdout)

    def test_missing_endpoints_say_what_to_do(self):
        client = harness.start(self.installation, "127.0.0.1:9", "vector_add",
                               env={"WARPLINE_CONNECT_TIMEOUT": "1"})
        status, stdout, stderr = harness.finish(client)
        self.assertNotEqual(status, 0)
        self.assertIn("127.0.0.1:9", stderr)
        client = harness.start(self.installation, "", "vector_add")
        status, stdout, stderr = harness.finish(client)
        self.assertNotEqual(status, 0)
        self.assertIn("WARPLINE_ENDPOINT", stderr)


if __name__ == "__main__":
    unittest.main()
