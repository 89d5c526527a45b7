#!/usr/bin/env python3
"""What two busy tenants of one priority get done beside each other on the guarded tier, each against alone.

  pairs.py --bundle=DIR --program=neighbour [--pairs=memory:memory,memory:compute,compute:compute]
           [--policies=band,./orion.bpf.o] [--device=auto] [--seconds=6] [--md=FILE]

For each policy a scheduler and a server are started with two tenants of the same weight and priority. A pair whose
sum is well below 1 would gain by turns, and one whose sum is above 1 does not want the same of the device.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import by_policy  # noqa: E402  (found by the path above)
from neighbours import Programs, kept  # noqa: E402  (likewise)

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
    args = by_policy.arguments(__doc__, 6, {"--pairs": "memory:memory,memory:compute,compute:compute"})
    program = str(args.program.resolve())
    pairs = [tuple(pair.split(":")) for pair in args.pairs.split(",")]

    def rows(pool, policy):
        alone = {kind: Programs.finish(start(pool, program, 0, kind, args.seconds / 2), args.seconds + 60)
                 for kind in sorted({kind for pair in pairs for kind in pair})}
        for pair in pairs:
            parts = measure(pool, program, pair, alone, args.seconds)
            yield "| %s | %s, %s | %.2f | %.2f | %.2f |" % (policy, *pair, *parts, sum(parts))

    by_policy.run(args, [[], []], "| policy | the two | the first keeps | the second | together |", rows)


if __name__ == "__main__":
    main()
