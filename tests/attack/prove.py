"""Shows of each row of the wire suite that it gets through without the defences that stop it.

The server programs are those of a tree with mutations.toml built in (mutations.py). Each row is
made against a fresh server, on which an honest client is served first, without the row's own
defences: then the row must succeed, or the server end. Takes minutes: ./dev attack --prove.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import mutations
from wire_suite import WireSuite

HERE = pathlib.Path(__file__).resolve().parent
SERVER_PROGRAMS = {"bin/warpline-server": "server/gpu_server/warpline-server",
                   "bin/warpline-supervisor": "server/supervisor/warpline-supervisor",
                   "bin/warpline-worker": "server/worker/warpline-worker",
                   "bin/warpline-keeper": "server/keeper/warpline-keeper",
                   "bin/warpline-relay": "server/relay/warpline-relay",
                   "bin/warpline-compiler": "server/compiler/warpline-compiler",
                   "bin/warpline-mps": "server/mps/warpline-mps",
                   "bin/warpline-scheduler": "scheduler/warpline-scheduler",
                   "bin/warpline": "tools/cli/warpline"}
# Of rows that are made at a time: most wait for something that does not come.
AT_A_TIME = 3
TIMEOUT_S = 500
SERVER_ENDED = "with_server: the server has ended"


class Prover:
    """`installation` has the clients and, in the place of the server's programs, mutated ones."""

    def __init__(self, installation, flags):
        self._root, self._flags = installation.root, flags
        self._table = mutations.Table()
        suite = WireSuite(installation, None, None)
        self._rows, self._certificates = suite.attacks, suite.certificates
        self._table.check_rows([(name, flags) for name, _, flags in self._rows])

    def _run(self, name, without, flags):
        """The end of what a server of its own and the attack on it printed."""
        flags = [*self._flags, *flags, *self._certificates.server(name)]
        command = [sys.executable, str(HERE.parent / "with_server.py"), "--bundle=%s" % self._root,
                   "--device=cpu", *("--server_flag=" + flag for flag in flags),
                   "--", str(self._root / "bin/wire_client"), "--endpoint={endpoint}",
                   "--pid={pid}", "--log={log}", "--honest_first", "--attack=" + name,
                   *self._certificates.client(name)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        environment[mutations.VARIABLE] = ",%s," % ",".join(without)
        try:
            done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return "no end after %d s" % TIMEOUT_S
        return done.stdout

    def _attempt(self, name, without, flags):
        """Returns "through", "stopped" or "absent", and what happened."""
        output = self._run(name, without, flags)
        lines = output.splitlines()
        outcome, detail = "", output[-300:].replace("\n", " ")
        for line in lines:
            word, _, rest = line.partition(" ")
            if word in ("stopped", "succeeded", "unprepared", "not_here"):
                outcome, detail = word, rest
                break
        if outcome == "not_here":
            return "absent", detail
        if outcome != "unprepared" and SERVER_ENDED in lines:
            return "through", "the server has ended"
        if outcome == "succeeded":
            return "through", detail
        return "stopped", "%s: %s" % (outcome or "no outcome", detail)

    def _prove(self, row):
        name, _, flags = row
        if name in self._table.unproved():
            return "reason", "no proof (%s)" % self._table.unproved()[name]
        without = self._table.defences_of(name)
        flags = flags.split(",") if flags != "-" else []
        outcome, detail = self._attempt(name, without, flags)
        if outcome == "absent":
            return outcome, "n/a (%s)" % detail
        verdict = "gets through" if outcome == "through" else "NOT PROVED"
        taken = "with " + " ".join(flags) if flags else "without " + ", ".join(without)
        return outcome, "%s (%s; %s)" % (verdict, taken, detail)

    def prove(self, only):
        """Prints a line a row. Returns whether all are proved that can be."""
        rows = [row for row in self._rows if not only or row[0] in only]
        counts = dict.fromkeys(("through", "stopped", "reason", "absent"), 0)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for row, (outcome, text) in zip(rows, pool.map(self._prove, rows)):
                counts[outcome] += 1
                print("prove: %s: %s" % (row[0], text), flush=True)
        print("proved: %d of %d rows get through without their defence (%d without a proof, %d n/a)"
              % (counts["through"], counts["through"] + counts["stopped"], counts["reason"],
                 counts["absent"]))
        return counts["stopped"] == 0 and counts["through"] > 0
