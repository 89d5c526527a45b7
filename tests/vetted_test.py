#!/usr/bin/env python3
"""Tenants that may launch and bring no code: they run what the operator vetted, and no other code."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

NOT_PERMITTED = "800"
PTX = """// a comment
.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 at, .param .u32 value) {
  .reg .u64 %%a, %%b;
  .reg .u32 %%v, %%w;
  ld.param.u64 %%a, [at];
  cvta.to.global.u64 %%b, %%a;
  ld.param.u32 %%v, [value];
  add.u32 %%w, %%v, %d;
  sub.u32 %%v, %%w, %d;
  st.global.u32 [%%b], %%v;
  ret;
}
"""


class VettedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/examples/vector_add": "examples/vector_add",
            "bin/examples/matmul_tiled": "examples/matmul_tiled",
            "bin/examples/unvetted": "tests/cuda/unvetted"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-vetted-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.programs = self.folder / "programs"
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(self.scheduler.close)
        self.credentials = {
            name: self.warpline("tenant", "add", name, "--rights=" + rights).strip()
            for name, rights in (("runs", "launch,memory,copy_in,copy_out"),
                                 ("brings", "launch,load,memory,copy_in,copy_out"),
                                 ("copies", "memory,copy_in,copy_out"))}

    def serve(self, *flags):
        credential = self.folder / "credential"
        credential.write_text(self.warpline("servers", "add", "a"))
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=a", "--scheduler_credential_file=%s" % credential, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=a" in self.scheduler.log(), "the server is up")
        return server

    def warpline(self, *arguments, status=0):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"], env["LD_LIBRARY_PATH"]
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(
            self.scheduler.folder / "state/operator.credential")
        if arguments[0] != "program":
            arguments = (arguments[0], *arguments[1:2], "--endpoint=" + self.scheduler.endpoint,
                         *arguments[2:])
        run = subprocess.run([str(self.installation.root / "bin/warpline"), *arguments], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout

    def program(self, action, *arguments, status=0):
        return self.warpline("program", action, *arguments, "--dir=%s" % self.programs,
                             status=status)

    def path(self, name):
        return str(self.installation.root / "bin/examples" / name)

    def run_as(self, tenant, name, *arguments, env=None):
        status, stdout, stderr = harness.finish(harness.start(
            self.installation, self.scheduler.endpoint, name, *arguments,
            env={"WARPLINE_CREDENTIAL": self.credentials[tenant], "TMPDIR": str(self.folder),
                 **(env or {})}))
        return status, stdout, stderr

    def test_a_program_runs_once_it_is_vetted_and_others_do_not(self):
        server = self.serve("--programs_dir=%s" % self.programs)
        status, stdout, stderr = self.run_as("runs", "vector_add")
        self.assertNotEqual(status, 0)
        self.assertIn("not permitted", (stdout + stderr).lower())
        self.assertIn("images vetted", self.program("add", "adds", self.path("vector_add")))
        status, stdout, stderr = self.run_as("runs", "vector_add")
        self.assertEqual(status, 0, stdout + stderr + server.log_tail())
        self.assertNotEqual(self.run_as("runs", "matmul_tiled")[0], 0)
        self.assertNotEqual(self.run_as("copies", "vector_add")[0], 0)
        self.assertIn("not vetted, and not loaded", server.log())
        self.assertRegex(self.program("list"), r"adds +\d+ +\d")
        # Several files are one program.
        self.program("add", "adds", self.path("vector_add"), self.path("matmul_tiled"))
        self.assertEqual(self.run_as("runs", "matmul_tiled")[0], 0)
        self.program("remove", "adds")
        self.assertNotEqual(self.run_as("runs", "vector_add")[0], 0)
        self.assertEqual(self.run_as("brings", "vector_add")[0], 0)

    def test_without_a_folder_nothing_is_vetted(self):
        self.serve()
        self.program("add", "adds", self.path("vector_add"))
        self.assertNotEqual(self.run_as("runs", "vector_add")[0], 0)

    def test_no_other_code_runs_in_any_way(self):
        good, other = self.folder / "good.ptx", self.folder / "other.ptx"
        good.write_text(PTX % (7, 7))
        other.write_text(PTX % (9, 9))
        self.serve("--programs_dir=%s" % self.programs)
        self.program("add", "good", str(good))

        def rows(tenant):
            status, stdout, stderr = self.run_as(tenant, "unvetted", str(good), str(other))
            self.assertEqual(status, 0, stdout + stderr)
            return dict(line.rsplit(": ", 1) for line in stdout.splitlines() if ": " in line)

        unbound = rows("brings")
        self.assertGreater(len(unbound), 15)
        for name, result in unbound.items():
            self.assertEqual(result, "0", "as a tenant that brings code: " + name)
        bound = rows("runs")
        self.assertEqual(bound.keys(), unbound.keys())
        for name, result in bound.items():
            self.assertEqual(result, "0" if name.startswith("control") else NOT_PERMITTED, name)

    def test_files_without_device_code_and_bad_names_are_refused(self):
        self.assertIn("has no device code", self.program("add", "x", "/etc/hostname", status=1))
        self.assertIn("cannot read", self.program("add", "x", "/nowhere", status=1))
        self.assertIn("is no name", self.program("add", "../x", self.path("vector_add"), status=1))
        self.assertIn("expected a file", self.program("add", "x", status=2))
        self.assertIn("no program x", self.program("remove", "x", status=1))
        self.program("add", "x", self.path("vector_add"))
        os.chmod(self.programs, 0o777)
        self.assertIn("may write to it", self.program("list", status=1))


if __name__ == "__main__":
    unittest.main()
