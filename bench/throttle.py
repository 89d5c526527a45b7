#!/usr/bin/env python3
"""What an urgent tenant of the guarded tier gains, beside one whose kernels fill the way to memory,
by a policy that throttles these.

  throttle.py --bundle=DIR --program=neighbour --policies=band,./throttle.bpf.o [--device=auto]
              [--kinds=memory,compute] [--seconds=5] [--md=FILE]

For each policy a scheduler and a server are started with two tenants, one of priority 0 and one of
priority 3. Prints what a request (32 MiB read on multiprocessors of its own) takes alone and beside
each kind of busy program, and what the busy one keeps of its rate alone.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import by_policy  # noqa: E402  (found by the path above)
from neighbours import Programs, kept  # noqa: E402  (likewise)

EFFORT, URGENT = 0, 1
HEAD_START_S = 1.5


def measure(pool, program, kind, seconds):
    def start(tenant, role, length):
        return pool.start(tenant, "guarded", program, "--role=" + role, "--seconds=%g" % length)

    alone = Programs.finish(start(EFFORT, kind, seconds), seconds + 60)
    busy = start(EFFORT, kind, seconds + 2 * HEAD_START_S)
    time.sleep(HEAD_START_S)
    request = Programs.finish(start(URGENT, "request", seconds), seconds + 60)
    return request, kept(Programs.finish(busy, seconds + 60), alone)


def row(policy, beside, request, keeps):
    device, program = request["device_us"], request["program_us"]
    return "| %s | %s | %.1f | %.1f | %.1f | %.1f | %s |" % (
        policy, beside, device["p50"], device["p99"], program["p50"], program["p99"], keeps)


def main():
    args = by_policy.arguments(__doc__, 5, {"--kinds": "memory,compute"})
    program = str(args.program.resolve())

    def rows(pool, policy):
        alone = Programs.finish(
            pool.start(URGENT, "guarded", program, "--role=request", "--seconds=%g" % args.seconds), 90)
        yield row(policy, "nothing", alone, "")
        for kind in args.kinds.split(","):
            request, keeps = measure(pool, program, kind, args.seconds)
            yield row(policy, kind, request, "%.2f" % keeps)

    by_policy.run(args, [["--priority=0"], ["--priority=3"]],
                  "| policy | beside | device p50, us | p99 | program p50, us | p99 | the busy one keeps |", rows)


if __name__ == "__main__":
    main()
