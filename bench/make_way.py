#!/usr/bin/env python3
"""How long an urgent tenant's request takes when another tenant's kernel that never ends has the GPU,
with and without a policy that has best-effort work killed.

  make_way.py --bundle=DIR --program=make_way --policies=priority,./reef.bpf.o [--device=auto]
              [--tiers=isolated,guarded] [--repeats=20] [--starts=3] [--kernels=10] [--kernel_us=300]
              [--md=FILE] [--trace=FOLDER]

For each tier and policy a scheduler and a server are started with two tenants: one of priority 0,
once with a slice that is best effort and once without, and one of priority 3. Each time, the first
one's kernel runs for half a second, and then the second one makes a request of several kernels, one
after the other. Prints what the request took alone and then, and after how long the endless kernel's
program had its error; where nobody ends it, the program is killed after the request. A second table
has how long the urgent program takes to start, load its code and make a first request.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pool import Pool  # noqa: E402  (found by the path above)

EFFORT, URGENT = 0, 1
HEAD_START_S = 0.5
# For the error to reach the program.
GRACE_S = 2


class End(typing.NamedTuple):
    """Of the other tenant's program."""
    error: typing.Optional[str]  # That ended its kernel.
    at: typing.Optional[float]  # By the monotonic clock.
    log: str  # What the program and its client wrote.


RUNS = End(None, None, "")


class Urgent:
    """The urgent tenant's program, which makes a request when it is told to."""

    def __init__(self, pool, tier, program, *options):
        self._process = pool.start(URGENT, tier, program, "--role=urgent", *options, stdin=subprocess.PIPE)
        self._expect("ready")

    def _expect(self, what):
        line = self._process.stdout.readline().strip()
        if line == what:
            return
        self._process.kill()
        raise RuntimeError("expected %s: %s %s" % (what, line, self._process.communicate()[1][-600:]))

    def request_us(self):
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the urgent program failed: %s" % self._process.communicate()[1][-600:])
        return json.loads(line)["request_us"]

    def close(self):
        self._process.communicate(timeout=240)


class Effort:
    """The other tenant's program, whose kernel runs for as long as it may."""

    def __init__(self, pool, tier, program, *options):
        self._process = pool.start(EFFORT, tier, program, "--role=effort", *options, start_new_session=True)
        line = self._process.stdout.readline().strip()
        if line != "launched":
            raise RuntimeError("not launched: %s %s" % (line, self._process.communicate()[1][-600:]))

    def end(self, timeout_s):
        """How the program ended; RUNS if its kernel still does."""
        deadline = time.monotonic() + timeout_s
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if self._process.poll() is None:
            return RUNS
        said, log = self._process.communicate()
        ended = json.loads(said.splitlines()[-1])
        return End(ended["error"], ended["at"], log)

    def kill(self):
        """The program, so that `warpline run` gives the lease back."""
        if self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


def rounds(pool, tier, program, repeats, urgent_options, effort_options=()):
    """What the requests took alone and beside the endless kernel, after how long that ended, in
    microseconds (None: not), and the errors that its program got."""
    urgent = Urgent(pool, tier, program, *urgent_options)
    alone = [urgent.request_us() for _ in range(max(repeats, 5))]
    beside, ended, errors = [], [], set()
    for _ in range(repeats):
        effort = Effort(pool, tier, program, *effort_options)
        time.sleep(HEAD_START_S)
        start = time.monotonic()
        beside.append(urgent.request_us())
        end = effort.end(GRACE_S)
        ended.append((end.at - start) * 1e6 if end.error else None)
        errors.add(end.error)
        effort.kill()
        time.sleep(0.3)
    urgent.close()
    return alone, beside, ended, errors


def starts(pool, tier, program, repeats, effort_options=()):
    """How many milliseconds the urgent program took to start alone, and beside the endless kernel, and
    the errors that the kernel's program got."""
    def start():
        began = time.monotonic()
        urgent = Urgent(pool, tier, program, "--rounds=1000")
        took = (time.monotonic() - began) * 1e3
        urgent.close()
        return took

    alone, beside, errors = [start() for _ in range(repeats)], [], set()
    for _ in range(repeats):
        effort = Effort(pool, tier, program, *effort_options)
        time.sleep(HEAD_START_S)
        beside.append(start())
        errors.add(effort.end(GRACE_S).error)
        effort.kill()
    return alone, beside, errors


def named(errors):
    return ", ".join(sorted(str(error or "killed with its client") for error in errors))


def p50(times):
    known = [t for t in times if t is not None]
    return "%.0f" % statistics.median(known) if known else "-"


def tenants(best_effort):
    slices = {"effort": ["--memory=256MiB", *(["--best_effort"] if best_effort else [])]}
    return slices, [["--priority=0", "--slices=effort"], ["--priority=3"]]


def trace_of(pool, folder, tier, policy, best_effort):
    if folder is None:
        return contextlib.nullcontext()
    words = [tier, pathlib.Path(policy).name.split(".")[0], "best_effort" if best_effort else "other"]
    return pool.traced(folder / ("-".join(words) + ".json"), 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:make_way")
    parser.add_argument("--policies", default="priority", help="as for warpline serve --dispatch")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiers", default="isolated,guarded")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--kernels", type=int, default=10)
    parser.add_argument("--kernel_us", type=float, default=300)
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path, metavar="FOLDER",
                        help="for a trace of five seconds of each tier and policy")
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    installation = local_server.Installation.from_bundle(args.bundle)
    program = str(args.program.resolve())
    lines = ["| tier | policy | best effort | request alone, us: p50 | beside: p50 | p95 | most | "
             "the kernel's program ended after, us: p50 | with |", "|---|---|---|---|---|---|---|---|---|"]
    more = ["", "| tier | policy | best effort | start alone, ms: p50 | beside: p50 | most | "
            "the kernel's program ended with |",
            "|---|---|---|---|---|---|---|"]
    for policy in args.policies.split(","):
        for best_effort in (False, True):
            slices, flags = tenants(best_effort)
            server = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + policy]
            with Pool(local_server, installation, flags, server, slices) as pool:
                for tier in args.tiers.split(","):
                    options = ["--kernels=%d" % args.kernels, "--kernel_us=%g" % args.kernel_us]
                    with trace_of(pool, args.trace, tier, policy, best_effort):
                        alone, beside, ended, errors = rounds(pool, tier, program, args.repeats, options)
                    beside.sort()
                    lines.append("| %s | %s | %s | %s | %s | %.0f | %.0f | %s | %s |" % (
                        tier, pathlib.Path(policy).name, "yes" if best_effort else "no", p50(alone), p50(beside),
                        beside[min(len(beside) - 1, int(0.95 * len(beside)))], beside[-1], p50(ended), named(errors)))
                    print(lines[-1], flush=True)
                    if args.starts == 0:
                        continue
                    alone, beside, errors = starts(pool, tier, program, args.starts)
                    more.append("| %s | %s | %s | %s | %s | %.0f | %s |" % (
                        tier, pathlib.Path(policy).name, "yes" if best_effort else "no", p50(alone), p50(beside),
                        max(beside), named(errors)))
                    print(more[-1], flush=True)
    lines += more
    print("\n".join(lines))
    if args.md:
        args.md.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
