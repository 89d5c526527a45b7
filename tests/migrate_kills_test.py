#!/usr/bin/env python3
"""A lease's move is disturbed at each of its steps, and its session is on one server or has ended.

Each row of the table has a step of the move (move_steps.py) and a victim, which is killed just then, or
stopped until the others have noticed. Whatever ended is started again. The program then goes on with right
results on exactly one server, or gets an error of CUDA, and nothing is left of it once it has ended.

A few rows run by default. WARPLINE_KILLS=200 runs so many of them, evenly spread, and `all` all of them:

    ./dev test --test_env=WARPLINE_KILLS=200 --test_timeout=3600 --test_output=all //tests:migrate_kills_test
"""
import collections
import math
import os
import signal
import sys
import unittest

import harness
from move_steps import STEPS, HeldMove
from moves_case import LinkedCase
from paging_case import PROGRAM

# A link is cut, and all else is a process.
LINKS = ("link", "client_link")
VICTIMS = ("source", "target", "relay", "scheduler", "client", *LINKS)
BY_DEFAULT = 14
# With so many words in each of its buffers the program has so much device memory.
WORDS = 1 << 16
MEMORY = 2 << 20
# The program's verdict after an error of CUDA: it has no wrong results, and reads back its memory or cannot.
CUDA_ERROR = r"(?m)^long_program: (LOST error=\d+|FAILED error=\d+ in [\w ]+, readback of buffer \d+: \d+$)"

Row = collections.namedtuple("Row", "step victim way transport")


def all_rows():
    rows = []
    for transport in ("grpc", "tls"):
        for way in ("kill", "stop"):
            for step in STEPS:
                for victim in VICTIMS:
                    # A session that comes to rest has no relay, and without TLS it never has one.
                    relay = transport == "tls" and step in ("ordered", "resumed")
                    if (victim != "relay" or relay) and (way == "kill" or victim not in LINKS):
                        rows.append(Row(step, victim, way, transport))
    return rows


def chosen_rows():
    rows = all_rows()
    wanted = os.environ.get("WARPLINE_KILLS") or str(BY_DEFAULT)
    count = len(rows) if wanted == "all" else min(int(wanted), len(rows))
    # Rows that follow each other are far apart, so that a few have most steps and victims.
    stride = next(n for n in range(len(rows) * 5 // 13, len(rows)) if math.gcd(n, len(rows)) == 1)
    return [rows[n * stride % len(rows)] for n in range(count)]


def must_go_on(row):
    """Whether the program must not notice. Otherwise it may get an error."""
    # The request to commit of a target that has ended may be on its way all the same.
    before_commit = STEPS.index(row.step) < STEPS.index("adopted")
    if row.way == "stop" or row.victim in ("relay", "scheduler", *LINKS):
        return True
    # The client of a source that has ended finds nobody who would send it on.
    return before_commit if row.victim == "target" else row.step in ("sent_on", "resumed")


class MigrateKillsTest(LinkedCase):
    outcomes = collections.Counter()

    # --- What the victims are.

    def processes(self, row, program):
        """The processes that are killed or stopped."""
        if row.victim == "source":
            return [self.servers["a"].pid]
        if row.victim == "target":
            return [self.servers["b"].pid]
        if row.victim == "scheduler":
            return [self.scheduler.process.pid]
        if row.victim == "client":
            return [program.pid]
        relays = [pid for server in self.servers.values()
                  for pid in harness.server_processes(server.pid, "warpline-relay")]
        self.assertTrue(relays, self.logs())
        return relays

    def cut(self, row):
        sent_on = STEPS.index(row.step) >= STEPS.index("sent_on")
        self.links["b" if row.victim == "link" or sent_on else "a"].cut()

    def kill(self, row, move, program):
        for pid in self.processes(row, program):
            os.kill(pid, signal.SIGKILL)
        move.go_on()
        if row.victim == "scheduler":
            self.scheduler.process.wait()
            self.scheduler.start()
        for victim, name in (("source", "a"), ("target", "b")):
            if row.victim == victim:
                former = self.servers[name]
                harness.wait_until(lambda: not former.running(), "it has ended")
                self.serve(name)

    def stop(self, row, move, program):
        """Until the others have noticed, where there is something to be noticed."""
        pids = self.processes(row, program)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        move.go_on()
        if row.victim == "scheduler":
            for server in self.servers.values():
                harness.wait_until(lambda: "no answer from scheduler" in server.log(), self.logs)
        elif row.victim in ("source", "target"):
            line = "lost server=" + ("a" if row.victim == "source" else "b")
            harness.wait_until(lambda: line in self.scheduler.log(), self.logs)
        elif row.victim == "client":
            self.await_outcome(move.lease, "a")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass  # A relay ends with its session here.

    # --- What must hold.

    def open_on(self):
        """The servers on which the session goes on: never two of them."""
        names = self.ask_where()
        if len(names) > 1:
            # It may have left the first one before the second one was asked.
            names = self.ask_where()
        self.assertLessEqual(len(names), 1, self.logs())
        return names

    def ask_where(self):
        return [name for name, server in self.servers.items()
                if any(one["state"] in ("open", "replacing") for one in self.sessions(server))]

    def settled(self, program):
        if program.poll() is not None:
            return True
        sessions = sum(len(self.sessions(server)) for server in self.servers.values())
        return sessions == 1 and len(self.open_on()) == 1

    def run_row(self, row):
        self.set_up(row.transport)
        program = self.started(PROGRAM, "--words=%d" % WORDS, "--rest_ms=0")
        self.assertEqual(self.where(), "a")
        move = HeldMove(self, "a", "b", MEMORY)
        move.to(row.step)
        if row.victim in LINKS:
            self.cut(row)
            move.go_on()
        elif row.way == "kill":
            self.kill(row, move, program)
        else:
            self.stop(row, move, program)
        harness.wait_until(lambda: self.settled(program), self.logs)
        on = self.open_on()
        status, output, errors = harness.finish(program)
        self.open_on()
        if row.victim == "client" and row.way == "kill":
            outcome = "no client"
        elif status == 0:
            self.assertIn(PROGRAM + ": ok", output)
            outcome = "goes on at the " + {"a": "source", "b": "target"}[on[0]]
        else:
            self.assertRegex(output, CUDA_ERROR, errors + self.logs())
            outcome = "error of CUDA"
            self.assertFalse(must_go_on(row), output + errors + self.logs())
        self.await_nothing_left()
        self.outcomes[row.step, row.victim + ("" if row.way == "kill" else " stopped"), outcome] += 1
        print("%s: %s" % (" ".join(row), outcome), flush=True)


def add_rows():
    for row in chosen_rows():
        setattr(MigrateKillsTest, "test_%s_%s_%s_%s" % (row.step, row.victim, row.way, row.transport),
                lambda self, row=row: self.run_row(row))


def tearDownModule():
    for (step, victim, outcome), count in sorted(
            MigrateKillsTest.outcomes.items(), key=lambda one: (STEPS.index(one[0][0]), one[0])):
        print("%-12s %-18s %-22s %d" % (step, victim, outcome, count), file=sys.stderr)


add_rows()

if __name__ == "__main__":
    unittest.main()
