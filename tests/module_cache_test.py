#!/usr/bin/env python3
"""Modules cross the network once: the server keeps what clients sent, across sessions and restarts."""
import os
import pathlib
import shutil
import socket
import tempfile
import unittest
import urllib.request

import harness

PROGRAM = "large_module"
# The module is larger than this, and everything else that the program sends smaller.
MODULE_BYTES = 16 << 10


class ModuleCacheTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/examples/" + PROGRAM: "bench/cuda/" + PROGRAM})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="modules-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def server(self, *flags, folder=None):
        return harness.server(self.installation, "--module_cache_dir=%s" % (folder or self.folder),
                              *flags)

    def sent_bytes(self, server):
        """What a run of the program sends; it checks its own result."""
        _, stderr = harness.run(self.installation, server.endpoint, PROGRAM, stat=True)
        return harness.counters(stderr)["bytes sent"]

    def files(self):
        return [path for path in self.folder.rglob("*")
                if path.is_file() and len(path.name) == 64]

    def wait_for_file(self):
        harness.wait_until(self.files, "a stored module")
        return self.files()[0]

    def test_the_second_session_sends_no_module_even_after_a_restart(self):
        with self.server() as server:
            self.assertGreater(self.sent_bytes(server), MODULE_BYTES)
            self.wait_for_file()
            self.assertLess(self.sent_bytes(server), MODULE_BYTES)
        with self.server() as server:
            self.assertLess(self.sent_bytes(server), MODULE_BYTES)

    def test_a_file_that_changed_is_dropped_and_sent_again(self):
        with self.server() as server:
            self.sent_bytes(server)
            file = self.wait_for_file()
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
            self.assertGreater(self.sent_bytes(server), MODULE_BYTES)
            self.assertIn("dropped a file that had changed", server.log_tail())
            harness.wait_until(lambda: self.files() and self.files()[0].read_bytes() != content,
                               "the module, stored again")
            self.assertLess(self.sent_bytes(server), MODULE_BYTES)

    def test_without_a_cache_or_with_a_full_one_programs_run_all_the_same(self):
        with self.server(folder="none") as server:
            for _ in range(2):
                self.assertGreater(self.sent_bytes(server), MODULE_BYTES)
        with self.server("--module_cache_bytes=20KiB") as server:
            for _ in range(2):
                self.assertGreater(self.sent_bytes(server), MODULE_BYTES)
            self.assertEqual(self.files(), [])
        # A folder that cannot be made.
        not_a_folder = self.folder / "file"
        not_a_folder.write_text("")
        with self.server(folder=not_a_folder / "modules") as server:
            self.assertIn("no module cache", server.log_tail())
            self.assertGreater(self.sent_bytes(server), MODULE_BYTES)

    def test_a_second_server_leaves_the_folder_alone(self):
        with self.server() as first, self.server() as second:
            self.assertIn("another process uses", second.log_tail())
            self.assertGreater(self.sent_bytes(second), MODULE_BYTES)
            self.assertEqual(self.files(), [])
            self.sent_bytes(first)
            self.wait_for_file()

    def test_metrics_count_what_the_cache_does(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self.server("--admin_listen=127.0.0.1:%d" % port) as server:
            self.sent_bytes(server)
            file = self.wait_for_file()
            self.sent_bytes(server)
            expected = {"hits_total": 1, "misses_total": 1, "stored_total": 1, "evictions_total": 0,
                        "modules": 1, "hit_bytes_total": os.path.getsize(file)}

            def counted():
                with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as page:
                    lines = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines()
                                 if not line.startswith("#"))
                return {name: float(lines["warpline_module_cache_" + name]) for name in expected}

            harness.wait_until(lambda: counted() == expected, lambda: "%s: %s" % (expected, counted()))


if __name__ == "__main__":
    unittest.main()
