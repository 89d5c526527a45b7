#!/usr/bin/env python3
"""Leases move from one server to another with their sessions, and their programs go on."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import harness
from paging_case import APART, GUARDED, PATIENT, PROGRAM, SWAP, PagingCase


class MigrateTest(PagingCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-migrate-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.client = {**APART, **PATIENT}
        self.flags = [SWAP, "--resume_seconds=%d" % harness.GIVE_UP_S]
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(lambda: self.scheduler.close())  # Some tests start another.
        self.servers = {}

    def serve(self, name, *flags):
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=" + name, *self.flags, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        harness.wait_until(lambda: "up server=%s\n" % name in self.scheduler.log(),
                           lambda: "server %s is up\n" % name + server.log_tail())
        self.servers[name] = server
        return server

    def serve_two(self, *flags):
        """Programs are placed on a."""
        first = self.serve("a", *flags)
        return first, self.serve("b", *flags)

    def started(self, name=PROGRAM, *arguments, env=None):
        if name == PROGRAM and not any("words" in one for one in arguments):
            arguments += ("--words=2048", "--rest_ms=0")
        program = harness.start_held(self.installation, self.scheduler.endpoint, name, *arguments,
                                     env={**self.client, **(env or {})})
        self.addCleanup(program.kill)
        return program

    def operator(self, *arguments):
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline"), *arguments,
             "--endpoint=" + self.scheduler.endpoint],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=self.as_operator(), timeout=harness.GIVE_UP_S, check=False)
        return run.returncode, run.stdout

    def as_operator(self):
        return {**os.environ, "WARPLINE_OPERATOR_CREDENTIAL_FILE":
                str(self.scheduler.folder / "state/operator.credential")}

    def logs(self):
        return "\n".join([self.scheduler.log()[-2000:]] +
                         ["%s:\n%s" % (name, server.log_tail(30))
                          for name, server in self.servers.items()])

    def migrate(self, lease, to, said="moved lease="):
        status, output = self.operator("migrate", lease, "--to=" + to)
        self.assertIn(said, output, self.logs())
        self.assertEqual(status == 0, said == "moved lease=", output)
        return output

    def lease_on(self, server):
        return self.sessions(server)[0]["lease"]

    def where(self):
        """The server that has the session, of two."""
        names = [name for name, server in self.servers.items() if self.sessions(server)]
        self.assertEqual(len(names), 1)
        return names[0]

    def other(self, name):
        return next(each for each in self.servers if each != name)

    def test_a_busy_program_moves_there_and_back(self):
        self.serve_two()
        program = self.started(PROGRAM, "--compute_ms=20")
        for _ in range(4):
            here = self.where()
            there = self.other(here)
            self.migrate(self.lease_on(self.servers[here]), there)
            self.await_open(self.servers[there])
            harness.wait_until(lambda: not self.sessions(self.servers[here]), "it has left")
        self.finish(program, self.servers["a"])
        for server in self.servers.values():
            harness.wait_until(lambda: not self.sessions(server), "nothing is left")

    def test_programs_of_a_lease_move_together_and_later_ones_follow(self):
        self.serve_two()
        command = 'for i in 1 2; do "$0" --held --words=2048 <&3 & done 3<&0; wait; "$1"'
        names = [str(self.installation.root / "bin/examples" / name) for name in (PROGRAM, "variables")]
        programs = [str(self.installation.root / "bin/warpline"), "run",
                    "--endpoint=" + self.scheduler.endpoint, "--", "bash", "-c", command, *names]
        run = subprocess.Popen(programs, env={**os.environ, **self.client}, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
        for _ in range(2):
            harness.await_held(run, PROGRAM)
        here = self.where()
        self.migrate(self.lease_on(self.servers[here]), self.other(here))
        self.await_open(self.servers[self.other(here)], 2)
        status, output, errors = harness.finish(run)
        self.assertEqual(status, 0, output + errors + self.logs())
        self.assertEqual(output.count(": ok"), 3, output + errors)
        # The third one was sent on by the server that had the lease.
        self.assertEqual(self.servers[self.other(here)].log().count("server opened session="), 3)

    def use_tls(self):
        """Sessions go on over connections of their own, and servers speak TLS with each other."""
        flags, env = self.make_certificates(self.folder, "--server_is_client")
        self.flags += flags
        self.client.update(WARPLINE_TRANSFER="relay", **env)
        return flags

    def test_sessions_over_connections_of_their_own_move(self):
        self.scheduler.close()
        tls = self.use_tls()
        self.scheduler = harness.Scheduler(self.installation, *tls)
        self.serve_two()
        # Their copies go through bulk connections.
        program = self.started(PROGRAM, "--words=%d" % (1 << 18))
        for _ in range(3):
            here = self.where()
            there = self.other(here)
            harness.wait_until(
                lambda: self.sessions(self.servers[here])[0].get("transport") == "tls", self.logs)
            self.migrate(self.lease_on(self.servers[here]), there)
        self.finish(program, self.servers[self.where()])

    def test_what_cannot_move_stays_and_goes_on(self):
        self.serve_two(*GUARDED)
        for why, env in (("it is of the guarded tier", {"WARPLINE_TIER": "guarded"}),
                         ("its client cannot resume it", {"WARPLINE_RESUME_SECONDS": "0"}),
                         ("it shares host memory with its client", {"WARPLINE_SHARE_MEMORY": "1"})):
            with self.subTest(why):
                name = "pinned_memory" if "SHARE" in str(env) else PROGRAM
                program = self.started(name, env=env)
                here = self.where()
                self.migrate(self.lease_on(self.servers[here]), self.other(here), why)
                self.assertEqual(self.where(), here)
                self.finish(program, self.servers[here], name)
                harness.wait_until(lambda: not any(map(self.sessions, self.servers.values())),
                                   "it has ended")

    def test_a_server_without_room_for_it_leaves_it_where_it_is(self):
        self.serve("a")
        self.serve("b", "--swap_host=2MiB")
        program = self.started(PROGRAM, "--words=%d" % (1 << 20))
        if self.where() == "b":
            self.skipTest("the scheduler has placed it there")
        self.migrate(self.lease_on(self.servers["a"]), "b", "--swap_host")
        self.assertEqual(self.where(), "a")
        self.finish(program, self.servers["a"])

    def begin_move(self, lease, here, there):
        """A migration that has begun when this returns."""
        moves = subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "migrate", lease, "--to=" + there,
             "--endpoint=" + self.scheduler.endpoint], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=self.as_operator())
        self.addCleanup(moves.kill)
        harness.wait_until(lambda: "moves lease=%s" % lease in self.servers[here].log(), self.logs)
        return moves

    def await_outcome(self, lease, here):
        harness.wait_until(lambda: any("lease=%s" % lease in line and (" moved " in line or "stays" in line)
                                       for line in self.servers[here].log().splitlines()), self.logs)

    def test_a_server_that_is_killed_before_it_has_the_lease_leaves_it(self):
        self.serve_two()
        program = self.started(PROGRAM, "--words=%d" % (1 << 20))
        here = self.where()
        there = self.other(here)
        os.kill(self.servers[there].pid, signal.SIGSTOP)
        moves = self.begin_move(self.lease_on(self.servers[here]), here, there)
        os.kill(self.servers[there].pid, signal.SIGKILL)
        output = moves.communicate(timeout=harness.GIVE_UP_S)[0]
        self.assertNotEqual(moves.returncode, 0, output)
        del self.servers[there]
        self.await_open(self.servers[here])
        self.finish(program, self.servers[here])

    def test_a_scheduler_that_is_killed_meanwhile_leaves_one_session(self):
        self.serve_two()
        for _ in range(3):
            program = self.started(PROGRAM, "--words=%d" % (1 << 20))
            here = self.where()
            lease = self.lease_on(self.servers[here])
            moves = self.begin_move(lease, here, self.other(here))
            ups = self.scheduler.log().count("up server=")
            self.scheduler.kill()
            self.scheduler.start()
            harness.wait_until(lambda: self.scheduler.log().count("up server=") >= ups + 2, self.logs)
            moves.communicate(timeout=harness.GIVE_UP_S)
            self.await_outcome(lease, here)
            harness.wait_until(lambda: sum(len(self.sessions(server)) for server in
                                           self.servers.values()) == 1, self.logs)
            self.finish(program, self.servers[self.where()])
            harness.wait_until(lambda: not any(map(self.sessions, self.servers.values())),
                               "it has ended")

    def test_a_program_that_is_killed_meanwhile_leaves_nothing(self):
        self.serve_two()
        for _ in range(3):
            program = self.started(PROGRAM, "--words=%d" % (1 << 20))
            here = self.where()
            lease = self.lease_on(self.servers[here])
            moves = self.begin_move(lease, here, self.other(here))
            program.kill()
            program.communicate()
            moves.communicate(timeout=harness.GIVE_UP_S)
            harness.wait_until(lambda: not any(map(self.sessions, self.servers.values())),
                               self.logs)

    def test_a_server_is_drained_of_its_sessions(self):
        self.serve("a", "--max_sessions=20")
        programs = [self.started() for _ in range(2)] + [self.started("variables")]
        self.serve("b", "--max_sessions=20")
        status, output = self.operator("servers", "drain", "a", "--migrate")
        self.assertEqual(status, 0, output + self.logs())
        self.await_open(self.servers["b"], len(programs))
        harness.wait_until(lambda: not self.sessions(self.servers["a"]), "a is empty")
        for number, program in enumerate(programs):
            self.finish(program, self.servers["b"], PROGRAM if number < 2 else "variables")


if __name__ == "__main__":
    import unittest
    unittest.main()
