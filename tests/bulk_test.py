#!/usr/bin/env python3
"""Large copies where client and server share no memory: through bulk connections."""
import pathlib
import re
import sys
import unittest
import urllib.request

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "chaos"))
import cuts  # noqa: E402  (found by the path above)

PROGRAM = "long_program"
# Buffers of 4 MiB, as if the server were on another host.
ARGUMENTS = ("--words=%d" % (1 << 20), "--seconds=4")
APART = {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "0"}
RELAY = harness.RUNFILES / "transport/testing/delay_relay_main"


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def bulk_bytes(self, server):
        _, stderr = harness.run(self.installation, server.endpoint, PROGRAM, *ARGUMENTS, stat=True,
                                env=APART)
        return harness.counters(stderr)["bulk bytes"], stderr

    def test_large_copies_go_through_them(self):
        port = cuts.free_port()
        with harness.server(self.installation, "--admin_listen=127.0.0.1:%d" % port) as server:
            carried, _ = self.bulk_bytes(server)
            self.assertGreater(carried, 16 << 20)
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as page:
                found = re.search(r"^warpline_bulk_bytes_total ([\d.e+]+)$", page.read().decode(),
                                  re.M)
            # What the operator sees, in six digits or so.
            self.assertAlmostEqual(float(found[1]) / carried, 1, places=3)

    def test_without_memory_on_the_servers_host_they_ride(self):
        with harness.server(self.installation, "--host_memory=1MiB") as server:
            carried, stderr = self.bulk_bytes(server)
            self.assertEqual(carried, 0)
            self.assertIn("bulk connection 0 cannot be used", stderr)

    def test_cut_connections_lose_and_repeat_nothing(self):
        program = [str(self.installation.root / "bin/examples" / PROGRAM), *ARGUMENTS]
        counts, failures, left = cuts.run(self.installation, RELAY, [program], cuts=40,
                                          device="cpu", cut_every_ms="100-500", jobs=2,
                                          variables=APART)
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)
        self.assertGreaterEqual(counts["cuts"], 40)
        self.assertGreater(counts["bulk bytes"], 0)


if __name__ == "__main__":
    unittest.main()
