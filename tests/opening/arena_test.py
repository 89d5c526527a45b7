#!/usr/bin/env python3
"""Programs whose arena the server's worker cannot have, because something else lies there."""
import os
import pathlib
import sys
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

# Where clients place arenas, the preferred one first (client_stub/session/handshake/arena_reservation.cc).
PLACES = ["0x300000000000", "0x200000000000", "0x400000000000", "0x180000000000",
          "0x7e8000000000", "0x7e9000000000", "0x7ea000000000", "0x7ec000000000"]
MOST_REFUSALS = 6


class ArenaTest(unittest.TestCase):
    def serve(self, *flags, obstacles=()):
        installation = harness.install(["vector_add"])
        self.addCleanup(installation.close)
        if obstacles:
            worker = installation.root / "bin/warpline-worker"
            # The file itself is Bazel's.
            worker.rename(worker.with_name("worker"))
            worker.write_text("#!/bin/sh\nexport LD_PRELOAD=%s OBSTACLES=%s\nexec %s\n" % (
                harness.RUNFILES / "tests/opening/libobstacle.so", ",".join(obstacles),
                worker.with_name("worker")))
            worker.chmod(0o755)
        server = harness.server(installation, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return installation, server

    def expect_refusals(self, server, text, count):
        """The line of a session comes when its worker is gone, which may be after its client."""
        harness.wait_until(lambda: server.log_tail(1000).count(text) >= count, text)
        self.assertEqual(server.log_tail(1000).count(text), count, server.log_tail(1000))

    def test_another_arena_is_offered_at_once(self):
        installation, server = self.serve(obstacles=PLACES[:2])
        harness.run(installation, server.endpoint, "vector_add")
        self.expect_refusals(server, "refused: ABORTED: the worker cannot have", 2)

    def test_user_is_told_that_no_arena_will_do(self):
        installation, server = self.serve(obstacles=PLACES)
        status, _, stderr = harness.finish(
            harness.start(installation, server.endpoint, "vector_add"))
        self.assertNotEqual(status, 0)
        self.assertIn("free both in this process and in the server's worker", stderr)
        self.assertNotIn("start warpline-server", stderr)
        self.expect_refusals(server, "refused: ABORTED: the worker cannot have", MOST_REFUSALS)

    def test_server_of_small_arenas_serves_programs(self):
        installation, server = self.serve("--arena_size=16GiB")
        harness.run(installation, server.endpoint, "vector_add")
        self.expect_refusals(server, "refused: FAILED_PRECONDITION: arena of", 1)


if __name__ == "__main__":
    unittest.main()
