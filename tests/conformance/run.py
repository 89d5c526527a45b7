#!/usr/bin/env python3
"""Runs the conformance programs and keeps the table of calls, docs/conformance.csv and .md.

  run.py --native                               with this machine's own driver
  run.py --remote=HOST:PORT --lib=DIR           through a server with a GPU
  run.py --remote=HOST:PORT --lib=DIR --cpu     through a server with the CPU device

The programs are looked for beside this file, else in --programs. --csv=FILE writes the results into
the mode's column of that table and the page beside it; without it they are only printed. With
--check the results are compared with the column: exit status 1 if a call that holds there does not.
"""
import argparse
import collections
import csv
import os
import pathlib
import subprocess
import sys

COLUMNS = ("call", "native", "remote", "cpu", "reason")
MODES = ("native", "remote", "cpu")
TIMEOUT_S = 300
GOOD = ("ok", "refused", "partly refused")
REASON_LENGTH = 160

Line = collections.namedtuple("Line", "call check verdict reason")


def program_names(folder):
    lines = (folder / "programs.txt").read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def environment(mode, lib=None, endpoint=None, tier=None):
    """What a program runs with: the driver of this machine, or ours alone."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    if mode != "native":
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
            env.pop(name, None)
        env["LD_LIBRARY_PATH"] = str(lib)
        env["WARPLINE_ENDPOINT"] = endpoint
        if tier:
            env["WARPLINE_TIER"] = tier
    env["WARPLINE_CONFORMANCE"] = mode
    return env


def run_program(path, env):
    """Returns the program's lines; one that says nothing of its end has a FAIL line for it."""
    try:
        done = subprocess.run([str(path)], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S,
                              check=False)
        output, errors, end = done.stdout, done.stderr, "status %d" % done.returncode
    except subprocess.TimeoutExpired as expired:
        output, errors, end = expired.stdout or b"", expired.stderr or b"", "a timeout"
    lines, complete = [], False
    for text in output.decode("utf-8", "replace").splitlines():
        fields = text.split("\t")
        if len(fields) == 4 and fields[0] == "total":
            complete = True
        elif len(fields) == 4:
            lines.append(Line(*fields))
    if not complete:
        tail = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        lines.append(Line("program " + path.name, "runs to its end", "FAIL",
                          "ended with %s %s" % (end, " ".join(tail))))
    return lines


def run_all(folder, env, only=None, say=print):
    """Every line of every program, in order."""
    lines = []
    for name in program_names(folder):
        if only and name not in only:
            continue
        found = run_program(folder / name, env)
        counts = collections.Counter(line.verdict for line in found)
        for line in found:
            if line.verdict == "FAIL":
                say("\t".join(line))
        say("%s: %d ok, %d FAIL, %d refused" % (name, counts["ok"], counts["FAIL"],
                                                counts["refused"]))
        lines += found
    return lines


def summarize(lines):
    """Call -> (verdict, reason)."""
    by_call = collections.OrderedDict()
    for line in lines:
        by_call.setdefault(line.call, []).append(line)
    summary = {}
    for call, checks in by_call.items():
        bad = [line for line in checks if line.verdict == "FAIL"]
        refused = [line for line in checks if line.verdict == "refused"]
        good = [line for line in checks if line.verdict == "ok"]
        verdict = "FAIL" if bad else "ok" if not refused else (
            "partly refused" if good else "refused")
        why = "; ".join("%s: %s" % (line.check, line.reason) for line in bad or refused)
        summary[call] = (verdict, why[:REASON_LENGTH])
    return summary


def read_table(path):
    if not path.is_file():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {row["call"]: row for row in csv.DictReader(file)}


def merge(table, mode, summary):
    """Puts a run of every program into its column. Calls that no mode checks any more go."""
    for row in table.values():
        row[mode] = ""
    for call, (verdict, why) in summary.items():
        row = table.setdefault(call, dict.fromkeys(COLUMNS, ""))
        row["call"], row[mode] = call, verdict
        others = [part for part in row["reason"].split(" | ")
                  if part and not part.startswith(mode + ": ")]
        row["reason"] = " | ".join(others + ([mode + ": " + why] if why else []))
    for call in [call for call, row in table.items() if not any(row[m] for m in MODES)]:
        del table[call]


def write_table(path, table):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for call in sorted(table):
            writer.writerow(table[call])
    write_page(path.with_suffix(".md"), table)


def write_page(path, table):
    rows = [table[call] for call in sorted(table)]
    lines = ["# Conformance", "",
             "Made from conformance.csv by tests/conformance/run.py; not edited by hand. Every call",
             "is checked for results and error codes: natively on a GPU, remotely on a GPU, and",
             "remotely on the CPU device. `refused` is the documented CUDA error for what is not",
             "there; an empty field was not run.", "",
             "| mode | ok | partly refused | refused | FAIL |", "|---|---|---|---|---|"]
    for mode in MODES:
        counts = collections.Counter(row[mode] for row in rows)
        lines.append("| %s | %d | %d | %d | %d |" % (
            mode, counts["ok"], counts["partly refused"], counts["refused"], counts["FAIL"]))
    lines += ["", "| call | native | remote | cpu | reason |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [row[name].replace("|", "\\|") for name in COLUMNS]
        lines.append("| " + " | ".join(cells) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def disagreements(table, mode, summary):
    """What the column promises and the run did not show, and what is better than it says."""
    worse, better = [], []
    for call, row in table.items():
        expected = row[mode]
        got, why = summary.get(call, ("not checked", ""))
        if expected in GOOD and got != expected:
            worse.append("%s: %s in the table, now %s (%s)" % (call, expected, got, why))
        elif expected == "FAIL" and got in GOOD:
            better.append(call)
    for call, (verdict, why) in summary.items():
        if call not in table and verdict == "FAIL":
            worse.append("%s: not in the table, now FAIL (%s)" % (call, why))
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default=pathlib.Path(__file__).resolve().parent,
                        type=pathlib.Path, help="folder of the built programs")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--remote", metavar="ENDPOINT")
    parser.add_argument("--cpu", action="store_true", help="the server has the CPU device")
    parser.add_argument("--lib", help="folder of our libcuda.so.1")
    parser.add_argument("--tier", help="of the sessions (WARPLINE_TIER)")
    parser.add_argument("--only", help="programs, separated by commas; writes no table")
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.native == bool(args.remote):
        parser.error("say either --native or --remote=ENDPOINT")
    if args.remote and not args.lib:
        parser.error("--remote needs --lib")
    mode = "native" if args.native else "cpu" if args.cpu else "remote"
    only = args.only.split(",") if args.only else None
    lines = run_all(args.programs, environment(mode, args.lib, args.remote, args.tier), only)
    summary = summarize(lines)
    failed = sorted(call for call, (verdict, _) in summary.items() if verdict == "FAIL")
    print("%s: %d calls, %d FAIL, %d checks" % (mode, len(summary), len(failed), len(lines)))
    status = 1 if failed else 0
    if args.csv and not only:
        table = read_table(args.csv)
        if args.check:
            worse, better = disagreements(table, mode, summary)
            for line in worse:
                print("disagrees: " + line)
            for call in better:
                print("better than the table: " + call)
            status = 1 if worse else 0
        else:
            merge(table, mode, summary)
            write_table(args.csv, table)
    return status


if __name__ == "__main__":
    sys.exit(main())
