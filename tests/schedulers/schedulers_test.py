#!/usr/bin/env python3
"""Three schedulers on three members of etcd: the one that leads is killed, paused and cut off from
etcd, while holders ask for leases, renew and release them. What they were told is judged by
history.py.

    schedulers_test.py [--times=5] [--faults=kill,pause,cut,etcd] [--keep=FOLDER]

`nap` is a pause of a minute. It prints for each fault how long it took until another scheduler had answered, and the
median, which is the machine's business: what is judged is what holders and servers were told."""
import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time

import history
import pool as pools
from pool import ETCD, TTL_S, Scheduler, wait_until


def fault(pool, kind, turn):
    """Does it, and returns after how many seconds a holder had an answer of another term."""
    leader = pool.leader()
    epoch = leader.epoch()
    began = time.time()
    member = pool.etcd.leader()
    if kind == "kill":
        leader.process.kill()
        leader.process.wait()
    elif kind in ("pause", "nap"):
        leader.process.send_signal(signal.SIGSTOP)
    elif kind == "cut":
        leader.relay.cut()
    elif kind == "etcd":
        # etcd's own leader dies with the scheduler's.
        pool.etcd.kill(member)
        leader.process.kill()
        leader.process.wait()
    wait_until(lambda: pool.answers_since(epoch) is not None,
               "another scheduler answers after " + kind)
    took = pool.answers_since(epoch) / 1e6 - began
    # So that it wakes up as one that is deposed, at another moment of its work each time.
    time.sleep(0.2 + 0.1 * (turn % 7))
    if kind == "nap":
        time.sleep(60)
    if kind in ("pause", "nap"):
        leader.process.send_signal(signal.SIGCONT)
    elif kind == "cut":
        leader.relay.mend()
    elif kind == "kill":
        leader.start()
    elif kind == "etcd":
        pool.etcd.start(member)
        leader.start()
    # Each term gives leases their time anew: those that were abandoned are to end before the next.
    pool.await_end_of_abandoned()
    return took


def run(binaries, folder, times, kinds):
    with contextlib.ExitStack() as stack:
        pool = pools.Pool(binaries, folder, stack)
        pool.begin()
        took = {kind: [] for kind in kinds}
        for turn in range(times):
            for kind in kinds:
                took[kind].append(fault(pool, kind, turn))
                if "-v" in sys.argv or times > 10:
                    print("%d %s %.2f s" % (turn, kind, took[kind][-1]), flush=True)
        # A follower says what there is.
        follower = min(pool.schedulers, key=Scheduler.epoch)
        assert follower is not pool.leader()
        pool.end()
        events = history.read(pool.history.read_text().splitlines())
    wrong = history.judge(events, 16 << 30, TTL_S * history.US)
    for kind, times_s in took.items():
        print("fault=%s times=%d takeover_median_s=%.2f takeover_max_s=%.2f" % (
            kind, len(times_s), statistics.median(times_s), max(times_s)))
    print(history.summary(events))
    print("violations=%d" % len(wrong))
    for line in wrong[:50]:
        print(line)
    assert not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5, help="how often each fault")
    parser.add_argument("--faults", default="kill,pause,cut,etcd")
    parser.add_argument("--keep", help="a folder for logs and the history")
    parser.add_argument("-v", action="store_true", help="a line for each fault")
    flags = parser.parse_args()
    if not os.access(ETCD, os.X_OK):
        print("skipped: etcd is not installed (apt-get install etcd-server)")
        return
    here = pathlib.Path(__file__).resolve().parent
    root = here.parent.parent / "bazel-bin"
    if "TEST_SRCDIR" in os.environ:
        root = pathlib.Path(os.environ["TEST_SRCDIR"]) / os.environ.get("TEST_WORKSPACE", "")
    binaries = pools.binaries_in(root)
    folder = pathlib.Path(flags.keep or tempfile.mkdtemp(prefix="warpline-schedulers-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run(binaries, folder, flags.times, flags.faults.split(","))
    except BaseException:
        if not flags.keep:
            for log in sorted(folder.glob("scheduler*.log")):
                print("--- %s\n%s" % (log.name, log.read_text()[-4000:]))
        raise
    finally:
        if not flags.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
