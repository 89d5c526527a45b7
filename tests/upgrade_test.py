#!/usr/bin/env python3
"""Another version of a server's program takes its place, and its sessions go on there."""
import os
import re
import signal
import unittest

import harness
from paging_case import GUARDED, PATIENT, PROGRAM, OutlivingCase

DONE = re.compile(r"upgraded from version \S+ to \S+: (\d+) sessions go on after a pause of [\d.]+ s")


class UpgradeTest(OutlivingCase):
    def setUp(self):
        super().setUp()
        self.flags.append("--upgrades")
        self.real = str(self.installation.root / "bin/warpline-server")

    def version(self, name, script):
        """A folder with a server's program, for which the shell script stands: $REAL is the true one."""
        folder = self.folder / name
        (folder / "bin").mkdir(parents=True)
        program = folder / "bin/warpline-server"
        program.write_text("#!/bin/sh\nREAL=%s\n%s\n" % (self.real, script))
        program.chmod(0o755)
        return folder

    def upgrade(self, server, *options):
        return self.warpline(server, "server", "upgrade", *options)

    def assert_upgraded(self, server, sessions, *options):
        code, output = self.upgrade(server, *options)
        self.assertEqual(code, 0, output + server.log_tail(60))
        self.assertEqual(int(DONE.search(output)[1]), sessions, output)

    def test_busy_programs_go_on_with_one_version_after_another(self):
        server = self.serve("--max_sessions=20")
        names = [PROGRAM, PROGRAM, PROGRAM, "variables"]
        programs = [self.started(server, name) for name in names]
        # Its copies to the host fill what the worker may send, so that it waits for its client.
        names.append(PROGRAM)
        programs.append(self.started(server, PROGRAM, "--words=%d" % (1 << 20)))
        other = self.version("other", 'exec $REAL "$@"')
        for options in ((), ("--to=%s" % other,), ("--to=" + self.real,), ()):
            self.assert_upgraded(server, len(names), *options)
            self.await_open(server, len(names))
        for name, program in zip(names, programs):
            self.finish(program, server, name)
        self.finish(self.started(server), server)
        self.assertIn("opened session=6", server.log())

    def test_programs_on_the_servers_host_go_on(self):
        self.client = PATIENT
        server = self.serve()
        names = ["pinned_memory", PROGRAM]
        programs = [self.started(server, name) for name in names]
        for _ in range(3):
            self.assert_upgraded(server, len(names))
            self.await_open(server, len(names))
        for name, program in zip(names, programs):
            self.finish(program, server, name)

    def test_sessions_over_connections_of_their_own_go_on(self):
        self.use_tls()
        server = self.serve()
        # Their copies go through bulk connections, whose memory goes with the session.
        program = self.started(server, PROGRAM, "--words=%d" % (1 << 20))
        for _ in range(3):
            harness.wait_until(lambda: self.sessions(server)[0].get("transport") == "tls",
                               lambda: "a relay\n" + server.log_tail())
            self.assert_upgraded(server, 1)
            self.await_open(server)
        self.finish(program, server)

    def test_sessions_of_a_scheduler_show_their_lease_again(self):
        scheduler = harness.Scheduler(self.installation)
        self.addCleanup(scheduler.close)
        self.flags.append("--scheduler=" + scheduler.endpoint)
        server = self.serve()
        harness.wait_until(lambda: "up server=" in scheduler.log(), "the server is up")
        program = self.started(scheduler)
        lease = self.sessions(server)[0]["lease"]
        for _ in range(2):
            self.assert_upgraded(server, 1)
            self.await_open(server)
            self.assertEqual(self.sessions(server)[0]["lease"], lease)
        self.finish(program, server)

    def test_a_version_that_does_not_start_is_rolled_back(self):
        server = self.serve()
        names = [PROGRAM, PROGRAM, "pinned_memory"]
        programs = [self.started(server, name, env=None if name == PROGRAM else PATIENT)
                    for name in names]
        check = 'case "$*" in *--check_config*) exec $REAL "$@";; esac\n'
        for name, script, why in (
                ("killed", check + "kill -9 $$", "it ended with signal 9"),
                ("exits", check + "exit 7", "it ended with exit code 7"),
                ("refuses", check + 'exec $REAL "$@" --max_sessions=1',
                 "cannot go on: the server has as many sessions as it may have"),
                ("swapless", check + 'exec $REAL "$@" --swap_host=0', "--upgrades needs --swap_host"),
                ("portless", check + 'exec $REAL "$@" --port_file=/none/port', "/none/port")):
            with self.subTest(name):
                code, output = self.upgrade(server, "--to=%s" % self.version(name, script))
                self.assertEqual(code, 1, output)
                self.assertIn("the upgrade was rolled back: ", output)
                self.assertIn(why, output)
                self.assertRegex(output, "is back: 3 sessions go on after")
                self.await_open(server, len(names))
        self.assert_upgraded(server, len(names))
        for name, program in zip(names, programs):
            self.finish(program, server, name)

    def test_what_would_not_start_is_refused_before_sessions_rest(self):
        server = self.serve()
        program = self.started(server)
        for name, script, why in (
                ("flagless", 'exec $REAL "$@" --tiers=none', "--tiers"),
                ("broken", "exit 9", "with the server's flags it ends with exit code 9"),
                ("stranger", "exit 0", "it is no server that takes over sessions")):
            code, output = self.upgrade(server, "--to=%s" % self.version(name, script))
            self.assertEqual(code, 1, output)
            self.assertIn("the server was not upgraded, and goes on as before: ", output)
            self.assertIn(why, output)
        code, output = self.upgrade(server, "--to=/none")
        self.assertEqual((code, "No such file" in output), (1, True), output)
        self.assertNotIn("passes on sessions", server.log())
        self.finish(program, server)

    def test_sessions_that_cannot_go_on_keep_the_server(self):
        server = self.serve(*GUARDED)
        guarded = self.started(server, env={"WARPLINE_TIER": "guarded"})
        program = self.started(server)
        code, output = self.upgrade(server)
        self.assertEqual(code, 1, output)
        self.assertIn("1 of 2 sessions would end with this server (session ", output)
        self.assertIn(": it is of the guarded tier", output)
        self.await_open(server, 2)
        self.assert_upgraded(server, 1, "--force")
        self.await_open(server)
        self.finish(program, server)
        self.assertNotEqual(harness.finish(guarded)[0], 0)

    def test_a_server_without_a_parent_says_so(self):
        self.flags.remove("--upgrades")
        server = self.serve()
        code, output = self.upgrade(server)
        self.assertEqual(code, 1)
        self.assertIn("was not started with --upgrades", output)

    def test_signals_upgrade_and_end_it(self):
        server = self.serve()
        program = self.started(server)
        os.kill(server.pid, signal.SIGHUP)
        harness.wait_until(lambda: "took over sessions=1" in server.log(), server.log_tail)
        self.await_open(server)
        self.finish(program, server)
        os.kill(server.pid, signal.SIGTERM)
        harness.wait_until(lambda: not server.running(), "the server ends")
        self.assertIn("draining", server.log())


if __name__ == "__main__":
    unittest.main()
