#!/usr/bin/env python3
"""Runs built cuda-samples natively and remotely, in turn, and compares exit status and verdict.

  run.py --programs=DIR --remote=HOST:PORT --lib=DIR [--csv=FILE] [--only=NAME,...]

DIR holds one folder for each name in cuda_samples.txt, with the program of that name and its data.
The verdict is the last line that says passed or failed; programs without one are judged by their exit
status alone. --remote_only leaves out the native run: then a program is good if it passes. Prints
one line for each program and a total; exit status 1 if any differs.
"""
import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import time

LISTING = pathlib.Path(__file__).resolve().parent / "cuda_samples.txt"
VERDICT = re.compile(r"\b(pass(ed)?|ok|fail(ed|ures?)?|success(ful(ly)?)?|waived)\b", re.IGNORECASE)
GOOD = re.compile(r"pass|ok|success|waived", re.IGNORECASE)
COLUMNS = ("sample", "verdict", "native_exit", "native_verdict", "native_s", "remote_exit",
           "remote_verdict", "remote_s")


def listed_samples(path=LISTING):
    """(name, arguments) of every line that is not a comment."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split()
        if words:
            found.append((words[0], words[1:]))
    return found


def verdict_of(output):
    """"passed", "failed" or "", by the last line that says so; figures do not count."""
    for line in reversed(output.splitlines()):
        words = [match[0] for match in VERDICT.finditer(line)]
        if not words:
            continue
        no_failures = re.search(r"\b0 failures?\b", line, re.IGNORECASE)
        return "passed" if no_failures or GOOD.search(words[-1]) else "failed"
    return ""


def run(folder, name, arguments, env, timeout_s):
    """Returns (exit status or "timeout", verdict, seconds, output)."""
    started = time.monotonic()
    process = subprocess.Popen(["./" + name, *arguments], cwd=folder, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        status = "timeout"
    text = output.decode("utf-8", "replace")
    return status, verdict_of(text), time.monotonic() - started, text


def environments(lib, endpoint):
    plain = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    remote = {k: v for k, v in plain.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    remote["LD_LIBRARY_PATH"] = str(lib)
    remote["WARPLINE_ENDPOINT"] = endpoint
    return plain, remote


def compare(programs, samples, plain, remote, timeout_s, logs=None):
    """One row for each sample; `plain` None leaves out the native runs."""
    rows = []
    for name, arguments in samples:
        folder = programs / name
        row = dict.fromkeys(COLUMNS, "")
        row["sample"] = name
        if not (folder / name).is_file():
            row["verdict"] = "missing"
        else:
            sides = ([("native", plain)] if plain else []) + [("remote", remote)]
            for side, env in sides:
                status, verdict, seconds, text = run(folder, name, arguments, env, timeout_s)
                row[side + "_exit"], row[side + "_verdict"] = status, verdict or "none"
                row[side + "_s"] = "%.1f" % seconds
                if logs:
                    (logs / ("%s.%s.txt" % (name, side))).write_text(text, encoding="utf-8")
            if plain:
                same = all(row["native_" + what] == row["remote_" + what]
                           for what in ("exit", "verdict"))
                row["verdict"] = "same" if same and row["native_exit"] != "timeout" else "DIFFERENT"
            else:
                good = row["remote_exit"] == 0 and row["remote_verdict"] != "failed"
                row["verdict"] = "passed" if good else "FAILED"
        rows.append(row)
        print("\t".join(str(row[column]) for column in COLUMNS), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--remote", metavar="ENDPOINT", required=True)
    parser.add_argument("--lib", required=True, help="folder of our libcuda.so.1")
    parser.add_argument("--remote_only", action="store_true")
    parser.add_argument("--only", help="samples, separated by commas")
    parser.add_argument("--timeout_s", type=float, default=60)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path, help="folder for what the programs print")
    args = parser.parse_args()
    plain, remote = environments(args.lib, args.remote)
    samples = listed_samples()
    if args.only:
        wanted = args.only.split(",")
        samples = [sample for sample in samples if sample[0] in wanted]
    if args.logs:
        args.logs.mkdir(parents=True, exist_ok=True)
    print("\t".join(COLUMNS))
    rows = compare(args.programs, samples, None if args.remote_only else plain, remote,
                   args.timeout_s, args.logs)
    good = sum(row["verdict"] in ("same", "passed") for row in rows)
    print("total\t%d of %d %s" % (good, len(rows), "pass" if args.remote_only else "the same"))
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
