#!/usr/bin/env python3
"""Sessions outlive their server: it saves them as it ends, and the next one goes on with them."""
import os
import signal
import subprocess
import unittest

import harness
from paging_case import GUARDED, PATIENT, PROGRAM, OutlivingCase


class SavedSessionsTest(OutlivingCase):
    def setUp(self):
        super().setUp()
        self.flags.insert(0, "--saved_sessions=%s" % (self.folder / "sessions"))

    def saved(self):
        return sorted(path.name for path in (self.folder / "sessions").glob("*-*"))

    @staticmethod
    def end(server):
        os.kill(server.pid, signal.SIGTERM)
        harness.wait_until(lambda: not server.running(), "the server ends")

    def test_a_busy_program_goes_on_on_one_server_after_another(self):
        server = self.serve()
        program = self.started(server, PROGRAM, "--compute_ms=20")
        for _ in range(4):
            self.end(server)
            self.assertEqual(self.saved(), ["session-1"], server.log_tail())
            server = self.serve(former=server)
            self.await_open(server)
            self.assertEqual(self.saved(), [])
        self.finish(program, server)
        # A new session has a number of its own.
        self.finish(self.started(server), server)
        self.assertIn("opened session=2", server.log())

    def test_a_program_whose_results_are_on_their_way_goes_on(self):
        # Its copies to the host fill what the worker may send, so that it waits for its client.
        words = "--words=%d" % (1 << 22)
        server = self.serve("--swap_host=1GiB")
        program = self.started(server, PROGRAM, words)
        for _ in range(6):
            self.end(server)
            self.assertEqual(self.saved(), ["session-1"], server.log_tail())
            server = self.serve("--swap_host=1GiB", former=server)
            self.await_open(server)
        self.finish(program, server)

    def test_sessions_over_connections_of_their_own_go_on(self):
        self.use_tls()
        server = self.serve()
        # Their copies go through bulk connections, whose memory ends with the server.
        program = harness.start_held(self.installation, server.endpoint, PROGRAM,
                                     "--words=%d" % (1 << 20), env=self.client)
        for _ in range(4):
            harness.wait_until(lambda: self.sessions(server)[0].get("transport") == "tls",
                               lambda: "a relay\n" + server.log_tail())
            self.end(server)
            self.assertEqual(self.saved(), ["session-1"], server.log_tail())
            server = self.serve(former=server)
            self.await_open(server)
        self.finish(program, server)

    def test_programs_that_share_memory_with_the_server_go_on(self):
        self.client = PATIENT
        server = self.serve()
        names = ["pinned_memory", "pinned_memory", PROGRAM]
        programs = [self.started(server, name) for name in names]
        for _ in range(4):
            self.end(server)
            self.assertEqual(len(self.saved()), len(names), server.log_tail(80))
            server = self.serve(former=server)
            self.await_open(server, len(names))
        for name, program in zip(names, programs):
            self.finish(program, server, name)
        # Nothing of it is left in the host's memory.
        self.assertNotIn("listens at the socket's name", server.log())

    def test_shared_memory_that_its_client_does_not_hand_over_is_waited_for(self):
        self.client = PATIENT
        self.flags[-1] = "--resume_seconds=1"
        server = self.serve()
        program = self.started(server, "pinned_memory")
        program.send_signal(signal.SIGSTOP)
        self.end(server)
        self.assertEqual(self.saved(), ["session-1"], server.log_tail())
        # The session is saved once more without its client.
        for _ in range(2):
            server = self.serve("--resume_seconds=%d" % harness.GIVE_UP_S, former=server)
            harness.wait_until(lambda: self.sessions(server), server.log_tail)
            self.end(server)
            self.assertEqual(self.saved(), ["session-1"], server.log_tail())
        server = self.serve("--resume_seconds=%d" % harness.GIVE_UP_S, former=server)
        program.send_signal(signal.SIGCONT)
        self.await_open(server)
        self.finish(program, server, "pinned_memory")

    def test_variables_and_many_sessions_go_on(self):
        server = self.serve("--max_sessions=20")
        names = ["variables"] * 2 + [PROGRAM] * 4
        programs = [self.started(server, name) for name in names]
        self.end(server)
        self.assertEqual(len(self.saved()), len(names), server.log_tail(80))
        server = self.serve("--max_sessions=20", former=server)
        self.await_open(server, len(names))
        for name, program in zip(names, programs):
            self.finish(program, server, name)

    def test_warpline_run_goes_on(self):
        server = self.serve()
        run = [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + server.endpoint,
               "--", str(self.installation.root / "bin/examples" / PROGRAM), "--held", "--words=2048"]
        env = {**os.environ, **self.client}
        program = subprocess.Popen(run, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        harness.await_held(program, PROGRAM)
        self.end(server)
        server = self.serve(former=server)
        self.await_open(server)
        self.finish(program, server)

    def test_sessions_of_a_scheduler_show_their_lease_again(self):
        scheduler = harness.Scheduler(self.installation)
        self.addCleanup(scheduler.close)
        self.flags += ["--scheduler=" + scheduler.endpoint, "--name=a"]
        server = self.serve()
        harness.wait_until(lambda: "up server=a" in scheduler.log(), "the server is up")
        program = harness.start_held(
            self.installation, scheduler.endpoint, PROGRAM, "--words=2048", env=self.client)
        lease = self.sessions(server)[0]["lease"]
        self.end(server)
        self.assertEqual(self.saved(), ["session-1"], server.log_tail())
        server = self.serve(former=server)
        self.await_open(server)
        self.assertEqual(self.sessions(server)[0]["lease"], lease)
        self.finish(program, server)

    def test_what_cannot_be_saved_ends_with_its_server_and_says_why(self):
        for why, env, flags in (
                ("it is of the guarded tier", {"WARPLINE_TIER": "guarded"}, GUARDED),
                ("its client cannot resume it", {"WARPLINE_RESUME_SECONDS": "0"}, ())):
            with self.subTest(why):
                server = self.serve("--drain_seconds=0", *flags)
                program = self.started(server, PROGRAM, "--words=%d" % (1 << 18), env=env)
                self.end(server)
                self.assertIn("cannot be saved and ends with the server: FAILED_PRECONDITION: " + why,
                              server.log())
                self.assertEqual(self.saved(), [])
                self.assertNotEqual(harness.finish(program)[0], 0)

    def test_a_client_that_is_gone_is_not_waited_for(self):
        self.flags[-1] = "--resume_seconds=1"
        server = self.serve()
        program = self.started(server)
        self.end(server)
        self.assertEqual(self.saved(), ["session-1"])
        program.kill()
        program.communicate()
        server = self.serve(former=server)
        harness.wait_until(lambda: "client vanished" in server.log(), "it is given up")
        harness.wait_until(lambda: not self.sessions(server), "it ends")
        self.assertEqual(self.saved(), [])

    def test_a_forged_session_is_refused_and_others_go_on(self):
        server = self.serve()
        programs = [self.started(server) for _ in range(3)]
        self.end(server)
        for name, file, at in (("session-1", "memory-1", 5000), ("session-2", "journal", 20)):
            path = self.folder / "sessions" / name / file
            content = bytearray(path.read_bytes())
            content[at] ^= 1
            path.write_bytes(content)
        server = self.serve(former=server)
        self.await_open(server)
        for number in (1, 2):
            harness.wait_until(lambda: "saved session=%d cannot go on" % number in server.log(),
                               server.log_tail)
        self.finish(programs[2], server)
        for program in programs[:2]:
            self.assertNotEqual(harness.finish(program)[0], 0)
        self.assertEqual(self.saved(), ["session-1", "session-2"])

    def test_only_one_server_uses_a_folder(self):
        self.serve()
        with self.assertRaisesRegex(harness.local_server.Error, "another server uses"):
            self.serve()
        (self.folder / "others").mkdir(mode=0o755)
        self.flags[0] = "--saved_sessions=%s" % (self.folder / "others")
        with self.assertRaisesRegex(harness.local_server.Error, "mode 0700"):
            self.serve()


if __name__ == "__main__":
    unittest.main()
