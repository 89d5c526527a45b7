#!/usr/bin/env python3
"""Memory of a program that has ended, or that has freed it, is there for the next one.

--programs=N runs so many programs in a row that each take most of the device and end in another way.
With BUNDLE and PROGRAMS it runs on a GPU (tests/harness.py), where --server_flag=--warm_workers=8 and
--grow_mib=32768 are worth trying, too.
"""
import argparse
import os
import pathlib
import signal
import sys
import tempfile
import unittest

_FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_FOLDER.parent if os.environ.get("BUNDLE") else pathlib.Path(
    os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline/tests"))

import harness  # noqa: E402  (found by the path above)

PERCENT = 90
# How the program ends, and the exit status that this gives; None for any.
ENDINGS = {
    "exit": 0,
    "free": 0,
    "abort": -signal.SIGABRT,
    "kill": -signal.SIGKILL,
    "term": -signal.SIGTERM,
    "thread": 0,
    "exec": 0,
    "fault": None,
    "reset": 0,
    "busy": 0,
    "busy_kill": -signal.SIGKILL,
    "orphan": 0,
}
EXECS = 2
OPTIONS = None


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + name: "tests/memory/" + name for name in ("taker", "grower", "steps")})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def server(self, *flags):
        return harness.server(self.installation, *OPTIONS.server_flag, *flags)

    def take(self, server, ending, *arguments, env=None):
        """Runs one program; it must get its memory, in each image of an exec()."""
        status, stdout, stderr = harness.finish(harness.start(
            self.installation, server.endpoint, "taker", "--end=" + ending,
            "--again=%d" % EXECS, *arguments, env=env))
        images = 1 + EXECS if ending == "exec" else 1
        self.assertEqual(stdout.count("taken "), images,
                         "%s: status %s\n%s\n%s\n%s" % (ending, status, stdout, stderr, server.log_tail()))
        if ENDINGS[ending] is not None:
            self.assertEqual(status, ENDINGS[ending], stdout + stderr)
        return images

    def test_programs_in_a_row_all_get_the_device(self):
        endings = list(ENDINGS)
        with self.server() as server:
            programs = 0
            while programs < OPTIONS.programs:
                programs += self.take(server, endings[programs % len(endings)], "--percent=%d" % PERCENT)
            self.assertTrue(server.running())

    def test_so_they_do_where_connections_cannot_share_memory(self):
        with self.server() as server:
            for ending in ENDINGS:
                self.take(server, ending, "--percent=%d" % PERCENT,
                          env={"WARPLINE_TRANSFER": "0", "WARPLINE_SHARE_MEMORY": "0"})

    def test_so_they_do_in_small_pieces(self):
        with self.server() as server:
            for _ in range(3):
                self.take(server, "abort", "--percent=%d" % PERCENT, "--piece_mib=64")

    def test_programs_of_one_lease_get_all_of_it_one_after_the_other(self):
        with self.server() as server:
            warpline = str(self.installation.root / "bin/warpline")
            taker = str(self.installation.root / "bin/examples/taker")
            loop = "for end in kill abort exit busy exec kill exit; do %s --percent=%d --end=$end; done" % (
                taker, PERCENT)
            env = self.installation.client_environment(server.endpoint)
            status, output, errors = harness.local_server.run_group(
                [warpline, "run", "--memory=2GiB", "--", "sh", "-c", loop], env, 120)
            output = output.decode()
            self.assertEqual(output.count("taken "), 7, "%s\n%s" % (output, errors.decode()))
            self.assertEqual(status, 0)

    def test_a_forked_child_that_lives_on_keeps_nothing(self):
        with self.server() as server, tempfile.TemporaryDirectory() as folder:
            until = os.path.join(folder, "until")
            os.mkfifo(until)
            # Open for reading, too, so that this does not wait for the child.
            held = os.open(until, os.O_RDWR)
            self.take(server, "exit", "--percent=%d" % PERCENT, "--child_until=" + until)
            self.take(server, "exit", "--percent=%d" % PERCENT)
            os.close(held)

    def test_a_vector_doubles(self):
        with self.server() as server:
            for kind in ("vmm", "alloc", "both"):
                harness.run(self.installation, server.endpoint, "grower", "--kind=" + kind,
                            "--to_mib=%d" % OPTIONS.grow_mib)

    def test_what_is_free_can_be_had_after_each_step(self):
        with self.server() as server:
            for seed in range(OPTIONS.seeds):
                stdout, _ = harness.run(self.installation, server.endpoint, "steps",
                                        "--seed=%d" % seed, "--steps=%d" % OPTIONS.steps)
                print(stdout.strip())


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--grow_mib", type=int, default=4096)
    parser.add_argument("--server_flag", action="append", default=[])
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
