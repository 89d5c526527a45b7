#!/usr/bin/env python3
"""Slices end to end on the CPU device: a scheduler, a server, programs that take more than their
slice is of each thing that it bounds, and clients that do all they can to get round it."""
import collections
import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest
import urllib.request

import harness

# Of the storm, for longer ones by hand.
SESSIONS = int(os.environ.get("SESSIONS", "40"))
SEED = int(os.environ.get("SEED", "1"))
MIB = 1 << 20
# Beyond the window, for the answers of host functions (kHostDoneWindow in proto/frames.h).
HOST_DONE_WINDOW = 64

# The shape that is exceeded, in what `warpline slice add` takes.
SHAPE = {"memory": "256MiB", "staging": "16MiB", "sessions": 4, "handles": 200, "module_bytes": "4MiB",
         "commands": 128, "sm_percent": 50, "weight": 2}


class Neighbour:
    """Another tenant's programs, one after another, each of which has to be right."""

    def __init__(self, test, credential):
        self._test, self._credential = test, credential
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.runs, self.wrong = 0, []

    def _run(self):
        while not self._stop.is_set():
            status, out, errors = self._test.run_program(self._credential, "vector_add")
            if status != 0 or "vector_add: ok" not in out:
                self.wrong.append(out + errors)
            self.runs += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class SlicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/vector_add": "examples/vector_add",
            "bin/slice_limits": "tests/cuda/slice_limits",
            "bin/limit_storm": "tests/attack/limit_storm"})
        cls.bin = cls.installation.root / "bin"

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(self.scheduler.close)
        self.tenants = {}

    @contextlib.contextmanager
    def serving(self, *flags):
        credential = self.scheduler.folder / "server"
        credential.write_text(self.warpline("servers", "add", "a"))
        with harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint, "--name=a",
                            "--scheduler_credential_file=%s" % credential, "--warm_workers=0",
                            "--tiers=isolated,guarded", "--noguarded_standby", *flags) as server:
            harness.wait_until(lambda: "up server=a" in self.scheduler.log(), "the server is known")
            yield server

    def environment(self, credential="", **more):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"], env["LD_LIBRARY_PATH"]
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(self.scheduler.folder / "state/operator.credential")
        if credential:
            env["WARPLINE_CREDENTIAL"] = credential
        env.update(more)
        return env

    def ask(self, *arguments, endpoint=None, **env):
        """(status, stdout, stderr)"""
        done = subprocess.run([str(self.bin / "warpline"), *arguments,
                               "--endpoint=" + (endpoint or self.scheduler.endpoint)],
                              env=self.environment(**env), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=harness.GIVE_UP_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def warpline(self, *arguments, **more):
        status, out, errors = self.ask(*arguments, **more)
        self.assertEqual(status, 0, errors)
        return out

    def slice(self, action, name, **shape):
        return self.warpline("slice", action, name, *("--%s=%s" % part for part in shape.items()))

    def tenant(self, name, *limits):
        return self.warpline("tenant", "add", name, *limits).strip()

    def start(self, credential, program, *arguments, options=(), **env):
        return subprocess.Popen(
            [str(self.bin / "warpline"), "run", "--endpoint=" + self.scheduler.endpoint, *options, "--",
             str(self.bin / program), *arguments],
            env=self.environment(credential, **env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def run_program(self, credential, program, *arguments, **more):
        """(status, stdout, stderr)"""
        return harness.finish(self.start(credential, program, *arguments, **more))

    def taken(self, credential, what, *arguments, **more):
        """How much `slice_limits WHAT` got, and which error ended it."""
        status, out, errors = self.run_program(credential, "slice_limits", what, *arguments, **more)
        found = re.search(r"slice_limits: %s took=(\d+) error=(\w+)" % what, out)
        self.assertIsNotNone(found, "status %d\n%s\n%s" % (status, out, errors))
        return int(found[1]), found[2]

    def stat(self, server):
        return json.loads(self.warpline("stat", "--json", endpoint=server.endpoint))

    # --- What operators and tenants ask for.

    def test_a_lease_has_no_more_of_a_device_at_a_time_than_its_slice_says(self):
        self.slice("add", "half", memory="64MiB", resident="32MiB")
        self.assertRegex(self.warpline("slice", "list"), "half .*64.* .*32")
        for wrong in ("128MiB", "1MiB"):
            status, _, errors = self.ask("slice", "set", "half", "--resident=" + wrong)
            self.assertNotEqual(status, 0)
            self.assertIn("--resident=", errors)
        credential = self.tenant("t", "--slices=half")
        with self.serving("--swap_host=256MiB") as server:
            # One session cannot have more at any time.
            taken, error = self.taken(credential, "memory")
            self.assertEqual(error, "cudaErrorMemoryAllocation")
            self.assertLessEqual(taken, 32)
            self.assertGreater(taken, 16)
            _, out, errors = self.run_program(credential, "slice_limits", "seen")
            self.assertIn("slice_limits: seen took=32 error=cudaSuccess", out, errors)
            self.assertIn("resident_bytes=%d" % (32 * MIB), self.scheduler.log())
            self.assertNotIn("protocol_error", server.log())

    def test_slices_are_made_changed_shown_and_removed(self):
        self.slice("add", "small", memory="1GiB", handles=1000)
        self.slice("set", "small", sm_percent=25, handles=0)
        listed, = json.loads(self.warpline("slice", "list", "--json"))["slices"]
        self.assertEqual((listed["name"], listed["memory_bytes"], listed["sm_percent"]),
                         ("small", str(1 << 30), 25))
        self.assertRegex(self.warpline("slice"), r"SLICE +MEMORY.*\nsmall +1\.0 GiB")
        self.slice("set", "small", period_ms=20, budget_ms=6)
        listed, = json.loads(self.warpline("slice", "list", "--json"))["slices"]
        self.assertEqual((listed["period_ms"], listed["budget_ms"], listed["sm_percent"]), (20, 6, 25))
        for arguments, why in ((("add", "small"), "there is a slice small"),
                               (("add", "any"), "cannot be called any"),
                               (("add", "a/b"), "letters, digits"),
                               (("set", "large"), "there is no slice large"),
                               (("remove", "large"), "there is no slice large"),
                               (("set", "small", "--commands=3"), "--commands=3 of slice small: expected 0 for "
                                                                  "the default, or 64 to 65536"),
                               (("set", "small", "--budget_ms=0"), "--period_ms and --budget_ms stand together"),
                               (("set", "small", "--budget_ms=19"), "a slice has at most 90 % of its period of 20 ms"),
                               (("set", "small", "--memory=1"), "--memory=1 of slice small")):
            with self.subTest(arguments):
                status, _, errors = self.ask("slice", *arguments)
                self.assertEqual(status, 1)
                self.assertIn(why, errors)
        self.tenant("vision", "--slices=small")
        self.assertIn("tenant vision has slice small", self.ask("slice", "remove", "small")[2])
        self.assertIn("there is no slice large", self.ask("tenant", "set", "vision", "--slices=large")[2])
        self.warpline("tenant", "set", "vision", "--slices=none")
        self.slice("remove", "small")
        self.assertEqual(json.loads(self.warpline("slice", "list", "--json")).get("slices", []), [])

    def test_a_run_is_of_a_slice_that_its_tenant_has(self):
        with self.serving() as server:
            self.slice("add", "small", memory="256MiB", sessions=2)
            self.slice("add", "large", memory="512MiB")
            vision = self.tenant("vision", "--slices=small")
            speech = self.tenant("speech", "--slices=any", "--memory=300MiB")
            plain = self.tenant("plain")
            for credential, options, why in (
                    (vision, ["--slice=large"], "tenant vision may not have slice large: only small"),
                    (vision, ["--memory=1GiB"], "slice small has 256 MiB; 1024 MiB wanted"),
                    (vision, ["--sessions=3"], "slice small has 2 sessions; 3 wanted"),
                    (plain, ["--slice=small"], "tenant plain may not have slice small: it has none"),
                    (speech, ["--slice=huge"], "there is no slice huge"),
                    (speech, ["--slice=large"], "tenant speech may lease 300 MiB")):
                with self.subTest(options):
                    status, _, errors = self.run_program(credential, "vector_add", options=options)
                    self.assertEqual(status, 1)
                    self.assertIn(why, errors)
            # The variable stands for the option, and a client that dials the scheduler itself says it, too.
            status, _, errors = self.run_program(plain, "vector_add", WARPLINE_SLICE="small")
            self.assertIn("may not have slice small", errors)
            hold = self.start(vision, "slice_limits", "hold", "--piece=8")
            try:
                harness.wait_until(lambda: self.stat(server).get("sessions"), "a session")
                lease, = json.loads(self.warpline("lease", "list", "--json"))["leases"]
                self.assertEqual((lease["slice"], lease["memory_bytes"], lease["max_sessions"]),
                                 ("small", str(256 * MIB), 2))
                self.assertEqual(self.stat(server)["sessions"][0]["quota_bytes"], str(256 * MIB))
            finally:
                hold.terminate()
                hold.communicate()
            env = dict(self.installation.client_environment(self.scheduler.endpoint), WARPLINE_CREDENTIAL=vision)
            for name, works in (("small", True), ("large", False)):
                done = subprocess.run([str(self.bin / "vector_add")], env=dict(env, WARPLINE_SLICE=name),
                                      capture_output=True, text=True, timeout=harness.GIVE_UP_S, check=False)
                self.assertEqual(done.returncode == 0, works, done.stdout + done.stderr)
        with harness.server(self.installation) as alone:
            done = subprocess.run([str(self.bin / "warpline"), "run", "--endpoint=" + alone.endpoint,
                                   "--slice=small", "--", "true"], env=self.environment(), capture_output=True,
                                  text=True, timeout=harness.GIVE_UP_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("slices are a scheduler's", done.stderr)

    def test_a_slice_that_changes_is_for_new_leases(self):
        with self.serving() as server:
            self.slice("add", "small", memory="256MiB")
            vision = self.tenant("vision", "--slices=small")
            hold = self.start(vision, "slice_limits", "hold", "--piece=8")
            try:
                harness.wait_until(lambda: self.stat(server).get("sessions"), "a session")
                self.slice("set", "small", memory="128MiB")
                # The lease is renewed several times meanwhile.
                time.sleep(harness.LEASE_TTL_S)
                self.assertEqual(self.stat(server)["sessions"][0]["quota_bytes"], str(256 * MIB))
                self.assertLessEqual(self.taken(vision, "memory")[0], 128)
            finally:
                hold.terminate()
                hold.communicate()

    # --- What bounds programs.

    def exceed(self, credential, server, tier):
        options = ["--tier=" + tier]
        take = lambda what, *arguments: self.taken(credential, what, *arguments, options=options)
        with self.subTest("memory", tier=tier):
            took, error = take("memory", "--piece=8")
            self.assertEqual(error, "cudaErrorMemoryAllocation")
            self.assertTrue(128 <= took <= 256, took)
        with self.subTest("handles", tier=tier):
            took, error = take("handles")
            self.assertEqual(error, "cudaErrorMemoryAllocation")
            self.assertTrue(100 <= took <= 200, took)
        with self.subTest("module bytes", tier=tier):
            took, error = take("modules", "--piece=1")
            self.assertEqual(error, "cudaErrorMemoryAllocation")
            self.assertTrue(2 <= took <= 4, took)
        with self.subTest("launch time", tier=tier):
            took = self.taken(credential, "launch", options=[*options, "--slice=short"])
            self.assertEqual(took, (1, "cudaErrorLaunchTimeout"))
            self.assertIn("longer than 400ms", server.log())
        with self.subTest("commands", tier=tier):
            self.exceed_commands(credential, server, options)

    # What is beyond waits, as launches do that CUDA's own queue has no room for.
    def exceed_commands(self, credential, server, options):
        release = self.scheduler.folder / "release"
        release.unlink(missing_ok=True)
        process = self.start(credential, "slice_limits", "commands", "--count=1000", "--release=%s" % release,
                             options=options)
        in_flight = lambda: max((s.get("commands_in_flight", 0) for s in self.stat(server).get("sessions", [])
                                 if s["tenant"] == "vision"), key=int, default=0)
        harness.wait_until(lambda: int(in_flight()) >= 100, "commands in flight")
        for _ in range(10):
            self.assertLessEqual(int(in_flight()), SHAPE["commands"] + HOST_DONE_WINDOW)
            self.assertIsNone(process.poll())
        release.touch()
        status, out, errors = harness.finish(process)
        self.assertEqual(status, 0, out + errors)
        self.assertIn("commands took=1001 error=cudaSuccess", out)

    def test_what_exceeds_a_slice_is_refused_while_a_neighbour_goes_on(self):
        with self.serving() as server:
            self.slice("add", "small", **SHAPE)
            # Of its own: where others keep the processors busy, a good kernel may take as long.
            self.slice("add", "short", memory=SHAPE["memory"], launch_ms=400)
            vision = self.tenant("vision", "--slices=small,short")
            with Neighbour(self, self.tenant("neighbour")) as neighbour:
                self.exceed(vision, server, "isolated")
                self.exceed(vision, server, "guarded")
                with self.subTest("staging"):
                    took, error = self.taken(vision, "staging", "--piece=1")
                    self.assertEqual(error, "cudaErrorMemoryAllocation")
                    self.assertTrue(1 <= took <= 16, took)
            self.assertEqual(neighbour.wrong, [])
            self.assertGreater(neighbour.runs, 0)
            self.expect_nothing_left(server)

    def test_green_contexts_keep_to_the_slices_multiprocessors(self):
        cores = len(os.sched_getaffinity(0))
        with self.serving():
            self.slice("add", "half", memory=SHAPE["memory"], sm_percent=50)
            vision = self.tenant("vision", "--slices=half")
            self.assertEqual(self.taken(vision, "multiprocessors", options=("--tier=isolated",)),
                             (max(1, cores // 2), "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"))
            self.assertEqual(self.taken(vision, "multiprocessors", options=("--tier=guarded",)),
                             (cores, "CUDA_ERROR_NOT_SUPPORTED"))

    # --- Who tries to get round it.

    def expect_nothing_left(self, server):
        harness.wait_until(lambda: not self.stat(server).get("sessions"), "the sessions are over")
        harness.wait_until(lambda: int(self.stat(server)["devices"][0].get("granted_bytes", 0)) == 0,
                           lambda: "empty books: %s" % self.stat(server))

    def watch(self, server, process):
        """Until the process ends: the most that a lease had of memory and sessions, and a session of handles."""
        most = {"memory": 0, "sessions": 0, "handles": 0, "module_bytes": 0}
        while process.poll() is None:
            sessions = [s for s in self.stat(server).get("sessions", []) if s.get("tenant") == "vision"]
            used = {s["lease"]: int(s.get("quota_used_bytes", 0)) for s in sessions}
            most["memory"] = max([most["memory"], *used.values()])
            # Those of a lease before this one may still be ending.
            of_leases = collections.Counter(s["lease"] for s in sessions)
            most["sessions"] = max([most["sessions"], *of_leases.values()])
            for s in sessions:
                for name in ("handles", "module_bytes"):
                    most[name] = max(most[name], int(s.get(name, 0)))
        return most

    def test_threads_and_processes_get_no_more_together(self):
        with self.serving() as server:
            self.slice("add", "small", **SHAPE)
            vision = self.tenant("vision", "--slices=small")
            for what, arguments in (("threads", ["--threads=64", "--piece=2"]),
                                    ("forks", ["--processes=8", "--piece=2"])):
                with self.subTest(what):
                    process = self.start(vision, "slice_limits", what, *arguments)
                    most = self.watch(server, process)
                    status, out, errors = harness.finish(process)
                    found = re.search(r"took=(\d+) error=(\w+)", out)
                    self.assertEqual(status, 0, out + errors)
                    self.assertEqual(found[2], "cudaErrorMemoryAllocation")
                    self.assertTrue(128 <= int(found[1]) <= 256, out)
                    self.assertLessEqual(most["memory"], 256 * MIB)
                    self.assertLessEqual(most["sessions"], SHAPE["sessions"])
            took, error = self.taken(vision, "sessions", "--processes=6")
            self.assertEqual(took, SHAPE["sessions"])
            self.assertNotEqual(error, "cudaSuccess")
            self.expect_nothing_left(server)

    def test_no_sequence_of_sessions_exceeds_a_limit_or_leaves_anything(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self.serving("--resume_seconds=1", "--admin_listen=127.0.0.1:%d" % port) as server:
            shape = dict(SHAPE, sessions=8, staging=0)
            self.slice("add", "storm", **shape)
            vision = self.tenant("vision", "--slices=storm")
            plain = self.tenant("plain")
            # What the first session brings about stays, such as each tenant's compiler.
            for credential in (plain, vision):
                for tier in ("isolated", "guarded"):
                    status, out, errors = self.run_program(credential, "vector_add", options=["--tier=" + tier])
                    self.assertEqual(status, 0, out + errors)
            self.expect_nothing_left(server)
            before = self.held_by(server)
            # That of the shared worker's host windows.
            host_memory = self.host_memory(port)
            begun = time.monotonic()
            with Neighbour(self, plain) as neighbour:
                storm = self.start(vision, "limit_storm", "--sessions=%d" % SESSIONS, "--seed=%d" % SEED,
                                   "--threads=8", "--memory=%d" % (256 * MIB), "--handles=%d" % shape["handles"],
                                   "--module_bytes=%d" % (4 * MIB), "--commands=%d" % shape["commands"],
                                   "--lease_sessions=%d" % shape["sessions"])
                most = self.watch(server, storm)
                status, out, errors = harness.finish(storm, timeout_s=max(harness.GIVE_UP_S, SESSIONS))
            print("%s, in %.0f s; at most %s; %d runs of the neighbour" % (
                out.strip(), time.monotonic() - begun, most, neighbour.runs))
            self.assertEqual(status, 0, out + errors + server.log_tail())
            self.assertEqual(neighbour.wrong, [])
            self.assertGreater(neighbour.runs, 0)
            self.assertLessEqual(most["memory"], 256 * MIB)
            self.assertLessEqual(most["sessions"], shape["sessions"])
            self.assertLessEqual(most["handles"], shape["handles"])
            self.assertLessEqual(most["module_bytes"], 4 * MIB)
            opened = int(re.search(r"(\d+) opened", out)[1])
            self.assertEqual(opened, SESSIONS)
            self.expect_nothing_left(server)
            harness.wait_until(lambda: self.host_memory(port) == host_memory,
                               lambda: "host memory: %s, %s" % (host_memory, self.host_memory(port)))
            for metric in ("handles", "module_bytes", "staging_bytes", "commands_in_flight"):
                harness.wait_until(lambda metric=metric: self.metric(port, metric) == 0, metric + " is 0")
            harness.wait_until(lambda: self.held_by(server) <= before,
                               lambda: "the server holds what it held before: %s, %s" % (before, self.held_by(server)))
            self.assertTrue(server.running(), server.log_tail())

    def test_the_storm_sees_what_is_not_bounded(self):
        with self.serving():
            self.slice("add", "unbounded", memory="256MiB", sessions=8)
            vision = self.tenant("vision", "--slices=unbounded")
            wanted = {"bytes of memory", "handles", "bytes of images", "commands in flight", "sessions"}
            seen = ""
            # What a session tries is drawn, and some of it is a matter of time.
            for seed in range(1, 21):
                _, out, errors = self.run_program(
                    vision, "limit_storm", "--sessions=60", "--threads=4", "--memory=%d" % (32 * MIB), "--handles=100",
                    "--module_bytes=%d" % MIB, "--commands=64", "--lease_sessions=1", "--seed=%d" % seed)
                seen += out
                missing = {kind for kind in wanted if not re.search(r"session \d+ had \d+ " + kind, seen)}
                if not missing:
                    return
            self.fail("not seen: %s\n%s" % (missing, errors))

    def held_by(self, server):
        """Descriptors of the server, and its isolated workers."""
        return (harness.descriptors(server.pid),
                len(harness.server_processes(server.pid, "warpline-worker")))

    def host_memory(self, port):
        return self.metric(port, "host_memory_bytes")

    def metric(self, port, name):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as page:
            for line in page.read().decode().splitlines():
                if line.startswith("warpline_" + name + " "):
                    return float(line.rsplit(" ", 1)[1])
        raise AssertionError("no metric " + name)


if __name__ == "__main__":
    unittest.main()
