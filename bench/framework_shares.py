#!/usr/bin/env python3
"""What PyTorch programs of two tenants with weights get of a GPU together.

  framework_shares.py --bundle=DIR [--weights=1:1,3:1,10:1] [--programs=gpt2_train:resnet50_train]
                      [--dispatch=band] [--seconds=12] [--tier=isolated] [--json=FILE] [--md=FILE]

Both are programs of framework_steps.py, which read their losses back after each step. For each pair
of weights a scheduler and a server are started, in which each program trains alone, and then both at
once. What a program had of the GPU is its steps a second against those alone. Prints the first one's
part of what both had, against what its weight says, the sum, and what the server's books say. A
program that leaves the GPU idle between its steps has less than its weight says, and the other one more.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from latency import PROGRAM, Steps, rate  # noqa: E402  (found by the path above)
from pool import Pool  # noqa: E402
from shares import pairs, tenants_of  # noqa: E402

# Steps of that time are not counted, in which not both are under way.
WARM_UP_S = 2.0


def measure_pair(pool, programs, weights, args):
    with contextlib.ExitStack() as stack:
        steps = []
        for tenant, program in enumerate(programs):
            steps.append(Steps(pool.command(args.tier, args.python, str(PROGRAM), program), pool.environment(tenant)))
            stack.callback(steps[-1].close)
        alone = []
        for each in steps:
            each.begin("%g s" % (args.seconds / 2))
            alone.append(rate(each.finish(), WARM_UP_S))
        for each in steps:
            each.begin("%g s" % (args.seconds + WARM_UP_S))
        time.sleep(WARM_UP_S)
        before = pool.engine_times()
        time.sleep(args.seconds - 1)
        after = pool.engine_times()
        together = [rate(each.finish(), WARM_UP_S, args.seconds) for each in steps]
    booked = [after["tenant%d" % i] - before["tenant%d" % i] for i in range(len(programs))]
    had = [now / then for now, then in zip(together, alone)]
    due, share = weights[0] / sum(weights), had[0] / sum(had)
    return {"programs": programs, "weights": weights, "due": due, "share": share, "had": had, "alone": alone,
            "books": booked[0] / max(sum(booked), 1), "relative_error": abs(share - due) / min(due, 1 - due),
            "sum": sum(had)}


def table(rows):
    lines = ["| dispatch | programs | weights | due | had | relative error | each of alone | sum | books |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| %s | %s, %s | %g:%g | %.3f | %.3f | %.3f | %.3f, %.3f | %.3f | %.3f |" % (
            row["dispatch"], *row["programs"], *row["weights"], row["due"], row["share"], row["relative_error"],
            *row["had"], row["sum"], row["books"]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tier", default="isolated")
    parser.add_argument("--dispatch", default="band")
    parser.add_argument("--weights", default="1:1,3:1,10:1")
    parser.add_argument("--programs", default="gpt2_train:resnet50_train")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    installation = local_server.Installation.from_bundle(args.bundle)
    rows = []
    for dispatch in args.dispatch.split(","):
        for weights in pairs(args.weights):
            flags = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + dispatch, *args.server_flag]
            with Pool(local_server, installation, tenants_of(weights), flags) as pool:
                rows.append({"dispatch": dispatch,
                             **measure_pair(pool, args.programs.split(":"), weights, args)})
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    for path, text in ((args.json, json.dumps(rows, indent=1) + "\n"), (args.md, table(rows) + "\n")):
        if path:
            path.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
