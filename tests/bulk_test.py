#!/usr/bin/env python3
"""Large copies where client and server share no memory: through bulk connections."""
import pathlib
import sys
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "chaos"))
import cuts  # noqa: E402  (found by the path above)

PROGRAM = "long_program"
# Buffers of 4 MiB, as if the server were on another host.
LARGE = "--words=%d" % (1 << 20)
APART = {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "0"}
RELAY = harness.RUNFILES / "transport/testing/delay_relay_main"


class BulkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def test_large_copies_go_through_them(self):
        port = harness.local_server.free_port()
        with harness.server(self.installation, "--admin_listen=127.0.0.1:%d" % port) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, LARGE, stat=True,
                                         env=APART)
            counted = lambda: cuts.metrics(port).get("warpline_bulk_bytes_total", 0)
            harness.wait_until(lambda: counted() > 16 << 20, "large copies")
            status, stdout, stderr = harness.finish(program)
            self.assertEqual(status, 0, stdout + stderr)
            # What the operator sees, in six digits or so.
            self.assertAlmostEqual(counted() / harness.counters(stderr)["bulk bytes"], 1, places=3)

    def test_without_memory_on_the_servers_host_they_ride(self):
        with harness.server(self.installation, "--host_memory=1MiB") as server:
            for seconds in (4, 16, 64):
                _, stderr = harness.run(self.installation, server.endpoint, PROGRAM, LARGE,
                                        "--seconds=%d" % seconds, stat=True, env=APART)
                self.assertEqual(harness.counters(stderr)["bulk bytes"], 0)
                if "bulk connection 0 cannot be used" in stderr:
                    return
            self.fail(stderr)

    def test_cut_connections_lose_and_repeat_nothing(self):
        program = [str(self.installation.root / "bin/examples" / PROGRAM), LARGE, "--seconds=4"]
        counts, failures, left = cuts.run(self.installation, RELAY, [program], cuts=40,
                                          device="cpu", cut_every_ms="100-500", jobs=2,
                                          variables=APART, bulk_bytes=1)
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)


if __name__ == "__main__":
    unittest.main()
