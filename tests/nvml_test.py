#!/usr/bin/env python3
"""libnvidia-ml.so.1 against a server with the CPU device: programs see their lease and nothing else.

Each program is a process of its own, with NVML through ctypes as pynvml does it.
"""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

# What the programs begin with. Results are asserted there, so that one that fails names its line.
PRELUDE = """
import ctypes, os, subprocess, sys, time
from ctypes import byref, c_char_p, c_int, c_uint, c_uint64, c_void_p, create_string_buffer
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlErrorString.restype = c_char_p
class Memory(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("total", "free", "used")]
class Memory2(ctypes.Structure):
    _fields_ = [("version", c_uint)] + [(name, c_uint64)
                                        for name in ("total", "reserved", "free", "used")]
class Process(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("used", c_uint64), ("gpu", c_uint), ("compute", c_uint)]
class Pci(ctypes.Structure):
    _fields_ = [("legacy", ctypes.c_char * 16)] + [
        (name, c_uint) for name in ("domain", "bus", "device", "id", "subsystem")] + [
        ("bus_id", ctypes.c_char * 32)]
def ok(result):
    assert result == 0, (result, nvml.nvmlErrorString(result))
def device():
    handle = c_void_p()
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)))
    return handle
def text(function, *arguments):
    buffer = create_string_buffer(256)
    ok(function(*arguments, buffer, 256))
    return buffer.value.decode()
def memory():
    found = Memory()
    ok(nvml.nvmlDeviceGetMemoryInfo(device(), byref(found)))
    return found
def processes():
    count, found = c_uint(64), (Process * 64)()
    ok(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device(), byref(count), found))
    return {one.pid: one.used for one in found[:count.value]}
def allocate(mib):
    cuda, context, pointer = ctypes.CDLL("libcuda.so.1"), c_void_p(), c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(byref(pointer), ctypes.c_size_t(mib << 20)) == 0
    return cuda
"""


class Nvml(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install([])
        cls.server = harness.server(cls.installation)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.installation.close()

    def run_program(self, body, lease=("--memory=1GiB",), endpoint=None):
        """Runs PRELUDE and `body` under a lease, or without one. Returns its stderr."""
        env = self.installation.client_environment(endpoint or self.server.endpoint)
        program = [sys.executable, "-c", PRELUDE + body]
        if lease is not None:
            program = [str(self.installation.root / "bin/warpline"), "run", *lease, "--", *program]
        done = subprocess.run(program, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def test_the_device_is_the_one_that_cuda_has(self):
        self.run_program("""
ok(nvml.nvmlInit_v2())
count = c_uint()
ok(nvml.nvmlDeviceGetCount_v2(byref(count)))
assert count.value == 1
cuda = allocate(1)
name, uuid, bus_id = create_string_buffer(256), create_string_buffer(16), create_string_buffer(64)
assert cuda.cuDeviceGetName(name, 256, 0) == 0 and cuda.cuDeviceGetUuid(uuid, 0) == 0
assert cuda.cuDeviceGetPCIBusId(bus_id, 64, 0) == 0
assert text(nvml.nvmlDeviceGetName, device()) == name.value.decode()
found = text(nvml.nvmlDeviceGetUUID, device())
assert found[:4] == "GPU-" and found[4:].replace("-", "") == uuid.raw.hex(), found
pci = Pci()
ok(nvml.nvmlDeviceGetPciInfo_v3(device(), byref(pci)))
assert pci.legacy == bus_id.value[-12:].upper(), (pci.legacy, bus_id.value)
again = c_void_p()
for find, what in ((nvml.nvmlDeviceGetHandleByUUID, found.encode()),
                   (nvml.nvmlDeviceGetHandleByPciBusId_v2, pci.bus_id),
                   (nvml.nvmlDeviceGetHandleByPciBusId_v2, bus_id.value)):
    ok(find(what, byref(again)))
    assert again.value == device().value
assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-none", byref(again)) == 6
major, minor, value = c_int(), c_int(), c_int()
ok(nvml.nvmlDeviceGetCudaComputeCapability(device(), byref(major), byref(minor)))
assert cuda.cuDeviceGetAttribute(byref(value), 75, 0) == 0 and value.value == major.value
version = c_int()
ok(nvml.nvmlSystemGetCudaDriverVersion_v2(byref(version)))
assert cuda.cuDriverGetVersion(byref(value)) == 0 and value.value == version.value
assert text(nvml.nvmlSystemGetDriverVersion) and text(nvml.nvmlSystemGetNVMLVersion)
""")

    def test_memory_is_the_leases_and_processes_are_its_own(self):
        self.run_program("""
ok(nvml.nvmlInit_v2())
before = memory()
assert before.total == 1 << 30 and before.used == 0 and before.free == before.total
assert processes() == {}
allocate(300)
after = memory()
assert 300 << 20 <= after.used < 1 << 30 and after.free == after.total - after.used
second = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
ok(nvml.nvmlDeviceGetMemoryInfo_v2(device(), byref(second)))
assert second.used == after.used and second.total == after.total
second.version = 1
assert nvml.nvmlDeviceGetMemoryInfo_v2(device(), byref(second)) == 25
found = processes()
assert list(found) == [os.getpid()] and found[os.getpid()] >= 300 << 20, found
assert "python" in text(nvml.nvmlSystemGetProcessName, os.getpid())
none = c_uint(0)
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device(), byref(none), None) == 7
assert none.value == 1
""")

    def test_other_leases_do_not_show(self):
        env = self.installation.client_environment(self.server.endpoint)
        neighbour = subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "run", "--memory=2GiB", "--",
             sys.executable, "-c", PRELUDE + "allocate(100)\nprint(1, flush=True)\ninput()"],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            neighbour.stdout.readline()
            for lease in (("--memory=1GiB",), None):
                self.run_program("ok(nvml.nvmlInit_v2())\nassert processes() == {}, processes()\n"
                                 "assert memory().used == 0\n", lease)
        finally:
            neighbour.communicate(b"\n")

    def test_without_a_lease_a_process_sees_its_own_session(self):
        self.run_program("""
ok(nvml.nvmlInit_v2())
allocate(50)
assert list(processes()) == [os.getpid()]
assert memory().used >= 50 << 20
""", lease=None)

    def test_calls_before_init_and_after_shutdown_are_refused(self):
        self.run_program("""
handle, count = c_void_p(), c_uint()
assert nvml.nvmlDeviceGetCount_v2(byref(count)) == 1
assert nvml.nvmlShutdown() == 1
ok(nvml.nvmlInit_v2())
ok(nvml.nvmlInit())
kept = device()
ok(nvml.nvmlShutdown())
ok(nvml.nvmlDeviceGetIndex(kept, byref(count)))
assert nvml.nvmlDeviceGetIndex(None, byref(count)) == 2
assert nvml.nvmlDeviceGetIndex(c_void_p(4096), byref(count)) == 2
assert nvml.nvmlDeviceGetIndex(kept, None) == 2
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, byref(handle)) == 2
small = create_string_buffer(2)
assert nvml.nvmlDeviceGetName(kept, small, 2) == 7
assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(kept, 0, byref(handle)) == 3
assert nvml.nvmlDeviceGetPowerUsage(kept, byref(count)) == 3
assert nvml.nvmlErrorString(3) == b"Not Supported" and nvml.nvmlErrorString(-5) == b"Unknown Error"
ok(nvml.nvmlShutdown())
assert nvml.nvmlDeviceGetIndex(kept, byref(count)) == 1
""")

    def test_it_works_in_children_of_forks_and_leaves_cuda_alone(self):
        # PyTorch counts devices by NVML so that its children may still use CUDA.
        self.run_program("""
ok(nvml.nvmlInit_v2())
memory()
assert len(os.listdir("/proc/self/task")) == 1
child = os.fork()
if child == 0:
    assert memory().total == 1 << 30
    allocate(10)
    assert list(processes()) == [os.getpid()]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
allocate(20)
child = os.fork()
if child == 0:
    # CUDA is out of reach here, as natively; NVML is not.
    assert os.getppid() in processes() and memory().used >= 20 << 20
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")

    def test_threads_ask_at_once(self):
        self.run_program("""
import threading
ok(nvml.nvmlInit_v2())
failed = []
def ask():
    try:
        for _ in range(10):
            assert memory().total == 1 << 30
    except AssertionError as error:
        failed.append(error)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed
""")

    def test_what_nvidia_smi_asks_for_first(self):
        self.run_program("""
ok(nvml.nvmlInit_v2())
table = ctypes.POINTER(c_void_p)()
known = bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4")
ok(nvml.nvmlInternalGetExportTable(byref(table), known))
entries = table[0] // 8
assert entries > 215
assert ctypes.CFUNCTYPE(c_int)(table[1])() == 3
assert nvml.nvmlInternalGetExportTable(byref(table), bytes(16)) == 6
allocate(30)
ok(nvml.nvmlInternalGetExportTable(byref(table), known))
count, buffer = c_uint(4), create_string_buffer(4 * 4128)
listed = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)(table[213])
ok(listed(device(), byref(count), buffer))
assert count.value == 1 and int.from_bytes(buffer.raw[:4], "little") == os.getpid()
assert b"python" in buffer.raw[32:64]
""")

    def test_without_a_server_there_is_no_driver_and_one_line_says_why(self):
        errors = self.run_program("""
for _ in range(3):
    assert nvml.nvmlInit_v2() == 9
""", lease=None, endpoint="127.0.0.1:1")
        lines = [line for line in errors.splitlines() if "libnvidia-ml.so.1" in line]
        self.assertEqual(len(lines), 1, errors)
        self.assertIn("127.0.0.1:1", lines[0])


class LostServer(unittest.TestCase):
    def test_the_gpu_is_lost_and_what_it_was_is_still_known(self):
        installation = harness.install([])
        try:
            with harness.server(installation) as server:
                program = subprocess.Popen(
                    [sys.executable, "-c", PRELUDE + """
ok(nvml.nvmlInit_v2())
memory()
print(1, flush=True)
sys.stdin.readline()
found = Memory()
assert nvml.nvmlDeviceGetMemoryInfo(device(), byref(found)) == 15
assert text(nvml.nvmlDeviceGetName, device())
"""], env=installation.client_environment(server.endpoint), stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                program.stdout.readline()
                os.kill(server.pid, signal.SIGKILL)
                _, errors = program.communicate(b"\n", timeout=harness.GIVE_UP_S)
                self.assertEqual(program.returncode, 0, errors)
        finally:
            installation.close()


if __name__ == "__main__":
    unittest.main()
