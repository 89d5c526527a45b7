#!/usr/bin/env python3
"""Measures what the server's module cache saves: a program's first run against an empty cache, its
next ones, and one after a restart of the server.

  module_load.py --bundle=DIR [--device=cuda|cpu|auto] [--runs=N] -- PROGRAM ARGUMENT ...

The program is any that uses CUDA, such as one with a large cubin or a first matrix product of
cuBLASLt. Prints how long each run took and how much the client sent, from its own counters.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "deploy/local"), str(HERE)]
import local_server  # noqa: E402  (found by the path above)


def run(installation, server, command):
    """Seconds and bytes sent of one run."""
    environment = installation.client_environment(server.endpoint)
    path = os.environ.get("LD_LIBRARY_PATH")
    if path:
        environment["LD_LIBRARY_PATH"] += ":" + path
    environment["WARPLINE_STAT"] = "1"
    start = time.monotonic()
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)
    seconds = time.monotonic() - start
    sent = sum(int(count) for count in re.findall(r"warpline stat: bytes sent: (\d+)", done.stderr))
    if done.returncode != 0:
        sys.exit("%s: status %d\n%s" % (command[0], done.returncode, done.stderr))
    return seconds, sent


def show(what, runs):
    seconds = [run[0] for run in runs]
    print("%-32s %8.3f s (%.3f to %.3f, %d runs) %12d bytes sent"
          % (what, statistics.median(seconds), min(seconds), max(seconds), len(seconds),
             runs[-1][1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    installation = local_server.Installation.from_bundle(args.bundle)
    with tempfile.TemporaryDirectory(prefix="modules-") as folder:
        cached = ["--device=" + args.device, "--module_cache_dir=" + folder]
        without = ["--device=" + args.device, "--module_cache_dir=none"]
        with local_server.Server(installation, without) as server:
            run(installation, server, args.command)  # Warms the page cache for all that follows.
            show("without a cache", [run(installation, server, args.command)
                                     for _ in range(args.runs)])
        first = []
        for _ in range(args.runs):
            shutil.rmtree(folder, ignore_errors=True)
            with local_server.Server(installation, cached) as server:
                first.append(run(installation, server, args.command))
                again = [run(installation, server, args.command) for _ in range(args.runs)]
        show("first, into an empty cache", first)
        show("next ones", again)
        with local_server.Server(installation, cached) as server:
            show("after a restart of the server", [run(installation, server, args.command)])


if __name__ == "__main__":
    main()
