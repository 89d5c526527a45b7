#!/usr/bin/env python3
"""What tenants with weights get of a GPU that they keep busy together.

  shares.py --bundle=DIR --program=shares [--device=auto] [--tier=isolated|guarded] [--seconds=14] [--blocks=1056]
            [--weights=1:1,3:1,10:1] [--kernels_us=50:50,50:5000,5000:50,5000:5000,50:64MiB] [--wait]
            [--streams=1:1] [--processes=1:1] [--programs=1:1] [--multiprocessors]
            [--dispatch=band,off] [--server_flag=FLAG ...] [--json=FILE] [--md=FILE]

For each kind of dispatch, each pair of weights and each pair of lengths a scheduler with two
tenants and a server are asked to run two programs (bench/cuda:shares) at once. A kernel does a fixed
amount of arithmetic, calibrated alone and through the same server, so what a tenant has had is the number
of its kernels times the time of one alone. Prints, from two seconds after both were at work until
the first one ended: the share of the first tenant in all, the largest distance of its share in one
second from what the weights say, the error in all relative to the smaller share, the sum of what
both had by the time that passed, and what the server's books say of the first one's share. With
--multiprocessors the kernels note from when to when they ran, and on which multiprocessors, and the
row also says what the first tenant had of the seconds of multiprocessors. Where tenants run at once
on parts of a GPU that is their time of it; how much a part gets done in its time depends on how the
kernels' blocks fill it. The first rows are of a tenant alone. A length in MiB or KiB stands for copies
of so much to the device, over and over. Beside kernels they are on another engine: then each is due all
that it has alone, and the row says what the first and the second kept of it. With --streams=4:1 each
process of the first tenant has four threads, each with a stream of its own; with --processes=4:1 its
program has four processes, which are four sessions of one lease and together have what one would; and
with --programs=4:1 it has four such programs, which are four leases.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pool import Pool  # noqa: E402  (found by the path above)

WARM_UP_S = 2.0
# A program of several processes, each of which has a tier of these, which prints what each of them did.
SEVERAL = ("import os, subprocess, sys; "
           "all = [subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, env={**os.environ, 'WARPLINE_TIER': tier}) "
           "for tier in sys.argv[1].split(',')]; "
           "[sys.stdout.buffer.write(one.communicate()[0]) for one in all]; "
           "sys.exit(max(one.returncode for one in all))")


def results_of(process, timeout_s):
    """What the processes of a program say that they did."""
    try:
        said, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        said, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError("ended with %s: %s" % (process.returncode, (said + errors)[-600:]))
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def at(progress, moment):
    """How much was complete at a moment, between two that are known."""
    for (t0, n0), (t1, n1) in zip(progress, progress[1:]):
        if t0 <= moment <= t1:
            return n0 + (n1 - n0) * (moment - t0) / (t1 - t0)
    return progress[-1][1]


def had(run, start, end):
    """Seconds of the device, as long as the kernels of a program's processes take alone."""
    return sum((at(one["progress"], end) - at(one["progress"], start)) * one["kernel_us"] * 1e-6 for one in run)


def span(runs):
    """From when all were at work until the first one ended."""
    return (max(one["progress"][0][0] for run in runs for one in run) + WARM_UP_S,
            min(one["progress"][-1][0] for run in runs for one in run))


def judge_apart(runs):
    """Of tenants that use different engines: what each kept of what it has alone."""
    start, end = span(runs)
    return {"kept": [had(run, start, end) / (end - start) for run in runs], "seconds": end - start}


def held(run, start, end):
    """Seconds of a multiprocessor that a program's kernels were on."""
    return sum(at(one["multiprocessor_seconds"], end) - at(one["multiprocessor_seconds"], start) for one in run)


def judge(runs, weights, measure_of=had):
    """`measure_of` says what a tenant's processes had between two moments."""
    start, end = span(runs)
    due = weights[0] / sum(weights)
    times = [measure_of(run, start, end) for run in runs]
    share = times[0] / sum(times)
    worst = 0
    for second in range(int(end - start)):
        parts = [measure_of(run, start + second, start + second + 1) for run in runs]
        worst = max(worst, abs(parts[0] / sum(parts) - due))
    smaller = min(due, 1 - due)
    return {"due": due, "share": share, "worst_second": worst, "relative_error": abs(share - due) / smaller,
            "sum": sum(times) / (end - start), "seconds": end - start}


class Measurement:
    """`tier` may be several with commas between: a program's processes have them in turn."""

    def __init__(self, pool, program, tier, options):
        self._pool = pool
        self._program = str(program)
        self._tiers = tier.split(",")
        self._options = options

    def calibrate(self, load):
        """`load` is a kernel's length in microseconds, or "64MiB" or "4KiB" for copies of so much."""
        copy = ["--copy_kib=%d" % kib_of(load)] if kib_of(load) else []
        kernel_us = 1000 if copy else load
        kernel = results_of(self._pool.start(0, self._tiers[0], self._program, "--calibrate",
                                             "--kernel_us=%g" % kernel_us, *copy, *self._options), 120)[-1]
        return {**kernel, "copy": copy}

    def _start(self, tenant, kernel, seconds, processes=1, streams=1):
        tiers = [self._tiers[i % len(self._tiers)] for i in range(processes)]
        several = [sys.executable, "-c", SEVERAL, ",".join(tiers)] if processes > 1 else []
        return self._pool.start(tenant, tiers[0], *several, self._program, "--rounds=%d" % kernel["rounds"],
                                "--kernel_us=%g" % kernel["kernel_us"], "--seconds=%g" % seconds,
                                "--streams=%d" % streams, *kernel["copy"], *self._options)

    def alone(self, kernel, seconds):
        run = results_of(self._start(0, kernel, seconds), seconds + 60)
        start, end = run[0]["progress"][0][0] + seconds / 4, run[0]["progress"][-1][0]
        return had(run, start, end) / (end - start)

    def together(self, kernels, weights, seconds, counts=(1, 1), programs=(1, 1), streams=(1, 1)):
        """`counts` processes, of each of `programs`, which have a lease each; `streams` of each process."""
        started = [[self._start(i, kernel, seconds, counts[i], streams[i]) for _ in range(programs[i])]
                   for i, kernel in enumerate(kernels)]
        time.sleep(seconds * 0.35)
        before = self._pool.engine_times()
        time.sleep(seconds * 0.45)
        after = self._pool.engine_times()
        runs = [[result for process in processes for result in results_of(process, seconds + 60)]
                for processes in started]
        if len({bool(kernel["copy"]) for kernel in kernels}) > 1:
            return judge_apart(runs)
        row = judge(runs, weights)
        if all("multiprocessor_seconds" in one for run in runs for one in run):
            row["held"] = judge(runs, weights, held)
            row["held"]["multiprocessors"] = row["held"].pop("sum")  # On how many the kernels were.
        # Of a tenant whose program was slow to start there is nothing before.
        booked = [after.get("tenant%d" % i, 0) - before.get("tenant%d" % i, 0) for i in range(len(runs))]
        row["books"] = booked[0] / sum(booked) if sum(booked) > 0 else 0
        return row


def tenants_of(weights):
    """The tenants of a pool, which have these weights."""
    return [["--weight=%d" % weight, "--copy_weight=%d" % weight] for weight in weights]


def kib_of(load):
    """Of copies, as 64MiB or 4KiB; 0 for kernels."""
    if not isinstance(load, str):
        return 0
    return int(load[:-len("MiB")]) * (1024 if load.endswith("MiB") else 1)


def pairs(text):
    return [tuple(part if part.endswith("iB") else float(part) for part in pair.split(":"))
            for pair in text.split(",")]


def said(load):
    return load if isinstance(load, str) else "%g" % load


def table(rows):
    lines = ["| dispatch | weights | kernels, us | due | had | worst second, pp | relative error | sum | books "
             "| multiprocessors: had | their worst second, pp | their relative error |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if "share" not in row:
            kept = row.get("kept", [row.get("sum")])
            lines.append("| %s | %s | %s | | %s | | | %.3f | | | | |" % (
                row["dispatch"], "%g:%g" % row["weights"] if "weights" in row else "alone",
                " : ".join(map(said, row["kernels_us"])),
                ", ".join("%.3f" % part for part in kept) if len(kept) > 1 else "", sum(kept)))
            continue
        apart = row.get("held")
        lines.append("| %s | %g:%g | %s : %s | %.3f | %.3f | %.1f | %.3f | %.3f | %.3f | %s |" % (
            row["dispatch"], *row["weights"], *map(said, row["kernels_us"]), row["due"], row["share"],
            100 * row["worst_second"], row["relative_error"], row["sum"], row["books"],
            " | ".join(["", "", ""] if apart is None else
                       ["%.3f" % apart["share"], "%.1f" % (100 * apart["worst_second"]),
                        "%.3f" % apart["relative_error"]])))
    return "\n".join(lines)


def measure(local_server, installation, args):
    rows = []
    options = ["--blocks=%d" % args.blocks] + (["--wait"] if args.wait else []) + \
        (["--multiprocessors"] if args.multiprocessors else [])
    for dispatch in args.dispatch.split(","):
        for weights in pairs(args.weights):
            flags = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + dispatch,
                     *args.server_flag]
            with Pool(local_server, installation, tenants_of(weights), flags) as pool:
                measurement = Measurement(pool, args.program.resolve(), args.tier, options)
                lengths = sorted({length for pair in pairs(args.kernels_us) for length in pair}, key=said)
                kernels = {length: measurement.calibrate(length) for length in lengths}
                for length in lengths:
                    rows.append({"dispatch": dispatch, "kernels_us": [length],
                                 "sum": measurement.alone(kernels[length], max(args.seconds / 4, 1))})
                for pair in pairs(args.kernels_us):
                    row = measurement.together([kernels[length] for length in pair], weights, args.seconds,
                                               *[[int(count) for count in counts.split(":")]
                                                 for counts in (args.processes, args.programs, args.streams)])
                    rows.append({"dispatch": dispatch, "weights": weights, "kernels_us": pair, **row})
                    print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    return rows


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:shares")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tier", default="isolated", help="or several, as isolated,guarded: a program's processes "
                        "have them in turn")
    parser.add_argument("--seconds", type=float, default=14)
    parser.add_argument("--weights", default="1:1,3:1,10:1")
    parser.add_argument("--kernels_us", default="50:50,50:5000,5000:50,5000:5000")
    parser.add_argument("--blocks", type=int, default=1056, help="of each kernel; 16 on the CPU device")
    parser.add_argument("--streams", default="1:1", help="of each process, each with a thread of its own")
    parser.add_argument("--processes", default="1:1", help="of each tenant's program")
    parser.add_argument("--programs", default="1:1", help="of each tenant, each with a lease of its own")
    parser.add_argument("--wait", action="store_true", help="each kernel is waited for")
    parser.add_argument("--multiprocessors", action="store_true", help="the kernels note where and when they ran")
    parser.add_argument("--dispatch", default="band,off")
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    return parser.parse_args(arguments)


def main():
    args = parse()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    rows = measure(local_server, local_server.Installation.from_bundle(args.bundle), args)
    print(table(rows))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="ascii")
    if args.md:
        args.md.write_text(table(rows) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
