#!/usr/bin/env python3
"""Healthy programs beside unruly ones in one guarded worker, and what became of each.

  unruly.py --bundle=FOLDER [--device=auto] [--roles=stray,trap,...] [--healthy=10] [--seconds=6]
            [--head_start=2] [--unruly_seconds=3] [--end=client|worker|nobody] [--idle=N] [--user=NAME]
            [--server_flag=FLAG]... [--log=FILE]

FOLDER is an installation (lib/, bin/) with long_program and unruly in bin/ or beside this script.
For each role of unruly.cu, in turn: so many long programs run for so many seconds, with the unruly
one among them after a head start, and check all their results. One line a role: what the programs ended with (ok: right
results to the end; LOST: CUDA's sticky error, and memory that was read back intact; FAILED: anything
else), their longest round, and whether the worker is the same. --end says how a role ends whose
kernels do not: when its seconds are over its client is killed, so that its session has to be ended; or
the worker is; or it is left alone. --idle makes so many of the healthy programs rest for up to five
seconds at a time. --user, for root, runs the unruly one as that user, which makes it another tenant:
whose work did not end gets no other session for a while. The server's log has the details; its lines
about workers that are replaced follow. The last line is `unruly: R of N roles disturbed nobody`. A role disturbs where a
healthy program FAILED, where one LOST its session without the worker having gone, and where the
unruly program's own last line is not as expected. Exit status 0 when nobody was disturbed.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

_HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

from with_server import find_local_server  # noqa: E402  (found by the path above)

# Those of unruly.cu; the last two wait for a kernel that does not end.
ROLES = ("stray", "misaligned", "shared", "trap", "assert", "deep", "calls", "code", "endless", "partial")
ENDLESS = ROLES[-2:]
# Random launches may take hours, which is nobody's business where nobody waits for them.
MAY_NOT_END = ENDLESS + ("calls",)
PATIENCE_S = 60
# What the server's log says of workers that have sessions.
SERVES = re.compile(r"server (?:opened|worker replaced) session=\d+ gpu=\d+ pid=(\d+)")
OF_WORKERS = re.compile(r"guarded (?:worker|standby|sessions)|took over|overdue|LAUNCH_TIMEOUT|hang", re.IGNORECASE)


def find(name, installation):
    beside = _HERE / name
    return str(beside if beside.is_file() else installation.root / "bin" / name)


def start(command, env, user=None):
    # In a group of its own, since unruly's sessions are those of its child processes.
    return subprocess.Popen(command, env=env, user=user, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True)


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(process, timeout_s):
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        kill(process)
        said, _ = process.communicate()
        return "does not end: " + said[-200:]
    # Of a program that fails the line before says where.
    lines = said.strip().splitlines() or ["status %s" % process.returncode]
    return lines[-1] if "ok" in lines[-1] or len(lines) == 1 else lines[-1] + " | " + lines[-2]


def workers(descendants):
    return [pid for pid in descendants
            if "worker" in pathlib.Path("/proc/%d/comm" % pid).read_text(encoding="ascii")]


class Table:
    """Programs that run at one table, and what they ended with."""

    def __init__(self, options, installation, server, descendants):
        self._options, self._installation = options, installation
        self._workers = lambda: workers(descendants(server.pid))
        self._serving = lambda: {int(pid) for pid in SERVES.findall(server.log())}
        self._env = dict(installation.client_environment(server.endpoint), WARPLINE_TIER="guarded")

    def sit(self, role):
        """(whether nobody was disturbed, what became of the programs)."""
        options = self._options
        healthy = [start([find("long_program", self._installation), "--seconds=%g" % options.seconds,
                          "--seed=%d" % seed, "--rest_ms=%d" % (5000 if seed < options.idle else 60)],
                         self._env) for seed in range(options.healthy)]
        time.sleep(options.head_start)
        before = self._workers()
        unruly = start([find("unruly", self._installation), "--role=" + role,
                        "--seconds=%g" % options.unruly_seconds], self._env, options.user)
        end = options.end if role in ENDLESS else "nobody"
        if end != "nobody":
            time.sleep(options.unruly_seconds)
        if end == "client":
            kill(unruly)
        if end == "worker":
            # Not its standby, which is to take over.
            for pid in self._serving().intersection(before):
                os.kill(pid, signal.SIGKILL)
        verdicts = [last_line(process, options.seconds + PATIENCE_S) for process in healthy]
        if role in MAY_NOT_END:
            kill(unruly)
        own = last_line(unruly, PATIENCE_S)
        gone = set(before) - set(self._workers())
        right = sum(v.startswith("long_program: ok") for v in verdicts)
        lost = sum(v.startswith("long_program: LOST") for v in verdicts)
        idle_lost = sum(v.startswith("long_program: LOST") for v in verdicts[:options.idle])
        failed = [v for v in verdicts if not v.startswith(("long_program: ok", "long_program: LOST"))]
        longest = [int(found[1]) for found in (re.search(r"longest_ms=(\d+)", v) for v in verdicts) if found]
        said = "%d ok, %d LOST (%d of %d idle ones), %d FAILED, longest round %s ms, %s; itself: %s" % (
            right, lost, idle_lost, options.idle, len(failed), max(longest, default="?"),
            "worker replaced" if gone else "same worker", own)
        for verdict in verdicts:
            if not verdict.startswith("long_program: ok"):
                said += "\n    " + verdict
        expected = role in MAY_NOT_END or own.startswith("unruly: done")
        return not failed and (gone or not lost) and expected, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--healthy", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--head_start", type=float, default=2, metavar="SECONDS")
    parser.add_argument("--unruly_seconds", type=float, default=3)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--user")
    parser.add_argument("--end", choices=("client", "worker", "nobody"), default="client")
    parser.add_argument("--server_flag", action="append", default=[], metavar="FLAG")
    parser.add_argument("--log", type=pathlib.Path, metavar="FILE", help="keep the server's log there")
    options = parser.parse_args()
    roles = options.roles.split(",")
    for role in roles:
        if role not in ROLES:
            parser.error("no role %r; there are %s" % (role, ", ".join(ROLES)))
    local_server = find_local_server(options.bundle.resolve())
    installation = local_server.Installation.from_bundle(options.bundle.resolve())
    flags = ["--device=" + options.device, "--tiers=isolated,guarded", *options.server_flag]
    undisturbed = 0
    with local_server.Server(installation, flags) as server:
        table = Table(options, installation, server, local_server.descendants)
        for role in roles:
            right, said = table.sit(role)
            undisturbed += right
            print("%s: %s%s" % (role, "" if right else "DISTURBED ", said), flush=True)
        log = server.log()
    for line in log.splitlines():
        if OF_WORKERS.search(line):
            print("log: " + line)
    if options.log:
        options.log.write_text(log, encoding="utf-8")
    print("unruly: %d of %d roles disturbed nobody" % (undisturbed, len(roles)))
    return 0 if undisturbed == len(roles) else 1


if __name__ == "__main__":
    sys.exit(main())
