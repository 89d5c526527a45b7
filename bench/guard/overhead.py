#!/usr/bin/env python3
"""Compares the GPU time of a program's kernels guarded and unguarded.

  overhead.py --bundle=DIR --programs=DIR --list=FILE [--libraries=DIR:...] [--runs=2] [--budget_s=600]
              [--json=FILE] [--md=FILE] [--svg=FILE]

Each line of the list is a program, which lies in a folder of its name below --programs, and its
arguments. Each runs in four modes, one after the other and in another order each time: unguarded
(off), with the fence (fence), with the fence of an arena of 4 GiB (fence4, on a server of its own),
and hardened. kernel_times.c measures each launch. A kernel's time is the least of its medians; a
program's ratio is that of the sums over the launches of the kernels that all modes have timed.

Unguarded a program runs the machine code that nvcc made, if it holds any for the device; guarded it
runs what the driver makes of the PTX. The ratio has that difference in it. Build with
`-gencode arch=compute_90,code=compute_90` alone to leave it out.
"""
import argparse
import contextlib
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
# Name, the server of its own that it needs, WARPLINE_GUARD.
MODES = (("off", "", "off"), ("fence", "", "fence"), ("fence4", "--arena_size=4GiB", "fence"),
         ("hardened", "", "hardened"))


def read_times(text):
    """(kernel, grid, block) -> (launches, median in us)."""
    return {(row["kernel"], row["grid"], row["block"]): (int(row["launches"]),
                                                         float(row["median_us"]))
            for row in csv.DictReader(text.splitlines())}


def best_of(runs):
    """The least time of each kernel over several runs."""
    best = {}
    for times in runs:
        for kernel, (launches, median) in times.items():
            known = best.get(kernel)
            best[kernel] = (launches, min(median, known[1]) if known else median)
    return best


def sums(by_mode):
    """Mode -> us of the kernels that all modes have timed, and how many those are."""
    common = set.intersection(*(set(times) for times in by_mode.values()))
    return {mode: sum(times[kernel][0] * times[kernel][1] for kernel in common)
            for mode, times in by_mode.items()}, len(common)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(results):
    """Markdown: a row for each program, then the means."""
    names = [mode for mode, _, _ in MODES[1:]]
    lines = ["| program | kernels | off, us | %s |" % " | ".join(names),
             "|---|---|---|%s" % ("---|" * len(names))]
    timed = {name: result for name, result in results.items() if result["us"].get("off")}
    for name, result in sorted(timed.items()):
        ratios = ["%.3f" % (result["us"][mode] / result["us"]["off"]) for mode in names]
        lines.append("| %s | %d | %.0f | %s |" % (name, result["kernels"], result["us"]["off"],
                                                  " | ".join(ratios)))
    means = ["%.3f" % geometric_mean([r["us"][mode] / r["us"]["off"] for r in timed.values()])
             for mode in names]
    lines.append("| geometric mean of %d | | | %s |" % (len(timed), " | ".join(means)))
    return "\n".join(lines) + "\n"


# Of the plot, in pixels; ratios beyond its ends are drawn there.
LEFT, WIDTH, TOP, ROW = 140, 480, 50, 14
LEAST, MOST = 0.8, 1.6
COLORS = {"fence": "steelblue", "fence4": "seagreen", "hardened": "indianred"}


def plot(results):
    """SVG: a row for each program with a dot for each mode, and the means below."""
    timed = {name: [result["us"][mode] / result["us"]["off"] for mode in COLORS]
             for name, result in sorted(results.items()) if result["us"].get("off")}
    rows = list(timed.items())
    if rows:
        rows.append(("geometric mean", [geometric_mean(each) for each in zip(*timed.values())]))
    height = TOP + ROW * len(rows) + 10

    def place(ratio):
        return LEFT + (min(max(ratio, LEAST), MOST) - LEAST) / (MOST - LEAST) * WIDTH

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="11">' % (LEFT + WIDTH + 30, height),
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="8" y="14">Time of kernels, guarded to unguarded:</text>']
    for index, (mode, color) in enumerate(COLORS.items()):
        out.append('<circle cx="%d" cy="10" r="4" fill="%s"/><text x="%d" y="14">%s</text>' % (
            LEFT + 110 + index * 74, color, LEFT + 118 + index * 74, mode))
    for tenths in range(8, 17, 2):
        x = place(tenths / 10)
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>' % (
            x, TOP - 6, x, height, "black" if tenths == 10 else "lightgray"))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%.1f</text>' % (
            x, TOP - 10, tenths / 10))
    for index, (name, ratios) in enumerate(rows):
        y = TOP + ROW * index + ROW // 2
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (LEFT - 8, y + 4,
                                                                        escape(name)))
        for ratio, color in zip(ratios, COLORS.values()):
            out.append('<circle cx="%.1f" cy="%d" r="3.5" fill="%s" fill-opacity="0.8"/>' % (
                place(ratio), y, color))
    return "\n".join(out + ["</svg>", ""])


def build_library(folder, cuda):
    library = folder / "kernel_times.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-I%s/include" % cuda, "-o", str(library),
                    str(HERE / "kernel_times.c"), "-ldl", "-lpthread"], check=True)
    return library


def run(args, words, mode, endpoint, library, out):
    """One run's times; none where the program did not end well."""
    out.unlink(missing_ok=True)
    env = dict(os.environ, WARPLINE_ENDPOINT=endpoint, WARPLINE_GUARD=mode,
               KERNEL_TIMES_OUT=str(out), LD_PRELOAD=str(library),
               LD_LIBRARY_PATH="%s/lib:%s" % (args.bundle.resolve(), args.libraries))
    try:
        done = subprocess.run(["./" + words[0], *words[1:]], cwd=args.programs / words[0], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=args.timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {}
    return read_times(out.read_text()) if done.returncode == 0 and out.is_file() else {}


def measure(args, words, endpoints, library, out):
    runs = {mode: [] for mode, _, _ in MODES}
    for turn in range(args.runs):
        first = turn * 2 % len(MODES)
        for mode, flag, guard in MODES[first:] + MODES[:first]:
            runs[mode].append(run(args, words, guard, endpoints[flag], library, out))
    us, kernels = sums({mode: best_of(times) for mode, times in runs.items()})
    return {"us": us, "kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", default="/usr/local/cuda/lib64")
    parser.add_argument("--cuda", default="/usr/local/cuda", help="the toolkit, for its headers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, default=2, help="of each program in each mode")
    parser.add_argument("--timeout_s", type=float, default=30, help="of one run")
    parser.add_argument("--budget_s", type=float, default=600, help="then no program begins")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path, help="a plot")
    args = parser.parse_args()
    sys.path[:0] = [str(args.bundle.resolve()), str(HERE.parent.parent / "deploy/local")]
    import local_server  # pylint: disable=import-outside-toplevel
    installation = local_server.Installation.from_bundle(args.bundle)
    started, results = time.monotonic(), {}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        library = build_library(folder, args.cuda)
        endpoints = {}
        for flag in dict.fromkeys(flag for _, flag, _ in MODES):
            flags = ["--device=" + args.device] + ([flag] if flag else [])
            endpoints[flag] = stack.enter_context(local_server.Server(installation, flags)).endpoint
        for line in args.list.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if time.monotonic() - started > args.budget_s:
                print("not run: " + words[0], file=sys.stderr)
                continue
            results[words[0]] = measure(args, words, endpoints, library, folder / "times.csv")
            print(words[0], json.dumps(results[words[0]]), file=sys.stderr, flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if args.md:
        args.md.write_text(table(results), encoding="utf-8")
    if args.svg:
        args.svg.write_text(plot(results), encoding="utf-8")
    print(table(results), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
