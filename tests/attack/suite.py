"""What the suites of ./dev attack share: rows, a neighbour, and how an attack is counted."""
import pathlib
import re
import subprocess
import threading

STOPPED, NOT_STOPPED, NOT_HERE = "stopped", "NOT STOPPED", "n/a"
OUTCOMES = ("stopped", "succeeded", "unprepared", "not_here")


class Row:
    """What became of one attack. `detail` is for people. One that is unprepared was not made at all, and
    counts as not stopped."""

    def __init__(self, suite, name, verdict, detail, unprepared=False):
        self.suite, self.name, self.verdict, self.detail = suite, name, verdict, detail
        self.unprepared = unprepared

    def __str__(self):
        return "%s %s: %s (%s)" % (self.suite, self.name, self.verdict, self.detail)


def outcome_of(command, env, timeout_s):
    """Runs a program that makes one attack and ends with a line "OUTCOME DETAIL". Returns both. An attack
    that breaks off has succeeded."""
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return "succeeded", "no end after %d s" % timeout_s
    for line in reversed(done.stdout.splitlines()):
        outcome, _, detail = line.partition(" ")
        if outcome in OUTCOMES:
            return outcome, detail
    return "succeeded", "the attack ended with status %d: %s" % (done.returncode,
                                                                 done.stdout[-300:])


class Neighbour:
    """Another tenant's program, which checks its results, again and again. `runs` were right;
    `failures` says what was not. `program` is a command, `env` its environment."""

    def __init__(self, command, env):
        self.runs, self.failures = 0, []
        self._command, self._env = command, env
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self):
        while not self._stop.is_set():
            done = subprocess.run(self._command, env=self._env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode == 0:
                self.runs += 1
            else:
                self.failures.append(done.stdout[-500:])

    def stop(self):
        """Lets the run that is under way end."""
        self._stop.set()
        self._thread.join()


def program_of(pid):
    """The name of the file that a process executes; None when it is gone."""
    try:
        return pathlib.Path("/proc/%d/exe" % pid).readlink().name
    except OSError:
        return None


def is_zombie(pid):
    try:
        return re.search(r"^State:\s+Z", pathlib.Path("/proc/%d/status" % pid).read_text(),
                         re.MULTILINE) is not None
    except OSError:
        return True
