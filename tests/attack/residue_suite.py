"""The residue suite: what memory that a session is given still holds of another tenant's session.

A program plants a pattern in memory of each kind and ends; another session's looks for it without
having written (residue.cu). The row says as well what the program finds when both are done in one
session: where that is nothing either, the device clears such memory itself.
"""
import os
import re
import subprocess

from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row

TIMEOUT_S = 400
NOTHING_HERE = "not here"
SCALE = {"cpu": 1, "cuda": 32}


class ResidueSuite:
    name = "residue"
    device = "cpu"

    def __init__(self, installation, server, _session):
        self._program = str(installation.root / "bin/residue")
        self._env = installation.client_environment(server.endpoint)
        self._scale = os.environ.get("WARPLINE_ATTACK_SCALE", str(SCALE[self.device]))

    def close(self):
        pass

    def _run(self, *arguments):
        done = subprocess.run([self._program, *arguments], env=self._env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise ValueError(done.stdout[-300:])
        return done.stdout

    def _found(self, *arguments):
        """Words of the pattern, and words that were looked at."""
        said = self._run(*arguments)
        if said.strip() == NOTHING_HERE:
            return None, None
        counts = re.search(r"^found (\d+) of (\d+) words$", said, re.MULTILINE)
        if not counts or counts[2] == "0":
            raise ValueError("nothing was looked at: " + said[-300:])
        return int(counts[1]), int(counts[2])

    def rows(self):
        for kind in subprocess.run([self._program, "--list"], check=True, stdout=subprocess.PIPE,
                                   text=True).stdout.split():
            try:
                own, _ = self._found("own", kind, self._scale)
                if own is None:
                    yield Row(self.name, kind, NOT_HERE, "M16; the device has no such memory")
                    continue
                self._run("plant", kind, self._scale)
                found, words = self._found("look", kind, self._scale)
            except (ValueError, subprocess.TimeoutExpired) as error:
                yield Row(self.name, kind, NOT_STOPPED, "M16; " + str(error))
                continue
            yield Row(self.name, kind, NOT_STOPPED if found else STOPPED,
                      "M16; %d of %d words of a former session; within one session: %d"
                      % (found, words, own))
