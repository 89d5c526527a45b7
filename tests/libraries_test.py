#!/usr/bin/env python3
"""Runtime libraries of other versions of CUDA run a kernel, and the libraries above them start.

Those of the toolkit are tried where they are installed. With WARPLINE_TEST_LIBRARIES=DIR:DIR... every
libcudart.so.* in these folders is, such as those of the wheels nvidia-cuda-runtime-cu12 of several
versions; a folder's other libraries are started with it.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import harness

TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64"
ABOVE = ["libcublasLt.so", "libcublas.so", "libcufft.so", "libcudnn.so", "libcusolver.so",
         "libcusparse.so"]


def newest(folder, name):
    """The file that programs are linked to: libcufft.so.12, not libcufft.so.12.1.2."""
    found = [path for path in folder.glob(name + ".*") if path.name.count(".") == 2]
    return found[:1]


class LibrariesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/library_start": "tests/libraries/library_start",
             "bin/compile_kernel": "tests/libraries/compile_kernel",
             "bin/cublas_program": "tests/libraries/cublas_program",
             "bin/lt_program": "tests/libraries/lt_program"})
        cls.server = harness.server(cls.installation, "--tiers=isolated,guarded",
                                    "--noguarded_standby")
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.installation.close()

    def start(self, folder, libraries, **variables):
        environment = self.installation.client_environment(self.server.endpoint)
        environment["LD_LIBRARY_PATH"] += ":%s" % folder
        environment.update(variables)
        return subprocess.run(
            [str(self.installation.root / "bin/library_start"), *map(str, libraries)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=harness.GIVE_UP_S, check=False)

    def folders(self):
        folders = [pathlib.Path(path) for path in
                   os.environ.get("WARPLINE_TEST_LIBRARIES", "").split(":") if path]
        return [folder for folder in [TOOLKIT, *folders] if newest(folder, "libcudart.so")]

    def test_runtimes_run_a_kernel_and_libraries_start(self):
        for folder in self.folders():
            libraries = [path for name in ["libcudart.so", *ABOVE] for path in newest(folder, name)]
            with self.subTest(folder=str(folder)):
                run = self.start(folder, libraries)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertIn("library_start: ok", run.stdout)
                # Such as a table that somebody asks for and the client does not know.
                self.assertNotIn("is not supported", run.stderr)

    def test_a_runtime_newer_than_the_driver_gets_cudas_own_error_and_one_line_in_the_log(self):
        for folder in self.folders():
            runtime = newest(folder, "libcudart.so")
            major = int(runtime[0].name.rsplit(".", 1)[1])
            older = "%d" % ((major - 1) * 1000 + 80)
            with self.subTest(folder=str(folder)):
                run = self.start(folder, runtime, WARPLINE_DRIVER_VERSION=older)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertIn("library_start: insufficient driver", run.stdout)
                self.assertEqual(run.stderr.count("insufficient driver"), 1, run.stderr)
                self.assertIn("CUDA %d.8" % (major - 1), run.stderr)

    def call_cublas(self, program, rounds, tier, preload=()):
        """A program whose calls of cuBLAS the server executes, with a BLAS of the system's."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("WARPLINE_") and name != "LD_PRELOAD"}
        environment["WARPLINE_ENDPOINT"] = self.server.endpoint
        if preload:
            environment["LD_PRELOAD"] = ":".join(map(str, preload))
        root = self.installation.root
        return subprocess.run(
            [str(root / "bin/warpline"), "run", "--tier=" + tier, "--memory=256MiB", "--",
             str(root / "bin" / program), str(rounds)], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, timeout=harness.GIVE_UP_S, check=False)

    def test_the_server_executes_calls_of_cublas(self):
        ours = sorted((self.installation.root / "lib/guarded").glob("libcublas*.so.13"))
        self.assertEqual(len(ours), 2)
        says = {"cublas_program": (6, r"cublas_program: version 130000, \d{3,4} checks, 0 wrong"),
                "lt_program": (2, r"lt_program: \d\d\d\d checks, 0 wrong, 2 combinations")}
        for tier, preload in (("guarded", ()), ("isolated", ours)):
            for program, (rounds, words) in says.items():
                with self.subTest(tier=tier, program=program):
                    run = self.call_cublas(program, rounds, tier, preload)
                    self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                    self.assertRegex(run.stdout, words)

    def test_functions_that_the_server_lacks_are_named_once(self):
        code = ("import ctypes\n"
                "blas = ctypes.CDLL('libcublas.so.13')\n"
                "print(blas.cublasSgetrfBatched(), blas.cublasSgetrfBatched(), blas.cublasSspr2_v2())")
        environment = self.installation.client_environment(self.server.endpoint)
        environment["LD_LIBRARY_PATH"] += ":%s" % (self.installation.root / "lib/guarded")
        run = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=harness.GIVE_UP_S,
                             check=False)
        self.assertEqual(run.stdout, "15 15 15\n", run.stderr)
        self.assertEqual(run.stderr.count("cublasSgetrfBatched is not supported"), 1, run.stderr)
        self.assertIn("cublasSspr2_v2 is not supported", run.stderr)

    def compile(self, library, cache, tier="isolated"):
        environment = self.installation.client_environment(self.server.endpoint)
        environment["LD_LIBRARY_PATH"] += ":%s" % library.parent
        environment["CUDA_CACHE_PATH"] = cache
        environment["WARPLINE_TIER"] = tier
        run = subprocess.run(
            [str(self.installation.root / "bin/compile_kernel"), str(library)], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_what_nvrtc_compiled_is_found_by_the_next_process(self):
        for library in newest(TOOLKIT, "libnvrtc.so"):
            with tempfile.TemporaryDirectory() as cache:
                first = self.compile(library, cache)
                kept = sorted(pathlib.Path(cache).glob("warpline/*"))
                self.assertTrue(kept)
                for path in kept:
                    os.utime(path, (1000, 1000))
                self.assertEqual(self.compile(library, cache), first)
                # A result that was used says so; what was compiled again would be a new file.
                self.assertGreater(max(path.stat().st_mtime for path in kept), 1000)
                self.assertEqual(sorted(pathlib.Path(cache).glob("warpline/*")), kept)
                # Damaged ones are compiled again.
                for path in kept:
                    path.write_bytes(path.read_bytes()[:-1] + b"!")
                self.assertEqual(self.compile(library, cache), first)

    # Neither the CPU device nor the guarded tier runs machine code. NVRTC names the PTX that it made
    # on the way, or found in the cache.
    def test_machine_code_of_nvrtc_runs_as_its_ptx(self):
        for library in newest(TOOLKIT, "libnvrtc.so"):
            for tier in ("isolated", "guarded"):
                with self.subTest(tier=tier), tempfile.TemporaryDirectory() as cache:
                    first = self.compile(library, cache, tier)
                    self.assertEqual(self.compile(library, cache, tier), first)


if __name__ == "__main__":
    unittest.main()
