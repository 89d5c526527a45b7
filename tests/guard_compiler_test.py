#!/usr/bin/env python3
"""Guarded sessions whose modules are guarded by their tenant's compiler."""
import os
import pathlib
import signal
import subprocess
import unittest

import harness

COMPILER = "warpline-compiler"


class GuardCompilerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/vector_add": "examples/vector_add",
             "bin/examples/histogram": "examples/histogram",
             "bin/examples/parted_warps": "tests/cuda/parted_warps"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def output_of(self, server, program, *flags, arguments=()):
        """Runs it, and returns what it says."""
        root = self.installation.root
        done = subprocess.run(
            [str(root / "bin/warpline"), "run", "--endpoint=" + server.endpoint, *flags, "--",
             str(root / "bin/examples" / program), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + server.log_tail())
        return done.stdout

    def run_guarded(self, server, program, *flags):
        """Runs it, and expects that its results are right."""
        self.assertIn(program + ": ok", self.output_of(server, program, *flags))

    @staticmethod
    def stages_of(pid):
        """What the processes that it forked, and that have ended, have done: their page faults."""
        stat = pathlib.Path("/proc/%d/stat" % pid).read_text(encoding="ascii")
        return int(stat[stat.rindex(")") + 2:].split()[8])

    def test_stages_guard_a_module_and_its_result_stays(self):
        with harness.local_server.Server(self.installation, ["--device=cpu"]) as server:
            self.assertEqual(harness.server_processes(server.pid, COMPILER), [])
            self.run_guarded(server, "vector_add")
            self.assertEqual(harness.server_processes(server.pid, COMPILER), [])
            self.run_guarded(server, "vector_add", "--guard=fence")
            compilers = harness.server_processes(server.pid, COMPILER)
            self.assertEqual(len(compilers), 1)
            after_first = self.stages_of(compilers[0])
            self.assertGreater(after_first, 0)
            self.run_guarded(server, "vector_add", "--guard=fence")
            self.assertEqual(self.stages_of(compilers[0]), after_first)
            self.run_guarded(server, "vector_add", "--guard=hardened")
            after_other_mode = self.stages_of(compilers[0])
            self.assertGreater(after_other_mode, after_first)
            self.run_guarded(server, "histogram", "--guard=hardened")
            self.assertGreater(self.stages_of(compilers[0]), after_other_mode)
            self.run_guarded(server, "histogram", "--check")
            self.assertEqual(harness.server_processes(server.pid, COMPILER), compilers)

    def test_a_part_of_a_warp_at_several_barriers_is_right_or_an_error(self):
        with harness.local_server.Server(self.installation, ["--device=cpu"]) as server:
            for mode in ("fence", "hardened"):
                self.run_guarded(server, "parted_warps", "--guard=" + mode)
            said = self.output_of(server, "parted_warps", "--guard=hardened", arguments=["--part=1"])
            self.assertRegex(said, "warpline: guard: a kernel came to line [0-9]+ of its PTX, a barrier")
            self.assertIn("parted_warps: cudaErrorLaunchFailure", said)

    def test_a_compiler_is_in_a_jail(self):
        with harness.local_server.Server(self.installation, ["--device=cpu"]) as server:
            self.run_guarded(server, "vector_add", "--guard=fence")
            pid = harness.server_processes(server.pid, COMPILER)[0]
            status = pathlib.Path("/proc/%d/status" % pid).read_text(encoding="ascii")
            for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000",
                         "CapBnd:\t0000000000000000", "Threads:\t1"):
                self.assertIn(line, status)
            self.assertIn("jail profile=compiler holds=", server.log())

    def test_another_compiler_follows_one_that_has_ended(self):
        with harness.local_server.Server(self.installation, ["--device=cpu"]) as server:
            self.run_guarded(server, "vector_add", "--guard=fence")
            first = harness.server_processes(server.pid, COMPILER)
            os.kill(first[0], signal.SIGKILL)
            harness.wait_until(lambda: "a compiler has ended" in server.log(),
                               "the server says that it has ended")
            self.run_guarded(server, "vector_add", "--guard=fence")
            second = harness.server_processes(server.pid, COMPILER)
            self.assertEqual(len(second), 1)
            self.assertNotEqual(first, second)

    def test_without_one_the_worker_guards(self):
        with harness.local_server.Server(self.installation,
                                         ["--device=cpu", "--guard_compiler=none"]) as server:
            self.run_guarded(server, "vector_add", "--guard=fence")
            self.assertEqual(harness.server_processes(server.pid, COMPILER), [])


if __name__ == "__main__":
    unittest.main()
