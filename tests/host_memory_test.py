#!/usr/bin/env python3
"""Host memory that sessions share with their clients: its limit, and where operators see its use."""
import os
import socket
import subprocess
import unittest
import urllib.request

import harness

# Page-locked in one piece by the program.
BYTES = 4 << 20


class HostMemoryTest(unittest.TestCase):
    def setUp(self):
        self.installation = harness.install(["host_functions"])
        self.addCleanup(self.installation.close)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def server(self, *flags):
        return harness.server(self.installation, "--admin_listen=127.0.0.1:%d" % self.port, *flags)

    def start(self, server, rounds):
        return harness.start(self.installation, server.endpoint, "host_functions",
                             "--n=%d" % (BYTES // 4), "--rounds=%d" % rounds)

    def metric(self, name):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port) as page:
            for line in page.read().decode().splitlines():
                if line.startswith("warpline_" + name + " "):
                    return float(line.rsplit(" ", 1)[1])
        raise AssertionError("no metric " + name)

    def stat(self, server):
        ended = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "stat", "--endpoint=" + server.endpoint],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
        self.assertEqual(0, ended.returncode, ended.stderr)
        return ended.stdout

    def test_use_and_limit_are_shown(self):
        with self.server("--host_memory=16MiB") as server:
            self.assertEqual(16 << 20, self.metric("host_memory_limit_bytes"))
            self.assertEqual(0, self.metric("host_memory_bytes"))
            process = self.start(server, 1000000)
            try:
                harness.wait_until(lambda: self.metric("host_memory_bytes") >= BYTES, "its memory")
                self.assertRegex(self.stat(server),
                                 r"host_memory +[4-9]\.\d MiB shared with clients, of 16\.0 MiB")
            finally:
                process.kill()
                process.communicate()
            harness.wait_until(lambda: self.metric("host_memory_bytes") == 0, "its memory back")

    def test_beyond_the_limit_there_is_no_memory(self):
        with self.server("--host_memory=3MiB") as server:
            status, stdout, stderr = harness.finish(self.start(server, 1))
            self.assertNotEqual(0, status)
            self.assertIn("cudaErrorMemoryAllocation", stdout + stderr)
            self.assertEqual(stderr.count("memory was refused: the host memory of its "
                                          "tenant has no room for 4194304 bytes"), 1, stderr)
            harness.wait_until(lambda: self.metric("sessions") == 0, "its end")
            # Others are none the worse for it.
            harness.run(self.installation, server.endpoint, "host_functions", "--n=1000")

    def test_half_of_the_hosts_memory_unless_told_otherwise(self):
        with self.server() as server:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
            self.assertAlmostEqual(total / 2, self.metric("host_memory_limit_bytes"),
                                   delta=os.sysconf("SC_PAGESIZE"))
            self.assertIn("host_memory ", self.stat(server))


if __name__ == "__main__":
    unittest.main()
