#!/usr/bin/env python3
"""Step times of PyTorch programs, natively and with `warpline run --`, alternating in one run.

  frameworks.py --bundle=DIR [--only=resnet50_train,...] [--rounds=N] [--json=FILE] [--stat]
  frameworks.py --bundle=DIR --at_once=16 [--seconds=S] [--rounds=N] [--json=FILE]

One process for each side is started and warmed up, and a second native one as a control; then they
take turns, some steps each, so that what the machine does otherwise meets all. Prints the median of
the rounds' medians of each side, their range, the ratio, and the spread (bench/paired.py); --stat
shows the remote session's counters.

With --at_once that many processes of each side make steps at the same time, for --seconds (5) a
turn; the figure is how many steps a second they make together. Native processes take each turn
twice, once as the control.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/gpu"), str(ROOT / "bench")]
import paired  # noqa: E402
import sides as two_sides  # noqa: E402

PROGRAM = ROOT / "bench/framework_steps.py"
# Name -> steps in one turn.
STEPS = {"resnet50_train": 20, "resnet50_pageable": 20, "resnet50_loader": 20, "gpt2_train": 15,
         "gpt2_decode_fp16": 64, "gpt2_generate": 2, "tiny_mlp_train": 300}
AT_ONCE = ("tiny_mlp_train", "gpt2_decode_fp16")
NEEDS = {"gpt2_generate": "transformers"}
# The control is a native program.
KINDS = {"native": "native", "control": "native", "remote": "remote"}
# Of many processes, so many start together: most of a start is one processor's work, and contexts
# that are made at the same time wait for each other.
STARTS_TOGETHER = 4
# Programs print three digits, and sums whose order varies natively move the last of them.
LAST_DIGIT = 0.0021
NUMBERS = {16: "sixteen", 64: "sixty_four"}


class Runner:
    """A process; begin() and finish() make it do some steps."""

    def __init__(self, sides, side, name, stat=False, number=0):
        further = {"WARPLINE_STAT": "1"} if stat and side == "remote" else {}
        use = "%s-%s-%d" % (name, side, number)
        kind = KINDS.get(side, side)
        self._process = subprocess.Popen(
            sides.command(kind, PROGRAM, name), env=sides.environment(kind, use, further),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def begin(self, what):
        """`what` is how many steps, or for how long: "5 s"."""
        self._process.stdin.write("%s\n" % what)
        self._process.stdin.flush()

    def finish(self):
        """Milliseconds of each step. After the start: the results of the first steps."""
        for line in self._process.stdout:
            if line.startswith("@steps "):
                return json.loads(line[len("@steps "):])
        raise RuntimeError("the program ended with status %s" % self._process.wait())

    def close(self):
        try:
            self._process.stdin.close()
            self._process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            pass
        two_sides.end_group(self._process)
        self._process.wait()


def measure(sides, name, args):
    """The row of a program."""
    runners, medians = {}, {side: [] for side in KINDS}
    try:
        for side in KINDS:
            runners[side] = Runner(sides, side, name, args.stat)
        results = {side: runner.finish() for side, runner in runners.items()}
        for side in paired.turns(list(KINDS), args.rounds):
            runners[side].begin(STEPS[name])
            medians[side].append(statistics.median(runners[side].finish()))
    finally:
        for runner in runners.values():
            runner.close()
    row = paired.row(name, "ms", medians["native"], medians["remote"], medians["control"],
                     paired.goals().get(name))
    # A program that does not repeat its own results says nothing about ours.
    if results["native"] == results["control"]:
        row["same_result"] = all(abs(ours - native) <= LAST_DIGIT for ours, native in
                                 zip(results["remote"], results["native"]))
    row["ranges"] = {side: [min(found), max(found)] for side, found in medians.items()}
    return row


def start_all(sides, side, name, count, group):
    """Appends to the group as many that are warmed up."""
    for first in range(0, count, STARTS_TOGETHER):
        started = [Runner(sides, side, name, number=number)
                   for number in range(first, min(first + STARTS_TOGETHER, count))]
        group.extend(started)
        for runner in started:
            runner.finish()
        print("%s: %d of %d %s processes are ready" % (name, len(group), count, side),
              file=sys.stderr, flush=True)


def measure_at_once(sides, name, args):
    """The row of many processes of a program."""
    groups, rates = {"native": [], "remote": []}, {side: [] for side in KINDS}
    try:
        for side, group in groups.items():
            start_all(sides, side, name, args.at_once, group)
        for side in paired.turns(list(KINDS), args.rounds):
            group = groups[KINDS[side]]
            for runner in group:
                runner.begin("%g s" % args.seconds)
            # The last step of each begins within the time and ends after it.
            rates[side].append(sum(len(times) / (sum(times) / 1000)
                                   for times in (runner.finish() for runner in group)))
    finally:
        for group in groups.values():
            for runner in group:
                runner.close()
    figure = "%s_%s" % (NUMBERS.get(args.at_once, args.at_once), name)
    row = paired.row(figure, "steps/s", rates["native"], rates["remote"], rates["control"],
                     paired.goals().get(figure))
    row["ranges"] = {side: [min(found), max(found)] for side, found in rates.items()}
    return row


def line(row):
    ranges = ["%s %9.3f (%.3f - %.3f)" % (side, row[side], *row["ranges"][side])
              for side in ("native", "remote")]
    goal = "  goal %.2f%s" % (row["goal"], paired.verdict(row)) if paired.verdict(row) else ""
    return "%-24s %-7s %s  ratio %.3f  spread %.3f%s%s" % (
        row["figure"], row["unit"], "  ".join(ranges), row["ratio"], row.get("spread", 0),
        goal, "" if row.get("same_result", True) else "  results DIFFER")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_sides.add_arguments(parser)
    parser.add_argument("--only", help="programs, separated by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--at_once", type=int, metavar="N", help="N processes of each side")
    parser.add_argument("--seconds", type=float, default=5, help="of one turn with --at_once")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the rows as JSON")
    parser.add_argument("--stat", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else list(AT_ONCE if args.at_once else STEPS)
    for name in wanted:
        if name not in STEPS:
            parser.error("there is no program %s; there are: %s" % (name, ", ".join(STEPS)))
    rows, status = [], 0
    print("machine: %d CPUs; %d rounds; median of the rounds (from - to)"
          % (os.cpu_count() or 0, args.rounds))
    with two_sides.opened(args) as sides:
        for name in wanted:
            if name in NEEDS and not two_sides.has_module(args.python, NEEDS[name]):
                print("%-24s skipped: no %s here" % (name, NEEDS[name]), flush=True)
                continue
            try:
                row = (measure_at_once if args.at_once else measure)(sides, name, args)
            except (RuntimeError, OSError) as error:
                print("%-24s FAILED: %s" % (name, error), flush=True)
                status = 1
                continue
            rows.append(row)
            print(line(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
