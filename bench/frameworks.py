#!/usr/bin/env python3
"""Step times of PyTorch programs, natively and with `warpline run --`, alternating in one run.

  frameworks.py --bundle=DIR [--only=resnet50,...] [--rounds=N] [--json=FILE] [--stat]

One process for each side is started and warmed up; then they take turns, some steps each, so that
what the machine does otherwise meets both. Prints the median step of each side over all rounds, the
spread of the rounds' medians, and the ratio; --stat shows the remote session's counters.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/gpu")]
import sides as two_sides  # noqa: E402

PROGRAM = ROOT / "bench/framework_steps.py"
# Name -> steps in one turn.
STEPS = {"resnet50_train": 20, "gpt2_train": 15, "gpt2_decode_fp16": 64, "tiny_mlp_train": 300}


class Runner:
    """One side's process; turn() makes it do some steps."""

    def __init__(self, sides, side, name, stat):
        further = {"WARPLINE_STAT": "1"} if stat and side == "remote" else {}
        self._process = subprocess.Popen(
            sides.command(side, PROGRAM, name), env=sides.environment(side, name, further),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def _read(self):
        for line in self._process.stdout:
            if line.startswith("@steps "):
                return json.loads(line[len("@steps "):])
        raise RuntimeError("the program ended with status %s" % self._process.wait())

    def wait_until_warm(self):
        return self._read()

    def turn(self, steps):
        """Milliseconds of each step."""
        self._process.stdin.write("%d\n" % steps)
        self._process.stdin.flush()
        return self._read()

    def close(self):
        try:
            self._process.stdin.close()
            self._process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            pass
        two_sides.end_group(self._process)
        self._process.wait()


def measure(sides, name, args):
    runners, times, rounds = {}, {"native": [], "remote": []}, {"native": [], "remote": []}
    try:
        for side in times:
            runners[side] = Runner(sides, side, name, args.stat)
        losses = {side: runner.wait_until_warm() for side, runner in runners.items()}
        for number in range(args.rounds):
            order = list(times) if number % 2 == 0 else list(times)[::-1]
            for side in order:
                found = runners[side].turn(STEPS[name])
                times[side] += found
                rounds[side].append(statistics.median(found))
    finally:
        for runner in runners.values():
            runner.close()
    row = {"program": name, "same_result": losses["native"] == losses["remote"]}
    for side in times:
        row[side + "_ms"] = round(statistics.median(times[side]), 4)
        row[side + "_range_ms"] = [round(min(rounds[side]), 4), round(max(rounds[side]), 4)]
    row["ratio"] = round(row["remote_ms"] / row["native_ms"], 3)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_sides.add_arguments(parser)
    parser.add_argument("--only", help="programs, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--stat", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else list(STEPS)
    rows, status = [], 0
    print("machine: %d CPUs; %d rounds; ms per step: median (rounds' medians from - to)" % (
        os.cpu_count() or 0, args.rounds))
    with two_sides.opened(args) as sides:
        for name in wanted:
            try:
                row = measure(sides, name, args)
            except (RuntimeError, OSError) as error:
                print("%-18s FAILED: %s" % (name, error), flush=True)
                status = 1
                continue
            rows.append(row)
            print("%-18s native %8.3f (%.3f - %.3f)  remote %8.3f (%.3f - %.3f)  ratio %.3f%s" % (
                name, row["native_ms"], *row["native_range_ms"], row["remote_ms"],
                *row["remote_range_ms"], row["ratio"],
                "" if row["same_result"] else "  results DIFFER"), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
