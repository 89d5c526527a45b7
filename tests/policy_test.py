#!/usr/bin/env python3
"""`warpline policy` against a server: policies are loaded, swapped, taken back and refused while
programs of two tenants take turns on its device."""
import json
import pathlib
import subprocess
import sys
import unittest

import harness
import local_server

sys.path.insert(0, str(harness.RUNFILES / "bench"))
import shares  # pylint: disable=wrong-import-position

EXAMPLES = harness.RUNFILES / "policy/examples"
ENDLESS = harness.RUNFILES / "tests/policies/endless.bpf.o"


class PolicyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/shares": "bench/cuda/shares"})
        cls.bin = pathlib.Path(cls.installation.root) / "bin"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def ask(self, server, *arguments):
        """(status, stdout, stderr)"""
        done = subprocess.run([str(self.bin / "warpline"), "policy", *arguments, "--endpoint=" + server.endpoint],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.GIVE_UP_S,
                              check=False)
        return done.returncode, done.stdout, done.stderr

    def do(self, server, *arguments):
        status, out, errors = self.ask(server, *arguments)
        self.assertEqual(status, 0, errors)
        return out

    def in_use(self, server):
        return json.loads(self.do(server, "list", "--json"))["in_use"]

    def test_a_policy_is_loaded_swapped_to_and_taken_back(self):
        with harness.server(self.installation) as server:
            self.assertEqual(self.in_use(server), "band")
            out = self.do(server, "load", str(EXAMPLES / "token_bucket.bpf.o"))
            self.assertRegex(out, r"token_bucket +- ")
            self.do(server, "swap", "token_bucket")
            self.assertEqual(self.in_use(server), "token_bucket")
            self.do(server, "load", str(EXAMPLES / "latency_guard.bpf.o"), "--name=guard", "--swap")
            self.assertEqual(self.in_use(server), "guard")
            self.do(server, "rollback")
            self.assertEqual(self.in_use(server), "token_bucket")
            self.do(server, "remove", "guard")
            self.do(server, "swap", "fifo")
            self.assertEqual(self.in_use(server), "fifo")

    def test_what_is_no_policy_is_refused_and_changes_nothing(self):
        with harness.server(self.installation) as server:
            for arguments, why in (
                    (("load", str(self.bin / "warpline")), "too large"),
                    (("load", __file__), "not what clang"),
                    (("load", "/not/there.o"), "cannot read"),
                    (("load", str(ENDLESS), "--name=band"), "built in"),
                    (("load", str(ENDLESS), "--name=a b"), "letters"),
                    (("swap", "nobody"), "no policy nobody"),
                    (("remove", "nobody"), "nobody"),
                    (("rollback",), "no other policy")):
                with self.subTest(arguments):
                    status, _, errors = self.ask(server, *arguments)
                    self.assertEqual(status, 1)
                    self.assertRegex(errors, why)
            self.assertEqual(self.in_use(server), "band")

    def test_check_needs_no_server(self):
        done = subprocess.run([str(self.bin / "warpline"), "policy", "check", str(EXAMPLES / "token_bucket.bpf.o")],
                              capture_output=True, text=True, timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^accepted: on_")

    def test_a_server_begins_with_a_policy_of_the_operators(self):
        with harness.server(self.installation, "--dispatch=%s" % (EXAMPLES / "day_and_night.bpf.o")) as server:
            self.assertEqual(self.in_use(server), "dispatch-file")

    def test_without_dispatch_there_are_no_policies(self):
        with harness.server(self.installation, "--dispatch=off") as server:
            status, _, errors = self.ask(server, "list")
            self.assertEqual(status, 1)
            self.assertIn("--dispatch=off", errors)

    def test_policies_change_under_load_and_an_endless_one_is_replaced(self):
        with shares.Pool(local_server, self.installation, shares.tenants_of((1, 1)), ["--device=cpu"]) as pool:
            programs = [pool.start(tenant, "isolated", str(self.bin / "shares"), "--kernel_us=500", "--held",
                                   "--blocks=4", "--rounds=400", stdin=subprocess.PIPE) for tenant in (0, 1)]
            for program in programs:
                harness.await_held(program, "shares")
            server = pool.server
            for name in ("token_bucket", "latency_guard", "day_and_night"):
                self.do(server, "load", str(EXAMPLES / (name + ".bpf.o")))
            trace = pathlib.Path(self.installation.root) / "trace.json"
            for seconds in (1, 4, 16, 64):
                said = subprocess.run([str(self.bin / "warpline"), "trace", "--seconds=%d" % seconds, "-o", str(trace),
                                       "--endpoint=" + server.endpoint], capture_output=True, text=True,
                                      timeout=harness.GIVE_UP_S, check=False)
                self.assertEqual(said.returncode, 0, said.stderr)
                events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
                waits = [e for e in events if e.get("cat") == "wait" and "for" in e["args"]]
                if len(waits) > 3:
                    break
            turns = [e for e in events if e.get("cat") == "turn"]
            self.assertGreater(len(waits), 3)
            # Who waited, and for whom, by the names of tenants.
            self.assertRegex(waits[0]["args"]["slice"] + waits[0]["args"]["for"], "tenant[01].*tenant[01]")
            self.assertTrue(any(t["args"]["slice"] == waits[0]["args"]["for"] for t in turns))
            for _ in range(10):
                for name in ("token_bucket", "fifo", "latency_guard", "priority", "day_and_night", "band"):
                    self.do(server, "swap", name)
            self.do(server, "load", str(ENDLESS), "--swap")
            harness.wait_until(lambda: self.in_use(server) != "endless", "the endless policy is replaced")
            state = json.loads(self.do(server, "list", "--json"))
            self.assertEqual(state["in_use"], "band")
            self.assertRegex(state["failure"], r"^endless: it has had everybody wait for gpu 0 for [\d.]+m?s")
            for program in programs:
                self.assertGreater(shares.results_of(program, harness.GIVE_UP_S)[0]["progress"][-1][1], 0)
            self.assertIn("policy is replaced by band name=endless", server.log())


if __name__ == "__main__":
    unittest.main()
