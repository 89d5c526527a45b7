#!/usr/bin/env python3
"""Sessions are saved in a folder, and go on from it at this server or another one."""
import json
import os
import re
import signal
import subprocess
import unittest

import harness
from paging_case import GUARDED, PROGRAM, OutlivingCase

SAVED = re.compile(r"saved (\d+) sessions with \S+ \S+ of device memory, (\S+ \S+) of it anew")
RESTORED = re.compile(r"restored (\d+) sessions with \S+ \S+ of device memory")


class CheckpointTest(OutlivingCase):
    def setUp(self):
        super().setUp()
        self.checkpoint = self.folder / "checkpoint"

    def save(self, server, what, *options, sessions=1):
        """Returns the bytes that were written, as they are shown."""
        code, output = self.warpline(server, "checkpoint", what, str(self.checkpoint), *options)
        self.assertEqual(code, 0, output + server.log_tail())
        self.assertEqual(int(SAVED.search(output)[1]), sessions, output)
        return SAVED.search(output)[2]

    def restore(self, server, *options, sessions=1):
        code, output = self.warpline(server, "restore", str(self.checkpoint), *options)
        self.assertEqual(code, 0, output + server.log_tail())
        self.assertEqual(int(RESTORED.search(output)[1]), sessions, output)

    def refused(self, server, verb, *arguments):
        """Returns why."""
        code, output = self.warpline(server, verb, *arguments)
        self.assertEqual(code, 1, output)
        return output

    def number(self, server):
        return str(self.sessions(server)[0]["id"])

    def test_a_busy_program_goes_on_while_it_is_saved(self):
        server = self.serve()
        program = self.started(server, PROGRAM, "--compute_ms=20")
        for _ in range(4):
            self.save(server, self.number(server))
            self.await_open(server)
            self.assertEqual(self.number(server), "1")
        self.finish(program, server)

    def test_a_session_that_ended_is_restored(self):
        server = self.serve()
        program = self.started(server)
        for _ in range(3):
            self.save(server, self.number(server), "--end")
            harness.wait_until(lambda: not self.sessions(server), "the session has ended here")
            self.restore(server)
            self.await_open(server)
        self.finish(program, server)
        self.assertIn("from=checkpoint", server.log())

    def test_a_session_goes_on_at_a_server_that_was_started_anew(self):
        first = self.serve()
        program = self.started(first)
        self.save(first, self.number(first), "--end")
        # A client that finds a server without its session would give up.
        program.send_signal(signal.SIGSTOP)
        os.kill(first.pid, signal.SIGTERM)
        harness.wait_until(lambda: not first.running(), "the server has ended")
        second = self.serve(former=first)
        self.restore(second)
        program.send_signal(signal.SIGCONT)
        self.await_open(second)
        self.finish(program, second)

    def test_a_session_goes_on_at_another_device(self):
        server = self.serve("--device=cpu:2")
        program = self.started(server)
        code, output = self.warpline(server, "stat", "--json")
        self.assertEqual(code, 0, output)
        devices = [one["uuid"] for one in json.loads(output)["devices"]]
        here = self.sessions(server)[0].get("gpu", 0)
        self.save(server, self.number(server), "--end")
        self.assertIn("no device", self.refused(server, "restore", str(self.checkpoint),
                                                "--device=GPU-00000000-0000-0000-0000-000000000000"))
        self.restore(server, "--device=" + devices[1 - here])
        self.await_open(server)
        self.assertEqual(self.sessions(server)[0].get("gpu", 0), 1 - here)
        self.finish(program, server)

    def test_only_what_changed_is_written_again(self):
        server = self.serve("--swap_host=1GiB")
        program = self.started(server, PROGRAM, "--words=%d" % (1 << 20))
        program.send_signal(signal.SIGSTOP)
        self.assertNotEqual(self.save(server, self.number(server)), "0 B")
        self.assertEqual(self.save(server, self.number(server)), "0 B")
        program.send_signal(signal.SIGCONT)
        self.await_open(server)
        harness.await_work(self.installation, server.endpoint, program)
        self.assertNotEqual(self.save(server, self.number(server)), "0 B")
        self.finish(program, server)

    def test_all_sessions_of_a_lease_are_saved_at_one_moment(self):
        scheduler = harness.Scheduler(self.installation)
        self.addCleanup(scheduler.close)
        self.flags.append("--scheduler=" + scheduler.endpoint)
        server = self.serve("--max_sessions=20")
        command = 'for i in 1 2 3; do "$0" --held --words=2048 <&3 & done 3<&0; wait'
        run = self.started_by_run(scheduler, "bash", "-c", command,
                                  str(self.installation.root / "bin/examples" / PROGRAM))
        for _ in range(3):
            harness.await_held(run, PROGRAM)
        lease = self.sessions(server)[0]["lease"]
        self.save(server, lease, sessions=3)
        self.await_open(server, 3)
        self.save(server, lease, "--end", sessions=3)
        harness.wait_until(lambda: not self.sessions(server), "the sessions have ended here")
        self.restore(server, sessions=3)
        self.await_open(server, 3)
        self.assertEqual({one["lease"] for one in self.sessions(server)}, {lease})
        status, output, errors = harness.finish(run)
        self.assertEqual(status, 0, output + errors + server.log_tail())
        self.assertEqual(output.count(PROGRAM + ": ok"), 3, output)

    def started_by_run(self, scheduler, *command):
        return subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + scheduler.endpoint,
             "--sessions=4", "--", *command],
            env={**os.environ, **self.client}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)

    def test_a_session_runs_once(self):
        server = self.serve()
        program = self.started(server)
        self.save(server, self.number(server))
        self.assertIn("session 1 is a later state of the checkpoint's",
                      self.refused(server, "restore", str(self.checkpoint)))
        self.finish(program, server)

    def test_a_program_that_has_gone_on_does_not_get_a_former_state(self):
        server = self.serve()
        program = self.started(server)
        self.save(server, self.number(server))
        self.await_open(server)
        saved = int(self.sessions(server)[0]["commands"])
        harness.await_work(self.installation, server.endpoint, program, commands=saved + 50)
        # The server loses the later state.
        program.send_signal(signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)
        harness.wait_until(lambda: not server.running(), "the server has ended")
        other = self.serve(former=server)
        self.restore(other)
        program.send_signal(signal.SIGCONT)
        status, output, errors = harness.finish(program)
        self.assertNotEqual(status, 0, output + errors)
        self.assertIn("error=719", output)  # cudaErrorLaunchFailure.
        harness.wait_until(lambda: not self.sessions(other), "the session ends")

    def test_what_cannot_be_saved_is_said_and_nothing_is_touched(self):
        server = self.serve("--max_sessions=20", *GUARDED)
        guarded = self.started(server, env={"WARPLINE_TIER": "guarded"})
        number = self.number(server)
        self.assertIn("it is of the guarded tier", self.refused(server, "checkpoint", number,
                                                                str(self.checkpoint)))
        self.assertFalse(self.checkpoint.exists())
        self.assertIn("no session 99", self.refused(server, "checkpoint", "99", str(self.checkpoint)))
        self.assertIn("no session of lease", self.refused(server, "checkpoint", "0123456789abcdef",
                                                          str(self.checkpoint)))
        self.finish(guarded, server)

    def test_folders_that_cannot_be_used_are_refused(self):
        server = self.serve()
        program = self.started(server)
        number = self.number(server)
        self.assertIn("No such file", self.refused(server, "restore", str(self.checkpoint)))
        self.checkpoint.mkdir(mode=0o755)
        self.assertIn("mode 0700", self.refused(server, "checkpoint", number, str(self.checkpoint)))
        self.checkpoint.chmod(0o700)
        self.assertIn("there is no checkpoint", self.refused(server, "restore", str(self.checkpoint)))
        missing = str(self.folder / "no/folder")
        self.assertIn("No such file", self.refused(server, "checkpoint", number, missing))
        self.assertEqual(self.sessions(server)[0]["state"], "open")
        self.finish(program, server)

    def test_a_server_without_host_memory_says_so(self):
        self.flags.pop(0)
        server = self.serve()
        program = self.started(server)
        self.assertIn("--swap_host", self.refused(server, "checkpoint", self.number(server),
                                                  str(self.checkpoint)))
        self.finish(program, server)

    def test_a_forged_folder_gives_nothing(self):
        server = self.serve()
        program = self.started(server)
        self.save(server, self.number(server), "--end")
        for path in sorted((self.checkpoint / "sessions/session-0").iterdir()):
            right = path.read_bytes()
            path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]) if right else b"x")
            self.refused(server, "restore", str(self.checkpoint))
            path.write_bytes(right)
        # The client waits all the while.
        self.restore(server)
        self.await_open(server)
        self.finish(program, server)


if __name__ == "__main__":
    unittest.main()
