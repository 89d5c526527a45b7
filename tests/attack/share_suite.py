"""Whether an honest session gets its share of the machine beside hostile ones.

The suite has a server of its own. An honest program computes alone for a while, then beside
`sessions` sessions that flood (share_flood.cc), then alone again. The CPU device spreads a kernel
over all processors, so what is contended is processor time, and the fair share of one session is
what it gets done alone, divided by the number of sessions.

The clients are on the same machine, each of the two sides in a login session of its own; what floods
most takes little of a client.
"""
import os
import re
import select
import subprocess

from suite import NOT_STOPPED, STOPPED, Row
from wire_suite import environment

import local_server

LIMIT = 0.5
READY_TIMEOUT_S = 300
# Those of the honest program, and room for sessions that are being cleared away.
SPARE_SESSIONS = 8


class ShareSuite:
    name = "share"
    sessions, seconds = 64, 20.0

    def __init__(self, installation, flags):
        self._root, self._installation, self._flags = installation.root, installation, flags

    def _throughput(self, server):
        """Rounds a second."""
        done = subprocess.run(
            [str(self._root / "bin/share_program"), "--seconds=%g" % self.seconds],
            env=self._installation.client_environment(server.endpoint), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            start_new_session=True, timeout=READY_TIMEOUT_S + 10 * self.seconds)
        found = re.search(r"^share_program: rounds=(\d+) seconds=([\d.]+)$", done.stdout,
                          re.MULTILINE)
        if not found:
            raise local_server.Error("the honest program failed:\n%s\n%s"
                                     % (done.stdout[-500:], server.log_tail()))
        return int(found[1]) / float(found[2])

    def _beside(self, server):
        flood = subprocess.Popen(
            [str(self._root / "bin/share_flood"), "--endpoint=" + server.endpoint,
             "--sessions=%d" % self.sessions], env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, start_new_session=True, text=True)
        try:
            readable, _, _ = select.select([flood.stdout], [], [], READY_TIMEOUT_S)
            if not readable or not flood.stdout.readline().startswith("flooding"):
                raise local_server.Error("the hostile sessions did not open:\n" + server.log_tail())
            throughput = self._throughput(server)
            if flood.poll() is not None:
                raise local_server.Error("the flood has ended:\n" + server.log_tail())
            return throughput
        finally:
            flood.kill()
            flood.wait()

    def rows(self):
        flags = [*self._flags, "--max_sessions=%d" % (self.sessions + SPARE_SESSIONS)]
        with local_server.Server(self._installation, flags) as server:
            before = self._throughput(server)
            beside = self._beside(server)
            after = self._throughput(server)
            held = re.search(r" jail profile=worker holds=(\S*)", server.log())
            grouped = held is not None and "cgroup" in held[1]
        alone = (before + after) / 2
        share = beside * (self.sessions + 1) / alone
        print("share: honest %.2f of its fair share (limit %g)" % (share, LIMIT), flush=True)
        yield Row(self.name, "of %d hostile sessions" % self.sessions,
                  STOPPED if share >= LIMIT else NOT_STOPPED,
                  "%.1f and %.1f rounds a second alone, %.2f beside them; %d processors, %s control groups"
                  % (before, after, beside, os.cpu_count(), "with" if grouped else "without"))
