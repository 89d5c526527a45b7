#!/usr/bin/env python3
"""Programs of two devices, through a server with two CPU devices."""
import unittest

import harness


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

    def test_one_device_is_what_a_program_gets_that_asks_for_none(self):
        self.assertIn("skipped: 1 device", self.run_with(None))


if __name__ == "__main__":
    unittest.main()
