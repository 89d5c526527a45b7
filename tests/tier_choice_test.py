#!/usr/bin/env python3
"""--tier=auto: guarded where the program can be, and isolated from the start where it cannot."""
import json
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

import harness

CHOSE = "--tier=auto chose the isolated tier: "
NO_BINARY_FOR_GPU = 209
PTX = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"

# As much of a cubin as it takes to see that it is one.
MACHINE_CODE = b"\x7fELF .text.k" + bytes(4096)

# A program without device code of its own: loads libraries, and then modules.
SCRIPT = """
import ctypes, sys
for library in [name for name in sys.argv[1:] if ".so" in name]:
    ctypes.CDLL(library)
cuda = ctypes.CDLL("libcuda.so.1")
context, module = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for name in [name for name in sys.argv[1:] if ".so" not in name]:
    print("module:", cuda.cuModuleLoad(ctypes.byref(module), name.encode()))
print("script: ok")
"""


def container(kind, payload, sm=75):
    """A fatbin with one entry: PTX (1) or machine code (2)."""
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 8, sm, 0, 0, 0, 0, 0)
    assert len(entry) == 64
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + len(payload)) + entry + payload


class TierChoiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/late_module": "tests/tiers/late_module",
            "bin/machine_code": "tests/tiers/machine_code"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-tiers-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = self.folder / "cache"
        self.machine_code = self.write("machine_code.fatbin", container(2, MACHINE_CODE))
        self.ptx = self.write("module.ptx", PTX.encode())

    def write(self, name, contents):
        path = self.folder / name
        path.write_bytes(contents)
        return str(path)

    def server(self, tiers="isolated,guarded"):
        return harness.local_server.Server(
            self.installation, ["--device=cpu", "--warm_workers=0", "--tiers=" + tiers])

    def warpline(self, *arguments, endpoint="", **env):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache), "WARPLINE_ENDPOINT": endpoint,
                       **env}
        return subprocess.run([str(self.installation.root / "bin/warpline"), *arguments],
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S, check=False)

    def run_auto(self, server, name, *arguments):
        done = self.warpline("run", "--tier=auto", "--", self.program(name), *arguments,
                             endpoint=server.endpoint)
        self.assertEqual(done.returncode, 0, done.stdout + server.log_tail())
        return done.stdout

    def program(self, name):
        return name if "/" in name else str(self.installation.root / "bin" / name)

    def assert_guarded(self, server, output, sessions):
        self.assertNotIn(CHOSE, output)
        harness.wait_until(lambda: server.log().count("worker closed session=") == sessions,
                           lambda: "a guarded session is closed: " + server.log())

    def assert_isolated(self, server, output, sessions, why):
        lines = [line for line in output.splitlines() if CHOSE in line]
        self.assertEqual(len(lines), 1, output)
        self.assertIn(why, lines[0])
        self.assertEqual(server.log().count("worker closed session="), sessions)

    def test_a_program_of_ptx_is_guarded(self):
        with self.server() as server:
            for run in (1, 2):
                output = self.run_auto(server, "late_module", self.ptx)
                self.assertIn("kernel: ok\nmodule: 0", output)
                self.assert_guarded(server, output, run)
            done = self.warpline("explain", self.program("late_module"))
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("--tier=auto: guarded, where the server offers that and the device takes "
                          "PTX for 75", done.stdout)

    def test_a_program_with_machine_code_alone_is_isolated_from_the_start(self):
        with self.server() as server:
            output = self.run_auto(server, "machine_code")
            self.assert_isolated(server, output, 0, "machine_code: it has machine code without PTX")
            done = self.warpline("explain", self.program("machine_code"))
            self.assertIn("--tier=auto: isolated, because of", done.stdout)

    def test_machine_code_that_comes_later_is_an_error_and_isolated_the_next_time(self):
        with self.server() as server:
            output = self.run_auto(server, "late_module", self.machine_code)
            self.assertIn("kernel: ok\nmodule: %d" % NO_BINARY_FOR_GPU, output)
            self.assertIn("the guarded tier cannot do all of this program: a module has no PTX for "
                          "the device; run it again: --tier=auto chooses isolated from now on", output)
            self.assert_guarded(server, output, 1)
            record = self.cache / "warpline/tier-record-1"
            self.assertEqual(stat.S_IMODE(record.stat().st_mode), 0o600)
            # With other data it is the same program.
            output = self.run_auto(server, "late_module", self.ptx)
            self.assertIn("kernel: ok\nmodule: 0", output)
            self.assert_isolated(server, output, 1, "has no PTX for the device in an earlier run")
            done = self.warpline("explain", self.program("late_module"))
            self.assertIn("--tier=auto: isolated, as a module has no PTX", done.stdout)
            # One that is named is not changed by the record.
            done = self.warpline("run", "--tier=guarded", "--", self.program("late_module"),
                                 endpoint=server.endpoint)
            self.assert_guarded(server, done.stdout, 2)
            # A record of garbage is none.
            record.write_bytes(os.urandom(5000))
            self.assert_guarded(server, self.run_auto(server, "late_module", self.ptx), 3)

    def test_a_tier_that_is_named_has_the_error_with_other_advice(self):
        with self.server() as server:
            done = self.warpline("run", "--tier=guarded", "--", self.program("late_module"),
                                 self.machine_code, endpoint=server.endpoint)
            self.assertIn("run it with --tier=isolated", done.stdout)
            self.assertFalse(self.cache.exists())

    def test_frameworks_are_told_to_hand_ptx_over(self):
        told = "echo $TRITON_OVERRIDE_ARCH ${CUPY_ACCELERATORS-unset} ${CUPY_CACHE_DIR##*/}; "
        made = str(self.folder / "made.cubin")
        compiled = "$TRITON_PTXAS_PATH -v --gpu-name=sm_75 %s -o %s && exec %s %s" % (
            self.ptx, made, self.program("late_module"), made)
        with self.server() as server:
            done = self.warpline("run", "--tier=guarded", "--", "sh", "-c", told + compiled,
                                 endpoint=server.endpoint)
            self.assertTrue(done.stdout.startswith("sm80 cupy\n"), done.stdout)
            self.assertIn("kernel: ok\nmodule: 0", done.stdout)
            own = {"CUPY_ACCELERATORS": "cub", "TRITON_PTXAS_PATH": "/own/ptxas",
                   "CUPY_CACHE_DIR": "/own/cache"}
            for tier, said in (("guarded", "cub /own/ptxas /own/cache"), ("isolated", "unset")):
                done = self.warpline(
                    "run", "--tier=" + tier, "--", "sh", "-c",
                    "echo $TRITON_OVERRIDE_ARCH ${CUPY_ACCELERATORS-unset} $TRITON_PTXAS_PATH "
                    "$CUPY_CACHE_DIR",
                    endpoint=server.endpoint, **(own if tier == "guarded" else {}))
                self.assertEqual(done.stdout.strip(), said)

    def test_scripts_are_programs_of_their_own(self):
        first = self.write("first.py", SCRIPT.encode())
        second = self.write("second.py", (SCRIPT + "# Another one.\n").encode())
        with self.server() as server:
            output = self.run_auto(server, sys.executable, first, self.machine_code)
            self.assertIn("module: %d\nscript: ok" % NO_BINARY_FOR_GPU, output)
            self.assert_guarded(server, output, 1)
            self.assert_isolated(server, self.run_auto(server, sys.executable, first), 1,
                                 "in an earlier run")
            self.assert_guarded(server, self.run_auto(server, sys.executable, second, self.ptx), 2)
            done = self.warpline("explain", sys.executable, first)
            self.assertIn("in an earlier run", done.stdout)
            done = self.warpline("explain", sys.executable, second)
            self.assertIn("--tier=auto: guarded", done.stdout)

    def test_libraries_that_are_loaded_before_count(self):
        script = self.write("script.py", SCRIPT.encode())
        # A library as good as any; what it has of device code lies behind its end.
        real = self.installation.root / "lib/libnvidia-ml.so.1"
        library = self.write("libextra.so", real.read_bytes() +
                             container(2, MACHINE_CODE))
        with self.server() as server:
            output = self.run_auto(server, sys.executable, script, library)
            self.assertIn("script: ok", output)
            self.assert_isolated(server, output, 0, "libextra.so: it has machine code without PTX")

    def test_a_server_without_the_tier_opens_isolated_sessions(self):
        with self.server("isolated") as server:
            output = self.run_auto(server, "late_module", self.ptx)
            self.assertIn("kernel: ok\nmodule: 0", output)
            self.assert_isolated(server, output, 0, "this server has no sessions of the tier guarded")

    def test_kernels_that_are_guarded_otherwise_are_isolated(self):
        with self.server() as server:
            done = self.warpline("run", "--tier=auto", "--guard=fence", "--",
                                 self.program("late_module"), endpoint=server.endpoint)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assert_isolated(server, done.stdout, 0, "guarded in another way")

    def test_a_guard_that_there_is_not_is_refused_with_what_there_is(self):
        program = self.program("late_module")
        for mode in ("clamped", ""):
            done = self.warpline("run", "--guard=" + mode, "--", program, endpoint="127.0.0.1:1")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("--guard=%s: expected one of off, fence, hardened, report" % mode, done.stdout)
        env = dict(self.installation.client_environment("127.0.0.1:1"), WARPLINE_GUARD="clamped")
        done = subprocess.run([program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertIn("WARPLINE_GUARD is none of off, fence, hardened, report", done.stdout)

    def test_tenants_have_the_tiers_that_they_were_given(self):
        scheduler = harness.Scheduler(self.installation)
        self.addCleanup(scheduler.close)
        operator = {"WARPLINE_OPERATOR_CREDENTIAL_FILE":
                    str(scheduler.folder / "state/operator.credential")}

        def operate(*arguments):
            done = self.warpline(*arguments, endpoint=scheduler.endpoint, **operator)
            self.assertEqual(done.returncode, 0, done.stdout)
            return done.stdout

        def run(*flags):
            return self.warpline("run", *flags, "--", self.program("late_module"),
                                 endpoint=scheduler.endpoint, WARPLINE_CREDENTIAL=credential)

        credential = operate("tenant", "add", "vision", "--tiers=isolated", "--tier=auto").strip()
        shown = self.write("server.credential", operate("servers", "add", "a").encode())
        with harness.local_server.Server(self.installation, [
                "--device=cpu", "--warm_workers=0", "--tiers=isolated,guarded", "--name=a",
                "--scheduler=" + scheduler.endpoint, "--scheduler_credential_file=" + shown]) as server:
            harness.wait_until(lambda: "up server=a" in scheduler.log(), "the server is up")
            # Nobody names a tier: the tenant's is auto.
            done = run()
            self.assertIn("kernel: ok", done.stdout)
            refusal = "the tenant vision has no sessions of the tier guarded, only isolated"
            self.assert_isolated(server, done.stdout, 0, refusal)
            done = run("--tier=guarded")
            self.assertIn("kernel: failed", done.stdout)
            self.assertIn(refusal, done.stdout)
            operate("tenant", "set", "vision", "--tiers=guarded", "--tier=guarded")
            done = run()
            self.assertIn("kernel: ok", done.stdout)
            self.assert_guarded(server, done.stdout, 1)
            done = run("--tier=isolated")
            self.assertIn("the tenant vision has no sessions of the tier isolated", done.stdout)
            tenant, = json.loads(operate("tenant", "list", "--json"))["tenants"]
            self.assertEqual((tenant["tiers"], tenant["tier"]), ("2", 1))
            self.assertIn("guarded", operate("tenant", "list"))


if __name__ == "__main__":
    unittest.main()
