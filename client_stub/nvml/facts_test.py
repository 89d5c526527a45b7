#!/usr/bin/env python3
"""libnvidia-ml.so.1 over a `warpline` that prints what a test wants: how each fact is given out, and
what becomes of answers that are none. Every case is a process of its own with NVML through ctypes.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = pathlib.Path("client_stub/nvml/libnvidia-ml.so.1")

HEAD = "driver_version 580.1\nnvml_version 13.580.1\ncuda_version 13000\n"
FIRST = """device 0
name NVIDIA H200
uuid GPU-01234567-89ab-cdef-0123-456789abcdef
pci_bus_id 0000:0f:00.0
memory_total 1000
memory_used 400
attribute_75 9
attribute_76 0
attribute_20 3
attribute_37 5120
"""
SECOND = """device 1
name Other
uuid GPU-ffffffff-89ab-cdef-0123-456789abcdef
pci_bus_id 0001:1f:00.0
memory_total 2000
memory_used 2500
"""

PRELUDE = """
import ctypes, os, sys
from ctypes import byref, c_char_p, c_int, c_uint, c_uint64, c_void_p, create_string_buffer
nvml = ctypes.CDLL(sys.argv[1])
devices = [c_void_p(), c_void_p()]
def ok(result):
    assert result == 0, result
def start():
    ok(nvml.nvmlInit_v2())
    for index, device in enumerate(devices):
        nvml.nvmlDeviceGetHandleByIndex_v2(index, byref(device))
def numbers(function, *arguments, count=1, kind=c_uint):
    found = [kind() for _ in range(count)]
    ok(function(devices[0], *arguments, *map(byref, found)))
    return [one.value for one in found] if count > 1 else found[0].value
def text(function):
    buffer = create_string_buffer(96)
    ok(function(devices[0], buffer, 96))
    return buffer.value.decode()
class Structure(ctypes.Structure):
    pass
def structure(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [
        field if isinstance(field, tuple) else (field, c_uint) for field in fields]})
"""


class Library(unittest.TestCase):
    """The library beside a `warpline` of the test's."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for name in ("lib", "bin"):
            (self.root / name).mkdir()
        shutil.copy(LIBRARY, self.root / "lib/libnvidia-ml.so.1")
        (self.root / "lib/libnvidia-ml.so.1").chmod(0o755)

    def answer(self, text, code=0):
        """What `warpline devices` prints from now on."""
        (self.root / "answer").write_text(text)
        script = self.root / "bin/warpline"
        script.write_text("#!/bin/sh\necho \"$@\" >>%s\ncat %s\nexit %d\n" % (
            self.root / "calls", self.root / "answer", code))
        script.chmod(0o755)

    def facts(self, first="", second=None):
        self.answer(HEAD + FIRST + first + (SECOND + second if second is not None else "") + "end\n")

    def check(self, body, endpoint="there:1"):
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + body, str(self.root / "lib/libnvidia-ml.so.1")],
            env={**os.environ, "WARPLINE_ENDPOINT": endpoint}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr


class Facts(Library):
    def test_numbers_of_every_shape(self):
        self.facts("power_mw 70000\npower_min_mw 1\npower_max_mw 2\nenergy_mj 12345678901\n"
                   "temperature_0 31\ntemperature_threshold_2 95\nclock_1 1980\nmax_clock_2 3201\n"
                   "ecc_errors_1_0 7\nutilization 42\nutilization_memory 6\nbrand 14\n"
                   "vbios_version 96.00\n")
        self.check("""
start()
assert numbers(nvml.nvmlDeviceGetPowerUsage) == 70000
assert numbers(nvml.nvmlDeviceGetPowerManagementLimitConstraints, count=2) == [1, 2]
assert numbers(nvml.nvmlDeviceGetTotalEnergyConsumption, kind=c_uint64) == 12345678901
assert numbers(nvml.nvmlDeviceGetTemperature, 0) == 31
assert numbers(nvml.nvmlDeviceGetTemperatureThreshold, 2) == 95
assert numbers(nvml.nvmlDeviceGetClockInfo, 1) == 1980
assert numbers(nvml.nvmlDeviceGetMaxClockInfo, 2) == 3201
assert numbers(nvml.nvmlDeviceGetClock, 1, 0) == 1980
assert numbers(nvml.nvmlDeviceGetTotalEccErrors, 1, 0, kind=c_uint64) == 7
assert numbers(nvml.nvmlDeviceGetBrand) == 14
assert text(nvml.nvmlDeviceGetVbiosVersion) == "96.00"
Rates = structure("Rates", "gpu", "memory")
rates = Rates()
ok(nvml.nvmlDeviceGetUtilizationRates(devices[0], byref(rates)))
assert (rates.gpu, rates.memory) == (42, 6)
Temperature = structure("Temperature", "version", "sensor", ("value", c_int))
temperature = Temperature(12 | 1 << 24, 0, 0)
ok(nvml.nvmlDeviceGetTemperatureV(devices[0], byref(temperature)))
assert temperature.value == 31
temperature.version = 5
assert nvml.nvmlDeviceGetTemperatureV(devices[0], byref(temperature)) == 25
assert nvml.nvmlDeviceGetClockInfo(devices[0], 4, byref(c_uint())) == 2
assert nvml.nvmlDeviceGetTemperature(devices[0], 1, byref(c_uint())) == 2
assert nvml.nvmlDeviceGetTotalEccErrors(devices[0], 2, 0, byref(c_uint64())) == 2
kind, count = c_uint(), c_uint(8)
Sample = structure("Sample", ("time", c_uint64), ("value", c_uint64))
samples = (Sample * 8)()
ok(nvml.nvmlDeviceGetSamples(devices[0], 1, c_uint64(), byref(kind), byref(count), samples))
assert count.value == 1 and kind.value == 1 and samples[0].value == 42 and samples[0].time > 0
""")

    def test_distances_to_limits_rows_and_replays(self):
        self.facts("temperature_margin 4294967293\nmodule_id 6\njpg_utilization 3\njpg_period 7\n"
                   "field_94 1\nfield_142 2\nfield_143 0\nfield_144 1\nfield_145 0\n")
        self.check("""
start()
Margin = structure("Margin", "version", ("degrees", c_int))
margin = Margin(8 | 1 << 24)
ok(nvml.nvmlDeviceGetMarginTemperature(devices[0], byref(margin)))
assert margin.degrees == -3
margin.version = 8 | 2 << 24
assert nvml.nvmlDeviceGetMarginTemperature(devices[0], byref(margin)) == 25
assert nvml.nvmlDeviceGetMarginTemperature(devices[0], None) == 2
assert numbers(nvml.nvmlDeviceGetModuleId) == 6
assert numbers(nvml.nvmlDeviceGetPcieReplayCounter) == 1
assert numbers(nvml.nvmlDeviceGetJpgUtilization, count=2) == [3, 7]
assert nvml.nvmlDeviceGetOfaUtilization(devices[0], byref(c_uint()), byref(c_uint())) == 3
assert numbers(nvml.nvmlDeviceGetRemappedRows, count=4) == [2, 0, 1, 0]
assert nvml.nvmlDeviceGetRemappedRows(devices[0], None, None, None, None) == 2
""")

    def test_what_was_not_said_is_not_supported(self):
        self.facts()
        self.check("""
start()
for name in ("PowerUsage", "FanSpeed", "PerformanceState", "Brand"):
    assert getattr(nvml, "nvmlDeviceGet" + name)(devices[0], byref(c_uint())) == 3
assert nvml.nvmlDeviceGetVbiosVersion(devices[0], create_string_buffer(9), 9) == 3
# These CUDA's attributes say.
assert numbers(nvml.nvmlDeviceGetComputeMode) == 3
assert numbers(nvml.nvmlDeviceGetMemoryBusWidth) == 5120
for name in ("nvmlDeviceSetPersistenceMode", "nvmlDeviceSetMigMode", "nvmlGpmSampleAlloc"):
    assert getattr(nvml, name)(devices[0], 0, 0) == 3
""")

    def test_devices_are_told_apart(self):
        self.facts("power_mw 1\n", "power_mw 2\n")
        self.check("""
start()
count, value, same = c_uint(), c_uint(), c_int()
ok(nvml.nvmlDeviceGetCount_v2(byref(count)))
assert count.value == 2 and devices[0].value != devices[1].value
assert numbers(nvml.nvmlDeviceGetPowerUsage) == 1
ok(nvml.nvmlDeviceGetPowerUsage(devices[1], byref(value)))
assert value.value == 2
# What the second lacks is not taken from the first, nor the other way round.
assert nvml.nvmlDeviceGetCudaComputeCapability(devices[1], byref(c_int()), byref(c_int())) == 3
found = c_void_p()
ok(nvml.nvmlDeviceGetHandleByPciBusId_v2(b"00000001:1F:00.0", byref(found)))
assert found.value == devices[1].value
assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"00:1f:00.0", byref(found)) == 6
assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"rubbish", byref(found)) == 2
Uuid = structure("Uuid", "version", "type", ("value", ctypes.c_ubyte * 41))
uuid = Uuid(ctypes.sizeof(Uuid) | 1 << 24, 2)
uuid.value[:16] = bytes.fromhex("ffffffff89abcdef0123456789abcdef")
ok(nvml.nvmlDeviceGetHandleByUUIDV(byref(uuid), byref(found)))
assert found.value == devices[1].value
ok(nvml.nvmlDeviceOnSameBoard(devices[0], devices[1], byref(same)))
assert same.value == 0
assert nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 0, byref(value)) == 3
ok(nvml.nvmlDeviceGetP2PStatus(devices[0], devices[0], 0, byref(value)))
Memory = structure("Memory", *[(name, c_uint64) for name in ("total", "free", "used")])
memory = Memory()
ok(nvml.nvmlDeviceGetMemoryInfo(devices[1], byref(memory)))
assert (memory.total, memory.free, memory.used) == (2000, 0, 2500)
""")

    def test_what_lies_between_devices(self):
        self.facts("peer_1_p2p_0 0\npeer_1_p2p_2 6\npeer_1_topology 40\npeer_1_same_board 1\n",
                   "peer_0_topology 50\n")
        self.check("""
start()
value, same = c_uint(77), c_int()
ok(nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 0, byref(value)))
assert value.value == 0
ok(nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 2, byref(value)))
assert value.value == 6
assert nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 1, byref(value)) == 3
assert nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 6, byref(value)) == 2
assert nvml.nvmlDeviceGetP2PStatus(devices[0], devices[1], 0, None) == 2
assert nvml.nvmlDeviceGetP2PStatus(devices[0], c_void_p(5), 0, byref(value)) == 2
ok(nvml.nvmlDeviceGetTopologyCommonAncestor(devices[0], devices[1], byref(value)))
assert value.value == 40
ok(nvml.nvmlDeviceGetTopologyCommonAncestor(devices[1], devices[0], byref(value)))
assert value.value == 50
ok(nvml.nvmlDeviceGetTopologyCommonAncestor(devices[1], devices[1], byref(value)))
assert value.value == 0
ok(nvml.nvmlDeviceOnSameBoard(devices[0], devices[1], byref(same)))
assert same.value == 1
""")

    def test_links_and_fields(self):
        self.facts("nvlink_0 1\nnvlink_0_version 4\nnvlink_0_capability_0 1\nnvlink_0_remote_id 77\n"
                   "nvlink_0_remote 00000000:07:00.0\nnvlink_1 0\nfield_82 45\nfield_82_type 1\n"
                   "field_164_3 26562\nfield_164_3_type 1\n")
        self.check("""
start()
assert numbers(nvml.nvmlDeviceGetNvLinkState, 0) == 1
assert numbers(nvml.nvmlDeviceGetNvLinkState, 1) == 0
assert nvml.nvmlDeviceGetNvLinkState(devices[0], 2, byref(c_uint())) == 3
assert nvml.nvmlDeviceGetNvLinkState(devices[0], 99, byref(c_uint())) == 2
assert numbers(nvml.nvmlDeviceGetNvLinkVersion, 0) == 4
assert numbers(nvml.nvmlDeviceGetNvLinkCapability, 0, 0) == 1
Pci = structure("Pci", ("legacy", ctypes.c_char * 16), "domain", "bus", "device", "id", "subsystem",
                ("bus_id", ctypes.c_char * 32))
pci = Pci()
ok(nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], 0, byref(pci)))
assert (pci.bus, pci.id, pci.bus_id) == (7, 77, b"00000000:07:00.0")
Field = structure("Field", "id", "scope", ("time", c_uint64), ("latency", c_uint64), "type",
                  ("result", c_int), ("value", c_uint64))
fields = (Field * 3)()
fields[0].id, fields[1].id, fields[1].scope, fields[2].id = 82, 164, 3, 164
ok(nvml.nvmlDeviceGetFieldValues(devices[0], 3, fields))
assert [(one.result, one.value) for one in fields[:2]] == [(0, 45), (0, 26562)]
assert fields[2].result == 3 and fields[0].type == 1
""")

    def test_answers_that_are_none_leave_no_driver(self):
        for text, code in (("", 0), ("", 1), ("warpline: nobody there\n", 1), ("end", 0),
                           (HEAD + FIRST, 0), ("x" * 3000000, 0)):
            with self.subTest(text=text[:20], code=code):
                self.answer(text, code)
                errors = self.check("assert nvml.nvmlInit_v2() == 9\n")
                self.assertEqual(len(errors.splitlines()), 1, errors[:500])
        self.answer("warpline: nobody there\n", 1)
        self.assertIn("nobody there", self.check("assert nvml.nvmlInit_v2() == 9\n"))
        self.assertIn("not set", self.check("assert nvml.nvmlInit_v2() == 9\n", endpoint=""))
        (self.root / "bin/warpline").unlink()
        self.assertIn("cannot run", self.check("assert nvml.nvmlInit_v2() == 9\n"))

    def test_odd_answers_are_read_without_harm(self):
        self.answer("device 0\nend\n")
        self.check("start()\nassert nvml.nvmlDeviceGetName(devices[0], create_string_buffer(9), 9) == 3\n"
                   "assert nvml.nvmlSystemGetCudaDriverVersion(byref(c_int())) == 3\n")
        self.answer("\0\0\ndevice\0 0\nname\n\nname \nprocess\nprocess x y z\ndevice 0\nname A\0B\n"
                    "process 99999999999999999999 -1\nend\n")
        self.check("start()\nassert text(nvml.nvmlDeviceGetName) == 'A?B'\n"
                   "count, found = c_uint(9), create_string_buffer(9 * 24)\n"
                   "ok(nvml.nvmlDeviceGetComputeRunningProcesses_v3(devices[0], byref(count), found))\n"
                   "assert count.value == 1\n")

    def test_a_burst_of_questions_asks_once_and_memory_each_time(self):
        self.facts("power_mw 1\n")
        self.check("""
start()
for _ in range(20):
    numbers(nvml.nvmlDeviceGetPowerUsage)
Memory = structure("Memory", *[(name, c_uint64) for name in ("total", "free", "used")])
for _ in range(3):
    ok(nvml.nvmlDeviceGetMemoryInfo(devices[0], byref(Memory())))
""")
        calls = (self.root / "calls").read_text().splitlines()
        # A slow machine may take several times a fifth of a second for the burst.
        self.assertGreaterEqual(len(calls), 4)
        self.assertLess(len(calls), 20 + 3)
        self.assertRegex(calls[0], r"^devices --pid=[0-9]+$")

    def test_a_host_that_reaps_all_children_is_answered_too(self):
        self.facts()
        self.check("""
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
start()
assert text(nvml.nvmlDeviceGetName) == "NVIDIA H200"
""")


EVENTS = """
import signal, threading, time
Event = structure("Event", ("device", c_void_p), ("type", c_uint64), ("data", c_uint64), "gpu", "compute")
event = Event()
def new_set():
    made = c_void_p()
    ok(nvml.nvmlEventSetCreate(byref(made)))
    return made
def register(device, types, events):
    return nvml.nvmlDeviceRegisterEvents(device, c_uint64(types), events)
def wait(events, timeout_ms, function=nvml.nvmlEventSetWait_v2):
    begin = time.monotonic()
    result = function(events, byref(event), c_uint(timeout_ms))
    return result, time.monotonic() - begin
SetRequest = structure("SetRequest", "version", ("set", c_void_p))
RegisterRequest = structure("RegisterRequest", "version", ("types", c_uint64), ("set", c_void_p))
WaitRequest = structure("WaitRequest", "version", "timeout", ("set", c_void_p), ("data", c_void_p),
                        "room", "count")
def version(kind):
    return ctypes.sizeof(kind) | 1 << 24
"""


class Events(Library):
    """What programs do that watch for errors: nvidia-smi -l, monitors, plug-ins of Kubernetes."""

    def check(self, body, endpoint="there:1"):
        self.facts()
        return super().check(EVENTS + body, endpoint)

    def test_events_are_registered_and_waits_take_their_time(self):
        self.check("""
start()
events, types = new_set(), c_uint64(7)
ok(nvml.nvmlDeviceGetSupportedEventTypes(devices[0], byref(types)))
assert types.value == 0
# nvidia-smi registers what is supported; others what they want, and again.
for wanted in (0, 8, 8, 1 | 2 | 4, 0xff8b, 0xffff):
    ok(register(devices[0], wanted, events))
for wanted in (0x10000, 1 << 40, 8 | 1 << 63):
    assert register(devices[0], wanted, events) == 3
for function in (nvml.nvmlEventSetWait_v2, nvml.nvmlEventSetWait):
    result, took = wait(events, 1300, function)
    assert result == 10 and took >= 1.3, (result, took)
# One with nothing registered, and one that is not to wait.
assert wait(new_set(), 50)[0] == 10
assert wait(events, 0)[0] == 10
ok(nvml.nvmlEventSetFree(events))
""")

    def test_wrong_arguments_of_events(self):
        self.check("""
events = c_void_p()
assert nvml.nvmlEventSetCreate(None) == 1 and nvml.nvmlEventSetCreate(byref(events)) == 1
assert nvml.nvmlEventSetFree(None) == 1 and wait(None, 0)[0] == 1
assert register(None, 8, None) == 1
assert nvml.nvmlDeviceGetSupportedEventTypes(None, None) == 1
start()
assert nvml.nvmlEventSetCreate(None) == 2
assert nvml.nvmlDeviceGetSupportedEventTypes(devices[0], None) == 2
events = new_set()
assert nvml.nvmlEventSetWait_v2(events, None, c_uint(1000000)) == 2
for device in (None, c_void_p(5), events):
    assert register(device, 8, events) == 2
    assert nvml.nvmlDeviceGetSupportedEventTypes(device, byref(c_uint64())) == 2
freed, other = new_set(), new_set()
assert freed.value != events.value != other.value
ok(nvml.nvmlEventSetFree(freed))
request = SetRequest(version(SetRequest))
ok(nvml.nvmlSystemEventSetCreate(byref(request)))
for none in (None, freed, c_void_p(8), c_void_p(2**64 - 1), c_void_p(request.set)):
    assert nvml.nvmlEventSetFree(none) == 2
    assert register(devices[0], 8, none) == 2
    assert wait(none, 1000000)[0] == 2
assert wait(other, 1)[0] == 10
# Sets outlive the library's end, as natively.
ok(nvml.nvmlShutdown())
assert wait(other, 1000000)[0] == 1
ok(nvml.nvmlInit_v2())
assert wait(other, 1)[0] == 10
ok(nvml.nvmlEventSetFree(other))
""")

    def test_sets_are_many_but_not_without_end(self):
        self.check("""
start()
for _ in range(20000):
    ok(nvml.nvmlEventSetFree(new_set()))
kept = [new_set() for _ in range(4096)]
assert len({one.value for one in kept}) == 4096
assert nvml.nvmlEventSetCreate(byref(c_void_p())) == 20
request = SetRequest(version(SetRequest))
assert nvml.nvmlSystemEventSetCreate(byref(request)) == 20
ok(nvml.nvmlEventSetFree(kept[100]))
ok(nvml.nvmlEventSetCreate(byref(c_void_p())))
""")

    def test_a_wait_ends_with_its_set_or_with_a_signal(self):
        self.check("""
start()
ended, results, others = new_set(), [], []
other = new_set()
about_to = threading.Barrier(9)
def wait_for_the_end():
    about_to.wait()
    results.append(wait(ended, 1000000))
waits = [threading.Thread(target=wait_for_the_end) for _ in range(8)]
for one in waits: one.start()
about_to.wait()
patient = threading.Thread(target=lambda: others.append(wait(other, 1500)))
patient.start()
time.sleep(0.2)
# None of these waits ends by itself while this test goes on.
ok(nvml.nvmlEventSetFree(ended))
for one in waits: one.join()
assert [result for result, _ in results] == [10] * 8
patient.join()
# Another set's end is no concern of it.
assert others[0][0] == 10 and others[0][1] >= 1.5
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.2)
# Longer than this test may take: it ends with the signal.
assert wait(other, 10000000)[0] == 10
""")

    def test_children_of_forks_have_the_sets(self):
        self.check("""
start()
events = new_set()
ok(register(devices[0], 8, events))
background = threading.Thread(target=lambda: wait(events, 2000))
background.start()
child = os.fork()
if child == 0:
    ok(register(devices[0], 8, events))
    assert wait(events, 100)[0] == 10
    ok(nvml.nvmlEventSetFree(events))
    ok(nvml.nvmlEventSetFree(new_set()))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
# What the child freed was its own.
assert wait(events, 1)[0] == 10
background.join()
""")

    def test_events_of_the_system(self):
        self.check("""
create, free = nvml.nvmlSystemEventSetCreate, nvml.nvmlSystemEventSetFree
add, await_events = nvml.nvmlSystemRegisterEvents, nvml.nvmlSystemEventSetWait
for function in (create, free, add, await_events):
    assert function(None) == 1
start()
for function in (create, free, add, await_events):
    assert function(None) == 2
# Nothing behind the version is looked at: the page ends there.
libc = ctypes.CDLL(None)
libc.mmap.restype = c_void_p
page = libc.mmap(None, ctypes.c_size_t(8192), 3, 34, -1, ctypes.c_size_t(0))
libc.mprotect(c_void_p(page + 4096), ctypes.c_size_t(4096), 0)
last = c_uint.from_address(page + 4092)
for wrong in (0, 1, 4 | 1 << 24, version(SetRequest) | 2 << 24, 2**32 - 1):
    last.value = wrong
    for function in (create, free, add, await_events):
        assert function(c_void_p(page + 4092)) == 25
request = SetRequest(version(SetRequest))
ok(create(byref(request)))
def added(types, events):
    return add(byref(RegisterRequest(version(RegisterRequest), types, events)))
assert [added(types, request.set) for types in (0, 1, 2, 3)] == [2, 0, 0, 0]
assert added(3, None) == 2 and added(3, 4096) == 2 and added(3, new_set()) == 2
found = create_string_buffer(64)
def waited(timeout_ms, events=request.set, data=ctypes.addressof(found), room=2):
    asked = WaitRequest(version(WaitRequest), timeout_ms, events, data, room, 7)
    begin = time.monotonic()
    return await_events(byref(asked)), asked.count, time.monotonic() - begin >= timeout_ms / 1000
assert waited(1200) == (10, 7, True)
assert waited(0) == (0, 0, True)
for wrong in ({"events": None}, {"events": 4096}, {"data": None}, {"room": 0}):
    assert waited(1000000, **wrong) == (2, 7, False), wrong
ok(free(byref(request)))
assert free(byref(request)) == 2 and waited(1000000) == (2, 7, False)
ok(free(byref(SetRequest(version(SetRequest), None))))
""")


if __name__ == "__main__":
    unittest.main()
