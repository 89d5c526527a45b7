#!/usr/bin/env python3
"""Compares every operator of PyTorch's database natively and remotely, on all its samples.

  op_db.py --bundle=DIR --state=DIR [--dtypes=float32,float16] [--jobs=N] [--seconds=S] [--json=FILE]

--state keeps what was computed: a run that was cut short, by --seconds or otherwise, goes on where it
stopped, and native results are not computed again. --side=native or remote does one side only; with
--report nothing is run. Operators are equal when every output of every sample has the same bits;
where the native side itself gives other bits the second time, when they agree within a tolerance.
"""
import argparse
import concurrent.futures
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import sides as two_sides  # noqa: E402  (lies beside this file)
from cases import report  # noqa: E402

SCRIPT = two_sides.CASES / "op_db.py"
# For operators whose native results vary, as part of the output's scale.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2}
DONE, TIME_IS_UP = 0, 3
STARTS = 12  # Of one slice's process; each death costs one operator.


def notes(path):
    """Operator -> its last note."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                note = json.loads(line)
            except ValueError:
                continue  # The process died while it wrote.
            if not (note.get("begun") and note["op"] in found):
                found[note["op"]] = note
    return found


def run_slice(sides, side, dtype, part, args, until):
    """Runs one slice to its end, or until the time is up. Returns what to say of it."""
    out = args.state / ("%s.%s.%d-%d.jsonl" % (side, dtype, part, args.slices))
    for _ in range(STARTS):
        left = until - time.monotonic()
        if left < 10:
            return "time is up"
        status, _, errors, _ = sides.run(
            side, SCRIPT, ["--dtype=" + dtype, "--slice=%d/%d" % (part, args.slices),
                           "--out=%s" % out, "--seconds=%d" % max(left - 10, 1)],
            "op_db-%d" % part, left)
        if status == DONE:
            return "done"
        if status in (TIME_IS_UP, "timeout") and until - time.monotonic() < 15:
            return "time is up"
        print("%s %s slice %d: exit %s: %s" % (side, dtype, part, status, errors[-300:].strip()),
              flush=True)
    return "gave up"


def run_side(sides, side, args, until):
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(run_slice, sides, side, dtype, part, args, until): (dtype, part)
                   for dtype in args.dtypes.split(",") for part in range(args.slices)}
        said = {running[one]: one.result() for one in concurrent.futures.as_completed(running)}
    unfinished = sorted("%s/%d" % key for key, text in said.items() if text != "done")
    print("%s: %d of %d slices done%s" % (side, len(said) - len(unfinished), len(said),
                                          "; not " + ", ".join(unfinished) if unfinished else ""),
          flush=True)


def agree(native, remote, rtol):
    """"same", "close" or what differs, of the notes of one operator."""
    if native.get("dead") or native.get("error") or native.get("begun"):
        return "invalid"
    if remote.get("dead") or remote.get("begun"):
        return "the process ended or hung"
    if remote.get("error"):
        return remote["error"]
    if native["digest"] == remote["digest"]:
        return "same"
    if len(native["samples"]) != len(remote["samples"]):
        return "%d samples became %d" % (len(native["samples"]), len(remote["samples"]))
    verdict = "same"
    for number, (one, other) in enumerate(zip(native["samples"], remote["samples"])):
        if one.get("error") != other.get("error"):
            return "sample %d: %s became %s %s" % (number, one.get("error", "a result"),
                                                   other.get("error", "a result"),
                                                   other.get("text", ""))
        if len(one.get("outputs", [])) != len(other.get("outputs", [])):
            return "sample %d: other outputs" % number
        for left, right in zip(one.get("outputs", []), other.get("outputs", [])):
            if left == right:
                continue
            if native["repeatable"] or "digest" not in left or "digest" not in right:
                return "sample %d: other values" % number
            text = report.agree({**left, "name": "sample %d" % number, "rtol": rtol},
                                {**right, "name": "sample %d" % number})
            if text not in ("same", "close"):
                return text
            verdict = "close"
    return verdict


def compare(args):
    """Prints the counts and what differs; returns the rows."""
    rows = []
    for dtype in args.dtypes.split(","):
        sides = {side: {} for side in ("native", "remote")}
        for side, found in sides.items():
            for path in sorted(args.state.glob("%s.%s.*.jsonl" % (side, dtype))):
                found.update(notes(path))
        for op, native in sorted(sides["native"].items()):
            remote = sides["remote"].get(op)
            verdict = "missing" if remote is None else agree(native, remote, TOLERANCE[dtype])
            rows.append({"op": op, "dtype": dtype, "verdict": verdict,
                         "samples": len(native.get("samples", []))})
        mine = [row for row in rows if row["dtype"] == dtype]
        count = {word: sum(row["verdict"] == word for row in mine)
                 for word in ("same", "close", "invalid", "missing")}
        for row in mine:
            if row["verdict"] not in count:
                print("DIFFERENT %s %s: %s" % (dtype, row["op"], row["verdict"]))
        print("%s: %d operators, %d samples: %d same, %d within tolerance, %d DIFFERENT, "
              "%d invalid natively, %d not run remotely" % (
                  dtype, len(mine), sum(row["samples"] for row in mine), count["same"],
                  count["close"], len(mine) - sum(count.values()), count["invalid"],
                  count["missing"]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    two_sides.add_arguments(parser)
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--dtypes", default="float32,float16")
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=480, help="for all of this run")
    parser.add_argument("--side", choices=["native", "remote", "both"], default="both")
    parser.add_argument("--report", action="store_true", help="only compare what --state has")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.state.mkdir(parents=True, exist_ok=True)
    args.state = args.state.resolve()
    started = time.monotonic()
    if not args.report:
        with two_sides.opened(args) as sides:
            chosen = ["native", "remote"] if args.side == "both" else [args.side]
            for number, side in enumerate(chosen):
                # Native is faster, and the remote side is what the time is for.
                share = 0.4 if len(chosen) == 2 and number == 0 else 1.0
                run_side(sides, side, args, started + args.seconds * share)
    rows = compare(args)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    bad = [row for row in rows if row["verdict"] not in ("same", "close", "invalid")]
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
