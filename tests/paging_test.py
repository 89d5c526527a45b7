#!/usr/bin/env python3
"""A session's memory leaves the device and comes back, and its program notices nothing."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import harness
from paging_case import GUARDED, PROGRAM, SWAP, PagingCase


class PagingTest(PagingCase):
    def test_out_and_in_again_and_again_the_results_are_right(self):
        with harness.server(self.installation, SWAP) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")
            for _ in range(10):
                self.page(server, "page-out", "its memory is away")
            self.page(server, "page-in", "its memory is back")
            self.finish(program, server)

    def test_a_session_that_does_nothing_stays_away_until_its_next_call(self):
        with harness.server(self.installation, SWAP) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM,
                                         "--words=2048", "--rest_ms=0")
            os.kill(program.pid, signal.SIGSTOP)
            before, = self.sessions(server)
            self.page(server, "page-out", "its memory is away")
            session, = self.sessions(server)
            self.assertEqual(int(session["away_bytes"]), int(before["memory_bytes"]))
            self.assertEqual(int(session.get("memory_bytes", 0)), 0)
            self.page(server, "page-out", "its memory is away")
            os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(
                lambda: int(self.sessions(server)[0].get("away_bytes", 0)) == 0, "it does not come back")
            self.finish(program, server)

    def test_a_worker_that_is_replaced_has_what_was_away(self):
        with harness.server(self.installation, SWAP, "--warm_workers=1") as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")
            for verb, said in (("page-out", "away"), ("replace", "replaced"), ("page-out", "away"),
                               ("page-in", "back"), ("replace", "replaced")):
                self.page(server, verb, said)
            self.finish(program, server)

    def kill_worker_while_away(self, server, program, number):
        """The memory of session `number` is away, and its program is stopped. It then goes on."""
        session, = [one for one in self.sessions(server) if int(one["id"]) == number]
        self.assertEqual(int(session.get("memory_bytes", 0)), 0)
        os.kill(int(session["worker_pid"]), signal.SIGKILL)
        harness.wait_until(lambda: re.search(r"worker died session=%d " % number, server.log()),
                           "its worker does not die")
        os.kill(program.pid, signal.SIGCONT)

    def test_a_worker_that_dies_while_its_memory_is_away_loses_nothing(self):
        with harness.server(self.installation, SWAP, "--warm_workers=1") as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")
            os.kill(program.pid, signal.SIGSTOP)
            self.page(server, "page-out", "its memory is away")
            session, = self.sessions(server)
            self.kill_worker_while_away(server, program, int(session["id"]))
            harness.wait_until(lambda: int(self.sessions(server)[0].get("restarts", 0)) == 1,
                               "no other worker takes over")
            self.finish(program, server)

    def test_what_the_program_mapped_itself_leaves_too(self):
        with harness.server(self.installation, SWAP) as server:
            program = harness.start_held(self.installation, server.endpoint, "mapped_memory")
            for _ in range(5):
                self.page(server, "page-out", "its memory is away")
            self.finish(program, server, "mapped_memory")

    def test_what_sessions_share_stays_and_the_rest_of_each_leaves(self):
        with harness.server(self.installation, SWAP) as server:
            program = harness.start_held(self.installation, server.endpoint, "shared_memory")
            before = self.sessions(server)
            self.assertEqual(len(before), 2)
            for _ in range(5):
                for session in before:
                    self.page(server, "page-out", "its memory is away", str(session["id"]))
            self.finish(program, server, "shared_memory")

    def test_a_session_that_shares_memory_can_be_suspended(self):
        with harness.server(self.installation, SWAP, "--warm_workers=1") as server:
            program = harness.start_held(self.installation, server.endpoint, "shared_memory")
            before = self.sessions(server)
            for session in before:
                done = False
                while not done:
                    status, output = self.warpline(server, "suspend", str(session["id"]))
                    done = status == 0
                    if not done:
                        self.assertRegex(output, "gone on meanwhile|being replaced")
                harness.wait_until(
                    lambda number=session["id"]: sum(
                        int(one.get("restarts", 0)) for one in self.sessions(server) if one["id"] == number) > 0,
                    "it does not go on")
            self.finish(program, server, "shared_memory")

    def start_guarded(self, server, *flags):
        return harness.start_held(self.installation, server.endpoint, PROGRAM, *flags,
                                  env={"WARPLINE_TIER": "guarded"})

    def by_pid(self, server, program):
        session, = [one for one in self.sessions(server) if int(one["client_pid"]) == program.pid]
        return session

    def test_guarded_memory_leaves_below_a_worker_that_others_share(self):
        with harness.server(self.installation, SWAP, *GUARDED) as server:
            programs = [self.start_guarded(server, "--words=2048", "--seed=%d" % seed) for seed in (1, 2)]
            numbers = [self.by_pid(server, program)["id"] for program in programs]
            for _ in range(5):
                for number in numbers:
                    self.page(server, "page-out", "its memory is away", str(number))
            for program in programs:
                self.finish(program, server)
            workers = re.findall(r"worker opened .*", server.log())
            self.assertNotIn("worker died", server.log(), workers)

    def test_a_guarded_session_stays_away_and_its_own_memory_stays(self):
        with harness.server(self.installation, SWAP, *GUARDED) as server:
            program = self.start_guarded(server, "--words=2048", "--rest_ms=0")
            os.kill(program.pid, signal.SIGSTOP)
            before, = self.sessions(server)
            self.page(server, "page-out", "its memory is away")
            session, = self.sessions(server)
            away = int(session["away_bytes"])
            left = int(session.get("memory_bytes", 0))
            self.assertGreater(away, left)
            self.assertEqual(away + left, int(before["memory_bytes"]))
            os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(
                lambda: int(self.sessions(server)[0].get("away_bytes", 0)) == 0, "it does not come back")
            self.finish(program, server)

    def test_a_shared_worker_that_dies_while_memory_is_away_loses_nothing(self):
        with harness.server(self.installation, SWAP, *GUARDED) as server:
            programs = [self.start_guarded(server, "--words=2048", "--seed=%d" % seed) for seed in (1, 2)]
            for program in programs:
                os.kill(program.pid, signal.SIGSTOP)
            away = self.by_pid(server, programs[0])
            self.page(server, "page-out", "its memory is away", str(away["id"]))
            os.kill(int(away["worker_pid"]), signal.SIGKILL)
            for program in programs:
                os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(
                lambda: [int(one.get("restarts", 0)) for one in self.sessions(server)] == [1, 1],
                "no other worker takes over")
            for program in programs:
                self.finish(program, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs two devices")
    def test_memory_of_several_devices_leaves_together(self):
        # The later flag holds.
        with harness.server(self.installation, SWAP, "--device=cpu:2") as server:
            program = harness.start_held(self.installation, server.endpoint, "both_devices",
                                         env={"CUDA_VISIBLE_DEVICES": "0,1"})
            for _ in range(5):
                self.page(server, "page-out", "its memory is away")
            self.finish(program, server, "both_devices")

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs two devices")
    def test_where_memory_of_one_device_does_not_fit_all_of_it_stays(self):
        with harness.server(self.installation, "--swap_host=2MiB", "--device=cpu:2") as server:
            program = harness.start_held(self.installation, server.endpoint, "both_devices",
                                         env={"CUDA_VISIBLE_DEVICES": "0,1"})
            # Before, its memory is zeros, which take no room.
            harness.await_work(self.installation, server.endpoint, program)
            status, output = self.warpline(server, "page-out")
            self.assertEqual(status, 1, output)
            self.assertIn("host memory", output)
            self.finish(program, server, "both_devices")

    def test_the_operators_word_is_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            with harness.server(self.installation, SWAP, "--audit_dir=" + folder) as server:
                program = harness.start_held(self.installation, server.endpoint, PROGRAM,
                                             "--words=2048")
                self.page(server, "page-out", "its memory is away")
                self.page(server, "page-in", "its memory is back")
                self.finish(program, server)
            recorded = "".join(path.read_text() for path in pathlib.Path(folder).glob("*"))
            actions = [json.loads(line) for line in recorded.splitlines() if "admin.page" in line]
            self.assertEqual([(one["action"], one["outcome"]) for one in actions],
                             [("out", "OK"), ("in", "OK")])

    def test_killed_at_random_in_the_midst_nothing_is_lost(self):
        self.check_kills()

    def test_nothing_is_lost_when_relays_are_killed_too(self):
        self.check_kills("--ucx")

    def test_nothing_is_lost_when_guarded_workers_are_killed_too(self):
        self.check_kills("--guarded")

    def check_kills(self, *options):
        kills = pathlib.Path(harness.ROOT / "tests/chaos/kills.py")
        environment = dict(os.environ, PYTHONPATH=str(harness.RUNFILES / "deploy/local"))
        run = subprocess.run(
            ["python3", str(kills), "--bundle=%s" % self.installation.root,
             "--device=" + harness.DEVICE, "--kills=30", "--page", "--parallel=2", "--seconds=5",
             "--words=1024", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
        print(run.stdout)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, r"kills=(\d+) .*failures=0")

    def test_without_host_memory_it_is_refused_by_name(self):
        with harness.server(self.installation) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")
            status, output = self.warpline(server, "page-out")
            self.assertEqual(status, 1, output)
            self.assertIn("--swap_host", output)
            self.finish(program, server)

    def test_with_too_little_host_memory_the_session_goes_on(self):
        with harness.server(self.installation, "--swap_host=2MiB") as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM,
                                         "--words=%d" % (1 << 20))
            status, output = self.warpline(server, "page-out")
            self.assertEqual(status, 1, output)
            self.assertIn("host memory", output)
            self.finish(program, server)

    def moved(self, server):
        """The sessions that were moved for others, one for each time."""
        return re.findall(r"moved to the host session=(\d+) .* error=$", server.log(), re.MULTILINE)

    def small_server(self, overcommit, *flags, mib=24):
        """A server whose device has `mib`. Programs with WORDS have 15 MiB."""
        with harness.server(self.installation) as server:
            have = int(re.search(r"device gpu=0 .* memory_bytes=(\d+)", server.log())[1])
        return harness.server(self.installation, "--device_reserve=%d" % (have - (mib << 20)),
                              "--swap_host=128MiB", "--memory_overcommit=%s" % overcommit, *flags)

    WORDS = "--words=%d" % (5 << 17)

    def trace(self, server):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            status, output = self.warpline(server, "trace", "--seconds=2", "-o", str(path))
            self.assertEqual(status, 0, output)
            return json.loads(path.read_text())

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_two_programs_that_do_not_fit_take_turns(self):
        with self.small_server(2) as server:
            programs = [harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS,
                                           "--seed=%d" % seed) for seed in (1, 2)]
            harness.wait_until(
                lambda: min(self.moved(server).count(str(one["id"])) for one in self.sessions(server)) >= 2,
                "they take no turns")
            trace = self.trace(server)
            moves = [event["args"] for event in trace["traceEvents"] if event.get("cat") == "move"]
            self.assertTrue(any(move["reason"] in ("idle", "used_up") for move in moves), moves)
            ids = {int(one["id"]) for one in self.sessions(server)}
            for move in moves:
                self.assertIn(move["session"], ids)
                self.assertEqual("for_session" in move, move["reason"] in ("idle", "used_up"), move)
            for program in programs:
                self.finish(program, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_guarded_programs_that_do_not_fit_take_turns_in_one_context(self):
        with self.small_server(2, *GUARDED, "--guarded_memory=64MiB", mib=96) as server:
            programs = [self.start_guarded(server, "--words=2048", "--seed=%d" % seed) for seed in (1, 2)]
            self.assertGreater(sum(int(one.get("memory_bytes", 0)) + int(one.get("away_bytes", 0))
                                   for one in self.sessions(server)), 96 << 20)
            harness.wait_until(
                lambda: min(self.moved(server).count(str(one["id"])) for one in self.sessions(server)) >= 2,
                "they take no turns")
            for program in programs:
                self.finish(program, server)
            self.assertEqual(len(harness.server_processes(server.pid, "warpline-worker")), 1)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_an_idle_program_makes_room_and_is_named(self):
        with self.small_server(2) as server:
            idle = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
            os.kill(idle.pid, signal.SIGSTOP)
            first, = self.sessions(server)
            busy = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
            self.assertEqual(self.moved(server), [str(first["id"])])
            self.assertRegex(server.log(), "moved to the host .*reason=(idle|ahead)")
            os.kill(idle.pid, signal.SIGCONT)
            self.finish(busy, server)
            self.finish(idle, server)

    def start_that_is_away(self, server, name, words):
        """A stopped program whose memory has made room for another. Returns its number, and both."""
        idle = harness.start_held(self.installation, server.endpoint, name, words)
        os.kill(idle.pid, signal.SIGSTOP)
        session, = self.sessions(server)
        busy = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
        self.assertEqual(self.moved(server), [str(session["id"])])
        return int(session["id"]), idle, busy

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_a_worker_that_dies_while_there_is_no_room_for_its_memory_loses_nothing(self):
        with self.small_server(2) as server:
            number, idle, busy = self.start_that_is_away(server, PROGRAM, self.WORDS)
            self.kill_worker_while_away(server, idle, number)
            harness.wait_until(lambda: re.search(r"worker replaced session=%d " % number, server.log()),
                               "no other worker takes over")
            self.finish(idle, server)
            self.finish(busy, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_what_is_away_of_a_session_that_fails_is_read_once_there_is_room(self):
        with self.small_server(2) as server:
            number, idle, busy = self.start_that_is_away(server, "variables", "--words=%d" % (3 << 20))
            self.kill_worker_while_away(server, idle, number)
            harness.wait_until(lambda: idle.poll() is not None, "it does not meet the error")
            status, stdout, stderr = harness.finish(idle)
            self.assertEqual(status, 3, stdout + stderr + server.log_tail())
            self.assertIn("variables: LOST error=719", stdout)
            self.finish(busy, server)

    def start_in_one_lease(self, server, count):
        """So many programs with WORDS, once each has its memory."""
        program = "%s --held %s --seed=$seed <&3 &" % (
            self.installation.root / "bin/examples" / PROGRAM, self.WORDS)
        lease = subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + server.endpoint,
             "--sessions=%d" % count, "--", "sh", "-c",
             "exec 3<&0; for seed in $(seq %d); do %s done; wait" % (count, program)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        harness.wait_until(
            lambda: sum(int(one.get("memory_bytes", 0)) + int(one.get("away_bytes", 0)) >= 15 << 20
                        for one in self.sessions(server)) == count,
            lambda: "they do not start: " + server.log_tail())
        return lease

    def finish_lease(self, lease, count):
        output = lease.communicate(timeout=harness.GIVE_UP_S)[0]
        self.assertEqual(output.count(PROGRAM + ": ok"), count, output)

    def test_sessions_of_a_lease_take_turns_within_its_limit_which_can_be_changed(self):
        with harness.server(self.installation, "--swap_host=512MiB") as server:
            lease = self.start_in_one_lease(server, 2)
            self.assertEqual(self.moved(server), [])
            other = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
            first, second, third = sorted(int(one["id"]) for one in self.sessions(server))
            status, output = self.warpline(server, "limit", str(first), "--resident=4MiB")
            self.assertEqual(status, 1, output)
            self.assertIn("would never be whole there again", output)
            # All of one, and half of the other.
            most = int(1.5 * max(int(one["memory_bytes"]) for one in self.sessions(server)))
            self.page(server, "limit", "its lease has the limit", str(first), "--resident=%d" % most)
            harness.wait_until(
                lambda: min(self.moved(server).count(str(one)) for one in (first, second)) >= 2,
                "they take no turns")
            self.assertNotIn(str(third), self.moved(server))
            here = [int(one.get("memory_bytes", 0)) for one in self.sessions(server)
                    if int(one["id"]) != third]
            self.assertLessEqual(sum(here), most)
            self.page(server, "limit", "its lease has the limit", str(second), "--resident=0")
            harness.wait_until(
                lambda: not any(int(one.get("away_bytes", 0)) for one in self.sessions(server)),
                "without a limit both are back")
            self.finish(other, server)
            self.finish_lease(lease, 2)

    def test_a_limit_needs_memory_of_the_host(self):
        with harness.server(self.installation) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048")
            status, output = self.warpline(server, "limit", "--resident=1GiB")
            self.assertEqual(status, 1, output)
            self.assertIn("--swap_host", output)
            status, output = self.warpline(server, "limit")
            self.assertEqual(status, 2, output)
            self.assertIn("--resident=SIZE", output)
            self.finish(program, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_beyond_the_limit_a_program_is_refused_by_name(self):
        with self.small_server(1.1) as server:
            first = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
            status, stdout, stderr = harness.finish(
                harness.start(self.installation, server.endpoint, PROGRAM, self.WORDS))
            self.assertNotEqual(status, 0, stdout + stderr)
            self.assertIn("the device's sessions may have", stderr)
            self.finish(first, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs a small device")
    def test_memory_that_cannot_be_moved_leaves_room_for_what_is_away(self):
        with self.small_server(4, "--tiers=isolated,guarded", "--guarded_memory=32MiB",
                               mib=40) as server:
            away = harness.start_held(self.installation, server.endpoint, PROGRAM, self.WORDS)
            os.kill(away.pid, signal.SIGSTOP)
            self.page(server, "page-out", "its memory is away")
            # A guarded session keeps its memory: it is refused, or has what is left beside the other.
            guarded = subprocess.Popen(
                [str(self.installation.root / "bin/warpline"), "run", "--tier=guarded",
                 "--endpoint=" + server.endpoint, "--",
                 str(self.installation.root / "bin/examples" / PROGRAM), "--held", "--words=2048"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            guarded.stdout.readline()
            os.kill(away.pid, signal.SIGCONT)
            self.finish(away, server)
            guarded.communicate()

    def test_overcommit_needs_memory_of_the_host(self):
        with self.assertRaises(harness.local_server.Error) as raised:
            with harness.server(self.installation, "--memory_overcommit=1.5"):
                pass
        self.assertIn("--memory_overcommit needs --swap_host", str(raised.exception))

    def test_a_server_whose_host_has_less_does_not_start(self):
        with self.assertRaises(harness.local_server.Error) as raised:
            with harness.server(self.installation, "--swap_host=64TiB"):
                pass
        self.assertIn("bytes to move device memory to", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
