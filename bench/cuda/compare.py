#!/usr/bin/env python3
"""Compares warpline_bench with the native driver and through Warpline, in one run.

    compare.py --native=CMD --remote=CMD [--runs=N] [--json=FILE] [-- ARGUMENTS OF THE BENCHMARK]

The commands are run in turn, N times, in another order each time, so that a machine that gets
slower meanwhile does not favour one: natively, natively once more as a control, and remotely. Each
figure is the median of its runs (bench/paired.py says what the columns are). The column of the peer
is for another open GPU remoting project, Lupine, measured on one H200 with its server on the same
machine. Without --native, or where the native program finds no GPU, only the remote column is
printed.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import paired  # noqa: E402  (lies beside this file in a bundle)

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


def merge(runs):
    """Returns one row for each figure, in the order of the first remote run. `runs` has the figures
    of each run by side."""
    goals = paired.goals()
    units = {name: unit for side in ("remote", "native", "control") for run in runs[side]
             for name, (_, unit) in run.items()}
    rows = []
    for name, unit in units.items():
        # Runs of a turn belong together.
        native, control, remote = ([run[name][0] for run in runs[side] if name in run]
                                   for side in ("native", "control", "remote"))
        row = paired.row(name, unit, native, remote, control, goals.get(name))
        if remote:
            row["remote_runs"] = remote
        if name in PEER:
            row["peer"] = paired.slower(*PEER[name], unit)
        rows.append(row)
    return rows


def cell(value, suffix=""):
    if value is None:
        return ""
    return ("%.3g" if value < 1000 else "%.0f") % value + suffix


def print_table(rows, have_native):
    columns = ["figure", "unit", "native", "remote", "ratio", "spread", "goal", "peer"]
    cells = [[
        row["figure"], row["unit"],
        cell(row.get("native")),
        cell(row.get("remote")),
        cell(row.get("ratio"), "x"),
        cell(row.get("spread")),
        cell(row.get("goal"), "x") + paired.verdict(row),
        cell(row.get("peer"), "x")
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
    parser.add_argument("--runs", type=int, default=7, help="runs of each (default 7)")
    parser.add_argument("--no_control", action="store_true",
                        help="leaves out the control, and with it the spread")
    parser.add_argument("--timeout_s", type=float, default=300, help="for one run (default 300)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the rows as JSON")
    parser.add_argument("arguments", nargs="*", help="passed to the benchmark")
    options = parser.parse_args(argv)

    commands = {"remote": shlex.split(options.remote) + options.arguments}
    if options.native:
        commands["native"] = shlex.split(options.native) + options.arguments
        if not options.no_control:
            commands["control"] = commands["native"]
    runs = {"native": [], "control": [], "remote": []}
    for side in paired.turns(sorted(commands), max(options.runs, 1)):
        if side not in commands:
            continue
        figures, why = run_once(commands[side], options.timeout_s)
        if why is not None and side != "remote" and not figures:
            print("native: %s; the remote column alone follows" % why, file=sys.stderr)
            commands = {"remote": commands["remote"]}
            continue
        if why is not None:
            print("%s: %s" % (side, why), file=sys.stderr)
            return 1
        runs[side].append(figures)
    rows = merge(runs)
    if not rows:
        print("the benchmark printed no figures", file=sys.stderr)
        return 1
    print_table(rows, bool(runs["native"]))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
