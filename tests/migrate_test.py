#!/usr/bin/env python3
"""Leases move from one server to another with their sessions, and their programs go on."""
import os
import signal
import subprocess
import unittest

import harness
from moves_case import LinkedCase, MovesCase
from paging_case import GUARDED, PROGRAM


class MigrateTest(MovesCase):
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

    def test_a_server_of_twenty_sessions_is_emptied_by_its_operator_and_by_a_signal(self):
        flags = ["--max_sessions=20", "--migrate_on_drain", "--drain_seconds=%d" % harness.GIVE_UP_S]
        self.serve("a", *flags)
        # A lease is a quarter of a device without this.
        small = (str(self.installation.root / "bin/warpline"), "run", "--memory=32MiB", "--")
        # They rest most of the time, so that all of them get on.
        programs = [self.started(PROGRAM, "--words=2048", "--rest_ms=1000", prefix=small)
                    for _ in range(20)]
        self.serve("b", *flags)
        status, output = self.operator("servers", "drain", "a", "--migrate")
        self.assertEqual(status, 0, output + self.logs())
        self.await_open(self.servers["b"], 20)
        self.assertEqual(self.sessions(self.servers["a"]), [])
        self.operator("servers", "uncordon", "a")
        # Each client hears of its new server before the former one ends.
        os.kill(self.servers["b"].pid, signal.SIGTERM)
        harness.wait_until(lambda: not self.servers["b"].running(), self.logs)
        self.assertIn("moved leases away, sessions=0", self.servers["b"].log())
        self.await_open(self.servers["a"], 20)
        for program in programs:
            self.finish(program, self.servers["a"])

    def test_a_server_that_ends_lets_what_cannot_move_end_by_itself(self):
        self.serve("a", "--migrate_on_drain", "--drain_seconds=%d" % harness.GIVE_UP_S)
        programs = [self.started(env={"WARPLINE_RESUME_SECONDS": "0"}), self.started()]
        self.serve("b")
        os.kill(self.servers["a"].pid, signal.SIGTERM)
        self.await_open(self.servers["b"])
        harness.wait_until(lambda: "moved leases away, sessions=1" in self.servers["a"].log(), self.logs)
        for program in programs:
            self.finish(program, self.servers["b"])
        harness.wait_until(lambda: not self.servers["a"].running(), self.logs)
        self.assertNotIn("ending sessions", self.servers["a"].log())


class LateClientsTest(LinkedCase):
    """A session moves to b and back to a, while its client is stopped and believes it on a."""

    def arriving(self):
        """Starts it. The session has come to a, which has not committed, and its client asks for it."""
        self.set_up()
        program = self.started()
        lease = self.lease_on(self.servers["a"])
        program.send_signal(signal.SIGSTOP)
        self.migrate(lease, "b")
        self.wires["b"].hold("back")
        status, output = self.operator("migrate", lease, "--to=a", "--nowait")
        self.assertEqual(status, 0, output)
        # The order has been placed, and a's request to commit does not get through.
        self.wires["a"].hold("there")
        self.wires["b"].release()
        harness.wait_until(lambda: "from=moved" in self.servers["a"].log(), self.logs)
        before = self.links["b"].accepted
        program.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: self.links["b"].accepted > before,
                           lambda: "a sends the client on to b\n" + self.logs())
        self.assertNotIn("resumed session=", self.servers["a"].log())
        return program

    def test_a_client_has_its_session_where_the_lease_is_once_that_is_decided(self):
        program = self.arriving()
        self.wires["a"].release()
        self.await_open(self.servers["a"])
        self.finish(program, self.servers["a"])
        self.await_nothing_left()

    def test_a_client_has_its_session_where_it_was_when_the_move_fails(self):
        program = self.arriving()
        # The server that has it hears nothing of the other one, and ends the move.
        self.links["a"].cut()
        self.await_open(self.servers["b"])
        self.wires["a"].release()
        harness.wait_until(lambda: "is not taken over" in self.servers["a"].log(), self.logs)
        self.await_open(self.servers["b"])
        self.finish(program, self.servers["b"])
        self.await_nothing_left()


if __name__ == "__main__":
    unittest.main()
