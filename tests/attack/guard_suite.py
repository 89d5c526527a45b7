"""The guard suite: what a kernel does to another tenant's memory in the same context.

guard_attack makes each attack of tests/guard/escapes.txt from one arena on another, as it is and
guarded; once within a group that trusts itself, where a fault is the group's own, and once so that
kernels may not fault either.
"""
import pathlib
import re
import subprocess

from suite import NOT_STOPPED, STOPPED, Row

TIMEOUT_S = 800
LINE = re.compile(r"^attack: guard (\d+) (.*): (stopped|NOT STOPPED) \((.*)\)$", re.DOTALL)
MODES = {"fence": [], "hardened": ["--hardened"]}


class GuardSuite:
    name = "guard"
    device = "cpu"

    def __init__(self, installation, _server, _session):
        self._program = str(installation.root / "bin/guard_attack")
        self._list = str(pathlib.Path(__file__).resolve().parents[1] / "guard/escapes.txt")

    def close(self):
        pass

    def rows(self):
        for mode, flags in MODES.items():
            said = subprocess.run(
                [self._program, "--device=" + self.device, "--jobs=4", "--escapes=" + self._list, *flags],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, timeout=TIMEOUT_S, check=False).stdout
            seen = 0
            for line in said.splitlines():
                found = LINE.match(line)
                if found:
                    seen += 1
                    yield Row(self.name, "%s_%s" % (mode, found[1]),
                              STOPPED if found[3] == "stopped" else NOT_STOPPED,
                              "%s; %s" % (found[2], found[4]))
            if not re.search(r"^attack: \d+ of %d stopped$" % seen, said, re.MULTILINE):
                yield Row(self.name, mode, NOT_STOPPED, "it broke off: " + said[-200:])
