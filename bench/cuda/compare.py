#!/usr/bin/env python3
"""Compares warpline_bench with the native driver and through Warpline, in one run.

    compare.py --native=CMD --remote=CMD [--runs=N] [--json] [-- ARGUMENTS OF THE BENCHMARK]

Both commands are run in turn, N times, the order swapped each time, so that a machine that gets
slower meanwhile does not favour one. Each figure is the median of its runs. "slower" is how many
times slower the remote figure is than the native one, whatever the unit; the column of the peer is
the same ratio for another open GPU remoting project, Lupine, measured on one H200 with its server
on the same machine. Without --native, or where the native program finds no GPU, only the remote
column is printed.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys

# name: (native, Lupine), in the unit of the figure.
PEER = {
    "init": (324, 352),
    "launch_issue": (3.55, 4.86),
    "launch_throughput": (3.55, 6.68),
    "launch_sync": (8.4, 45.0),
    "event_record_sync": (6.0, 43.9),
    "malloc_free": (56.9, 151.8),
    "malloc_async_free_async": (0.71, 66.5),
    "h2d_4B": (5.2, 43.5),
    "d2h_4B": (6.9, 43.5),
    "h2d_pageable_64KiB": (4.4, 0.9),
    "d2h_pageable_64KiB": (4.2, 0.7),
    "h2d_pinned_64KiB": (7.1, 0.9),
    "d2h_pinned_64KiB": (8.6, 0.7),
    "h2d_pageable_1MiB": (13.0, 2.3),
    "d2h_pageable_1MiB": (10.2, 1.2),
    "h2d_pinned_1MiB": (39.4, 2.1),
    "d2h_pinned_1MiB": (40.2, 1.2),
    "h2d_pageable_16MiB": (16.6, 2.8),
    "d2h_pageable_16MiB": (16.7, 1.8),
    "h2d_pinned_16MiB": (54.0, 2.6),
    "d2h_pinned_16MiB": (54.2, 1.8),
    "h2d_pageable_256MiB": (9.4, 2.7),
    "d2h_pageable_256MiB": (16.3, 2.6),
    "h2d_pinned_256MiB": (55.4, 2.4),
    "d2h_pinned_256MiB": (55.3, 3.1),
}


def parse_figures(text):
    """Returns {name: (value, unit)} of the JSON lines in text; other lines do not matter."""
    figures = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            figure = json.loads(line)
            figures[figure["name"]] = (float(figure["value"]), figure["unit"])
        except (ValueError, KeyError, TypeError):
            continue
    return figures


def run_once(command, timeout_s):
    """Returns (figures, why it failed or None)."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout_s,
            check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    figures = parse_figures(done.stdout)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        return figures, lines[-1] if lines else "exit status %d" % done.returncode
    return figures, None


def slower(native, remote, unit):
    """How many times slower remote is than native; None if that has no meaning."""
    if native <= 0 or remote <= 0:
        return None
    return native / remote if unit.endswith("/s") else remote / native


def merge(native_runs, remote_runs):
    """Returns one row for each figure, in the order of the first remote run."""
    rows = []
    names = []
    for run in remote_runs + native_runs:
        names += [name for name in run if name not in names]
    for name in names:
        native = [run[name][0] for run in native_runs if name in run]
        remote = [run[name][0] for run in remote_runs if name in run]
        unit = next(run[name][1] for run in remote_runs + native_runs if name in run)
        row = {"name": name, "unit": unit}
        if native:
            row["native"] = statistics.median(native)
        if remote:
            row["remote"] = statistics.median(remote)
            row["remote_runs"] = remote
        if native and remote:
            row["slower"] = slower(row["native"], row["remote"], unit)
        if name in PEER:
            row["peer_slower"] = slower(PEER[name][0], PEER[name][1], unit)
        rows.append(row)
    return rows


def cell(value, suffix=""):
    if value is None:
        return ""
    return ("%.3g" if value < 1000 else "%.0f") % value + suffix


def print_table(rows, have_native):
    columns = ["figure", "unit", "native", "remote", "slower", "peer slower"]
    cells = [[
        row["name"], row["unit"],
        cell(row.get("native")),
        cell(row.get("remote")),
        cell(row.get("slower"), "x"),
        cell(row.get("peer_slower"), "x")
    ] for row in rows]
    if not have_native:
        columns = columns[:2] + columns[3:4]
        cells = [line[:2] + line[3:4] for line in cells]
    widths = [max(len(line[i]) for line in [columns] + cells) for i in range(len(columns))]
    for line in [columns] + cells:
        print("  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths))).rstrip())


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", help="command of the benchmark with the native driver")
    parser.add_argument("--remote", required=True, help="the same through Warpline")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--timeout_s", type=float, default=300, help="for one run (default 300)")
    parser.add_argument("--json", action="store_true", help="print one JSON array, no table")
    parser.add_argument("arguments", nargs="*", help="passed to the benchmark")
    options = parser.parse_args(argv)

    commands = {"remote": shlex.split(options.remote) + options.arguments}
    if options.native:
        commands["native"] = shlex.split(options.native) + options.arguments
    runs = {"native": [], "remote": []}
    for number in range(max(options.runs, 1)):
        for side in sorted(commands, reverse=number % 2 == 1):
            figures, why = run_once(commands[side], options.timeout_s)
            if why is not None and side == "native" and not figures:
                print("native: %s; the remote column alone follows" % why, file=sys.stderr)
                del commands["native"]
                continue
            if why is not None:
                print("%s: %s" % (side, why), file=sys.stderr)
                return 1
            runs[side].append(figures)
    rows = merge(runs["native"], runs["remote"])
    if not rows:
        print("the benchmark printed no figures", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print_table(rows, bool(runs["native"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
