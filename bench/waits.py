#!/usr/bin/env python3
"""How soon waits with deadlines return, and how soon a cancelled kernel has ended.

    bench/waits.py --endpoint=HOST:PORT --lib=DIR [--python=DIR] [--rounds=200]

DIR are the folders `lib` and `python` of a bundle. For each round a kernel that never ends is
launched and waited for with a deadline of 5 ms; then its stream is cancelled. Prints the median, the
99th percentile and the most of both in milliseconds, as one object of JSON. The goals are 8 ms for
the 99th percentile of a wait and 20 ms for a cancel. The session is of the guarded tier, since it goes on
after a cancel.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEADLINE = 0.005


def figures(seconds):
    ordered = sorted(1000 * one for one in seconds)
    return {"median_ms": round(ordered[len(ordered) // 2], 3),
            "p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 3),
            "most_ms": round(ordered[-1], 3)}


def measure(rounds):
    sys.path[:0] = [str(ROOT / "tests/waits")]
    import application  # Beside the tests; it needs the client's library.
    import warpline

    cuda = application.Cuda()
    stream, other = cuda.stream(), cuda.stream()
    waits, cancels = [], []
    for _ in range(rounds):
        cuda.await_spin(stream, other)
        begin = time.perf_counter()
        complete = warpline.wait_stream(stream, DEADLINE)
        waits.append(time.perf_counter() - begin)
        assert not complete
        begin = time.perf_counter()
        warpline.cancel_stream(stream)
        assert warpline.wait_stream(stream)
        cancels.append(time.perf_counter() - begin)
    print(json.dumps({"rounds": rounds, "wait": figures(waits), "cancel": figures(cancels)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--lib", required=True)
    parser.add_argument("--python", default=str(ROOT / "client_stub"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.rounds)
    environment = dict(os.environ, WARPLINE_ENDPOINT=options.endpoint, WARPLINE_TIER="guarded",
                       LD_LIBRARY_PATH=options.lib, PYTHONPATH=options.python)
    return subprocess.run([sys.executable, __file__, "--measure", *sys.argv[1:]], env=environment,
                          check=True).returncode


if __name__ == "__main__":
    sys.exit(main())
