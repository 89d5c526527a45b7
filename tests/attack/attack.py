#!/usr/bin/env python3
"""Attacks a running server, and says what was stopped.

  attack.py --bazel_bin=DIR [--suite=NAME]... [--minutes=N] [--sessions=N] [--seconds=N]
            [--neighbours=N] [--every=N] [--device=NAME] [--server_flag=FLAG]...
  attack.py --bazel_bin=DIR --prove=DIR [--suite=NAME] [--only=ROW,...]

One line an attack, `SUITE NAME: VERDICT (what happened)`, with VERDICT one of stopped, NOT STOPPED,
and n/a where the host lacks what the attack is about; then

  attack: S of N stopped, D neighbours disturbed (A n/a)

Exit status 0 when S = N and D = 0. A neighbour, which is another tenant's program, checks its results
all the while, but for the suite share, which measures such a program, and the suites pool and paging,
which run one in each row; the suite tier has ten of them. With --prove, shows of rows of the suites
wire, tier, pool and paging that they get through without what stops them (prove.py, prove_tier.py,
prove_rows.py).
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "deploy/local"), str(HERE.parent / "chaos")]

import local_server  # noqa: E402  (found by the path above)
import mutations  # noqa: E402
from accomplice_suite import AccompliceSuite  # noqa: E402
from escape_suite import EscapeSuite  # noqa: E402
from guard_suite import GuardSuite  # noqa: E402
from paging_suite import PagingSuite  # noqa: E402
from pool_suite import PoolSuite  # noqa: E402
from prove import SERVER_PROGRAMS, Prover  # noqa: E402
from prove_rows import PagingProver, PoolProver  # noqa: E402
from prove_tier import TierProver  # noqa: E402
from residue_suite import ResidueSuite  # noqa: E402
from share_suite import ShareSuite  # noqa: E402
from suite import NOT_HERE, NOT_STOPPED, STOPPED, Neighbour  # noqa: E402
from tier_suite import TierSuite  # noqa: E402
from traffic_suite import TrafficSuite  # noqa: E402
from wire_suite import WireSuite  # noqa: E402

SUITES = {suite.name: suite for suite in (EscapeSuite, AccompliceSuite, WireSuite, ResidueSuite,
                                       GuardSuite, TierSuite, PoolSuite, PagingSuite,
                                       TrafficSuite, ShareSuite)}
DEFAULT_SUITES = (EscapeSuite.name, AccompliceSuite.name, WireSuite.name, ResidueSuite.name,
                  GuardSuite.name, TierSuite.name, PoolSuite.name, PagingSuite.name)
PROGRAMS = {"bin/escape_worker": "tests/attack/escape_worker",
            "bin/guard_attack": "tests/guard/guard_attack",
            "bin/hostile": "tests/hostile/attack",
            "bin/long_program": "tests/chaos/long_program",
            "bin/paging_program": "tests/attack/paging_program",
            "bin/paging_worker": "tests/attack/paging_worker",
            "bin/residue": "tests/attack/residue",
            "bin/share_flood": "tests/attack/share_flood",
            "bin/share_program": "tests/attack/share_program",
            "bin/tier_attack": "tests/attack/tier/tier_attack",
            "bin/tier_neighbour": "tests/attack/tier/tier_neighbour",
            "bin/tier_successor": "tests/attack/tier/tier_successor",
            "bin/unary_flood": "tests/hostile/unary_flood",
            "bin/vector_add": "examples/vector_add",
            "bin/wire_client": "tests/attack/wire_client"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bazel_bin", help="what was built here")
    source.add_argument("--runfiles", action="store_true", help="what Bazel gave this test")
    source.add_argument("--folder", help="an installation with the programs of the attack in bin/")
    parser.add_argument("--suite", action="append", choices=sorted(SUITES),
                        help="run this suite only; default: %s" % ", ".join(DEFAULT_SUITES))
    parser.add_argument("--minutes", type=float, default=1, help="of the suite traffic")
    parser.add_argument("--sessions", type=int, default=ShareSuite.sessions,
                        help="hostile ones of the suite share")
    parser.add_argument("--seconds", type=float, default=ShareSuite.seconds,
                        help="that the suite share measures each time")
    parser.add_argument("--neighbours", type=int, default=TierSuite.neighbours,
                        help="of the suite tier")
    parser.add_argument("--every", type=int, default=TierSuite.every, metavar="N",
                        help="of the list of escapes, the suite tier makes each Nth only")
    parser.add_argument("--device", default="cpu", help="where kernels run: cpu (default) or cuda")
    parser.add_argument("--server_flag", action="append", default=[], metavar="FLAG")
    parser.add_argument("--prove", type=pathlib.Path, metavar="BAZEL_BIN",
                        help="what was built of the tree of mutations.py")
    parser.add_argument("--only", default="", metavar="ROW,...",
                        help="with --prove, or of the suites tier, pool and paging, these rows only; patterns with * in tier")
    return parser.parse_args()


def install(options):
    """An installation whose worker is the one that attacks."""
    if options.folder:
        return local_server.Installation(options.folder)
    built = local_server.Installation.from_bazel_bin(
        options.bazel_bin or pathlib.Path(os.environ["TEST_SRCDIR"]) / "warpline", PROGRAMS)
    # Where users without rights find it, too.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-attack-installation-"))
    try:
        shutil.copytree(built.root, folder, dirs_exist_ok=True)
    finally:
        built.close()
    folder.chmod(0o755)
    (folder / "bin").chmod(0o755)
    (folder / "bin/warpline-worker").unlink()
    (folder / "bin/escape_worker").rename(folder / "bin/warpline-worker")
    return local_server.Installation(folder, temporary=True)


def server_flags(options):
    return ["--device=" + options.device, "--warm_workers=0", "--session_memory=2GiB",
            "--ucx_networks=127.0.0.0/8", *options.server_flag]


def prove(options):
    installation = local_server.Installation.from_bazel_bin(options.bazel_bin, PROGRAMS)
    try:
        for target, source in SERVER_PROGRAMS.items():
            (installation.root / target).unlink()
            shutil.copy2((options.prove / source).resolve(), installation.root / target)
        only = set(filter(None, options.only.split(",")))
        provers = {WireSuite.name: Prover, TierSuite.name: TierProver, PoolSuite.name: PoolProver,
                   PagingSuite.name: PagingProver}
        proved = [provers[name](installation, server_flags(options)).prove(only)
                  for name in provers if name in (options.suite or provers)]
        return 0 if all(proved) else 1
    finally:
        installation.close()


def say_jails(log):
    """What the server said first of each jail: those that lack layers on purpose come later."""
    said = set()
    for line in log.splitlines():
        found = re.search(r" (jail profile=(\S+) .*)", line)
        if found and found[2] not in said:
            said.add(found[2])
            print("attack: " + found[1])


class Tally:
    """Counts the rows as it prints them."""

    def __init__(self):
        self.stopped = self.counted = self.absent = 0

    def add(self, row):
        print("attack: %s" % row, flush=True)
        self.absent += row.verdict == NOT_HERE
        self.counted += row.verdict != NOT_HERE
        self.stopped += row.verdict == STOPPED


def attack_beside_a_neighbour(names, flags, installation, tally):
    """Returns how many neighbours were disturbed, and how often one ran."""
    failures = 0
    with local_server.Server(installation, flags) as server:
        environment = installation.client_environment(server.endpoint)
        neighbour = Neighbour([str(installation.root / "bin/long_program"), "--seconds=5"],
                              environment)

        def session():
            done = subprocess.run([str(installation.root / "bin/vector_add")], env=environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=400, check=False)
            return done.returncode == 0

        try:
            for name in names:
                suite = SUITES[name](installation, server, session)
                try:
                    for row in suite.rows():
                        if not server.running() or len(neighbour.failures) > failures:
                            row.verdict = NOT_STOPPED
                            row.detail += "; a neighbour was disturbed meanwhile"
                        failures = len(neighbour.failures)
                        tally.add(row)
                finally:
                    suite.close()
        finally:
            neighbour.stop()
        say_jails(server.log())
        alive = server.running()
    for failure in neighbour.failures:
        print("attack: a neighbour was disturbed:\n%s" % failure)
    if not alive:
        print("attack: the server has ended")
    return len(neighbour.failures) + (not alive) + (neighbour.runs == 0), neighbour.runs


def attack(options, installation):
    tally = Tally()
    disturbed = runs = 0
    flags = server_flags(options)
    # Attacks that use up what a peer may have come through the unix socket, as another peer.
    bounds = ["--peer_memory=4GiB", "--tenant_host_memory=8GiB",
              "--listen=127.0.0.1:0,unix:%s" % (installation.root / "server.sock")]
    names = options.suite or DEFAULT_SUITES
    only = set(filter(None, options.only.split(",")))
    # They count as one peer with the neighbour, or have neighbours of their own.
    own = (TrafficSuite.name, ShareSuite.name, TierSuite.name, PoolSuite.name, PagingSuite.name)
    groups = [([name for name in names if name not in own], [*flags, *bounds]),
              ([name for name in names if name == TrafficSuite.name], flags)]
    for group, its_flags in groups:
        if group:
            figures = attack_beside_a_neighbour(group, its_flags, installation, tally)
            disturbed, runs = disturbed + figures[0], runs + figures[1]
    if ShareSuite.name in names:
        for row in ShareSuite(installation, flags).rows():
            tally.add(row)
    if TierSuite.name in names:
        suite = TierSuite(installation, flags)
        for row in suite.rows(only or None):
            tally.add(row)
        for failure in suite.failures:
            print("attack: a neighbour was disturbed:\n%s" % failure)
        disturbed, runs = disturbed + len(suite.failures), runs + suite.rounds
    for kind in (PoolSuite, PagingSuite):
        if kind.name not in names:
            continue
        suite = kind(installation, flags)
        try:
            for row in suite.rows(only):
                tally.add(row)
        finally:
            suite.close()
    print("attack: %d of %d stopped, %d neighbours disturbed (%d n/a, %d runs of the neighbour)"
          % (tally.stopped, tally.counted, disturbed, tally.absent, runs))
    return 0 if tally.stopped == tally.counted and tally.counted and not disturbed else 1


def main():
    options = arguments()
    TrafficSuite.minutes = options.minutes
    for suite in (AccompliceSuite, GuardSuite, PagingSuite, ResidueSuite, TierSuite):
        suite.device = options.device
    ShareSuite.sessions, ShareSuite.seconds = options.sessions, options.seconds
    TierSuite.neighbours, TierSuite.every = options.neighbours, options.every
    local_server.stop_on_signals()
    try:
        if options.prove:
            return prove(options)
        installation = install(options)
        try:
            return attack(options, installation)
        finally:
            installation.close()
    except (local_server.Error, mutations.Error) as error:
        print("attack: FAILED (%s)" % error)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
