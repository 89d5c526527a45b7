#!/usr/bin/env python3
"""Runs the framework programs of cases.toml natively and with `warpline run --`, and compares.

  run.py --bundle=DIR [--only=NAME,...] [--json=FILE] [--logs=DIR] [--jobs=N]

Names may hold wildcards: --only='torch.matmul_*,cupy.*'. One line a case:

  same       both sides gave the same bits
  close      some results agree only within the tolerance that the case states
  DIFFERENT  they do not
  FAILED     the remote side ended otherwise than the native one, or not within its time
  invalid    the native side does not run here, so there is nothing to compare
  skipped    a module or a second GPU is missing

and a total; exit status 1 if any case is DIFFERENT or FAILED. With --remote_only nothing is compared,
and a case that ends well is `passed`: for servers with the CPU device, which run the `plain` cases.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import sides as two_sides  # noqa: E402  (lies beside this file)
from cases import report  # noqa: E402

LISTING = HERE / "cases.toml"
GOOD = ("same", "close", "passed", "skipped", "invalid")


class Case:
    """One program: `name`, `script`, `function` and what cases.toml says of it."""

    def __init__(self, file, entry):
        options = entry[1] if len(entry) > 1 else {}
        unknown = set(options) - {"seconds", "gpus", "env"}
        if unknown:
            raise ValueError("%s: unknown %s" % (entry[0], ", ".join(sorted(unknown))))
        self.function = entry[0]
        self.name = "%s.%s" % (file["prefix"], entry[0])
        self.script = two_sides.CASES / file["script"]
        self.needs = file.get("needs")
        self.seconds = options.get("seconds", 120)
        self.gpus = options.get("gpus", 1)
        self.env = options.get("env", {})


def listed(path=LISTING):
    with open(path, "rb") as file:
        return [Case(part, entry) for part in tomllib.load(file)["file"]
                for entry in part["cases"]]


def compare(native, remote):
    """(verdict, what to say) of the results of both sides."""
    if len(native) != len(remote):
        return "DIFFERENT", "%d results became %d" % (len(native), len(remote))
    found = [report.agree(one, other) for one, other in zip(native, remote)]
    wrong = [text for text in found if text not in ("same", "close")]
    if wrong:
        return "DIFFERENT", "; ".join(wrong)
    if "close" in found:
        return "close", "%d of %d same" % (found.count("same"), len(found))
    return "same", "%d results" % len(found)


def last_words(errors, status):
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return "exit %s%s" % (status, ": " + lines[-1][:160] if lines else "")


def run_case(case, sides, args):
    row = {"case": case.name, "verdict": "", "reason": "", "native_s": None, "remote_s": None}
    outcome = {}
    for side in ("remote",) if args.remote_only else ("native", "remote"):
        status, output, errors, seconds = sides.run(
            side, case.script, [case.function], case.name, case.seconds, case.env, case.gpus)
        row[side + "_s"] = round(seconds, 1)
        if args.logs:
            text = "exit: %s\n--- stdout\n%s\n--- stderr\n%s" % (status, output, errors)
            (args.logs / ("%s.%s.txt" % (case.name, side))).write_text(text, encoding="utf-8")
        results, skipped = report.parse(output)
        if skipped:
            return {**row, "verdict": "skipped", "reason": skipped}
        outcome[side] = results
        if status != 0 or not results:
            return {**row, "verdict": "invalid" if side == "native" else "FAILED",
                    "reason": last_words(errors, status)}
    if args.remote_only:
        return {**row, "verdict": "passed", "reason": "%d results" % len(outcome["remote"])}
    verdict, reason = compare(outcome["native"], outcome["remote"])
    return {**row, "verdict": verdict, "reason": reason}


def why_not(case, count, modules, python):
    if case.gpus > count:
        return "needs %d GPUs" % case.gpus
    if case.needs:
        if case.needs not in modules:
            modules[case.needs] = two_sides.has_module(python, case.needs)
        if not modules[case.needs]:
            return "no module " + case.needs
    return None


def show(row):
    times = " ".join("%s %.1f s" % (side, row[side + "_s"]) for side in ("native", "remote")
                     if row[side + "_s"] is not None)
    print("%-9s %-30s %s%s" % (row["verdict"], row["case"], row["reason"],
                               "  (%s)" % times if times else ""), flush=True)


def run_all(cases, sides, args):
    count = two_sides.gpus(sides, "remote" if args.remote_only else "native")
    modules, rows = {}, []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = []
        for case in cases:
            reason = why_not(case, count, modules, args.python)
            if reason:
                rows.append({"case": case.name, "verdict": "skipped", "reason": reason,
                             "native_s": None, "remote_s": None})
                show(rows[-1])
            else:
                running.append(pool.submit(run_case, case, sides, args))
        for done in concurrent.futures.as_completed(running):
            rows.append(done.result())
            show(rows[-1])
    return rows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_sides.add_arguments(parser)
    parser.add_argument("--only", help="names with wildcards, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path, help="folder for what the programs print")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--remote_only", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    cases = listed()
    if args.only:
        wanted = args.only.split(",")
        cases = [case for case in cases if any(fnmatch.fnmatchcase(case.name, w) for w in wanted)]
    if args.list:
        print("\n".join(case.name for case in cases))
        return 0
    if args.logs:
        args.logs.mkdir(parents=True, exist_ok=True)
    with two_sides.opened(args) as sides:
        rows = run_all(cases, sides, args)
    counts = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    good = sum(row["verdict"] in ("same", "close", "passed") for row in rows)
    print("total: %d of %d good (%s)" % (good, len(rows), ", ".join(
        "%d %s" % (number, verdict) for verdict, number in sorted(counts.items()))))
    if args.json:
        args.json.write_text(json.dumps(sorted(rows, key=lambda row: row["case"]), indent=1) + "\n",
                             encoding="utf-8")
    return 0 if rows and all(row["verdict"] in GOOD for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
