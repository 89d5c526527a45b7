#!/usr/bin/env python3
"""Programs of two devices, through a server with two CPU devices."""
import os
import re
import subprocess
import sys
import unittest

import harness

# Prints the UUIDs of the devices that a program sees.
COUNT = """
import ctypes, uuid
cuda, count, text = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(16)
result = cuda.cuInit(0)
assert result in (0, 100), result
for i in range(0 if result or cuda.cuDeviceGetCount(ctypes.byref(count)) else count.value):
    assert cuda.cuDeviceGetUuid(text, i) == 0
    print("GPU-" + str(uuid.UUID(bytes=text.raw)))
"""


class DevicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(["two_devices"])
        cls.addClassCleanup(cls.installation.close)
        # The later flag holds.
        server = harness.server(cls.installation, "--device=cpu:2")
        cls.server = server.__enter__()
        cls.addClassCleanup(server.__exit__, None, None, None)

    def run_with(self, visible):
        env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        stdout, _ = harness.run(self.installation, self.server.endpoint, "two_devices", env=env)
        return stdout

    def test_what_crosses_from_one_device_to_another_is_right(self):
        self.assertIn("2 devices", self.run_with("0,1"))

    def test_devices_come_in_the_order_that_was_asked_for(self):
        self.assertIn("2 devices", self.run_with("1,0"))

    def test_the_list_ends_at_a_device_that_is_not_there(self):
        self.assertIn("2 devices", self.run_with("0,1,7"))
        self.assertIn("skipped: 1 device", self.run_with("1,7,0"))

    def uuids(self):
        """Those of both devices, in the order of their numbers."""
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "devices",
             "--endpoint=" + self.server.endpoint], stdout=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "0,1"})
        found = re.findall(r"^uuid (GPU-\S+)$", done.stdout, re.MULTILINE)
        self.assertEqual(2, len(found), done.stdout)
        return found

    def visible(self, value):
        """The devices that a program has and that `warpline devices` shows, by their numbers."""
        known = self.uuids()
        env = self.installation.client_environment(self.server.endpoint)
        env["CUDA_VISIBLE_DEVICES"] = value
        shown = subprocess.run([sys.executable, "-c", COUNT], env=env, capture_output=True,
                               text=True, check=True).stdout.split()
        listed = subprocess.run([str(self.installation.root / "bin/warpline"), "devices"], env=env,
                                capture_output=True, text=True, check=False).stdout
        self.assertEqual(shown, re.findall(r"^uuid (GPU-\S+)$", listed, re.MULTILINE), value)
        return [known.index(uuid) for uuid in shown]

    def test_names_of_devices_are_read_as_cuda_reads_them(self):
        first, second = self.uuids()
        common = os.path.commonprefix([first, second])
        one, two = (uuid[:len(common) + 1] for uuid in (first, second))
        for value, devices in {
                first: [0], second: [1], one: [0], two: [1], "%s,%s" % (two, one): [1, 0],
                "%s , %s " % (one, two): [0, 1], " " + one: [], "MIG-" + two[4:]: [1],
                two.upper(): [1], second + "0": [1],
                # What names several devices, or none, ends the list.
                common: [], one + "," + common: [0], "%s,GPU-zz,%s" % (two, one): [1],
                "GPU-": [], "": [], "-1": [], "NoDevFiles": [],
                # So does a name of another kind.
                "0," + two: [0], one + ",1": [0], "gpu-" + two[4:]: [],
                # One that is named twice hides all.
                "0,0": [], "1,0,1": [], "%s,%s" % (one, first): [], "%s,%s" % (two, two): [],
                "1x,0y": [1, 0], "1, 0": [1, 0], "0,-1,1": [0], "0,7,1": [0], "7": []}.items():
            with self.subTest(value):
                self.assertEqual(devices, self.visible(value))

    def test_one_device_is_what_a_program_gets_that_asks_for_none(self):
        self.assertIn("skipped: 1 device", self.run_with(None))


if __name__ == "__main__":
    unittest.main()
