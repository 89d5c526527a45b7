#!/usr/bin/env python3
"""What two busy tenants of one priority get done beside each other on the guarded tier, each against alone.

  pairs.py --bundle=DIR --program=neighbour [--pairs=memory:memory,memory:compute,compute:compute]
           [--policies=band,./orion.bpf.o] [--device=auto] [--seconds=6] [--md=FILE]

For each policy a scheduler and a server are started with two tenants of the same weight and priority. A pair whose
sum is well below 1 would gain by turns, and one whose sum is above 1 does not want the same of the device.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from neighbours import Programs, kept  # noqa: E402  (found by the path above)
from pool import Pool  # noqa: E402

# What a program does before that does not count: the other one has begun by then.
WARM_UP_S = 2.0


def start(pool, program, tenant, kind, seconds):
    return pool.start(tenant, "guarded", program, "--role=" + kind, "--warmup_s=%g" % WARM_UP_S,
                      "--seconds=%g" % seconds)


def measure(pool, program, pair, alone, seconds):
    """What each of the pair keeps."""
    processes = [start(pool, program, tenant, kind, seconds) for tenant, kind in enumerate(pair)]
    results = [Programs.finish(process, seconds + 60) for process in processes]
    return [kept(result, alone[kind]) for result, kind in zip(results, pair)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:neighbour")
    parser.add_argument("--policies", default="band", help="as for warpline serve --dispatch")
    parser.add_argument("--pairs", default="memory:memory,memory:compute,compute:compute")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--md", type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    installation = local_server.Installation.from_bundle(args.bundle)
    program = str(args.program.resolve())
    pairs = [tuple(pair.split(":")) for pair in args.pairs.split(",")]
    lines = ["| policy | the two | the first keeps | the second | together |", "|---|---|---|---|---|"]
    for policy in args.policies.split(","):
        flags = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + policy]
        with Pool(local_server, installation, [[], []], flags) as pool:
            alone = {kind: Programs.finish(start(pool, program, 0, kind, args.seconds / 2), args.seconds + 60)
                     for kind in sorted({kind for pair in pairs for kind in pair})}
            for pair in pairs:
                parts = measure(pool, program, pair, alone, args.seconds)
                lines.append("| %s | %s, %s | %.2f | %.2f | %.2f |" % (
                    pathlib.Path(policy).name, *pair, *parts, sum(parts)))
                print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    if args.md:
        args.md.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
