#!/usr/bin/env python3
"""How long a small inference takes that comes every few milliseconds beside a session that trains.

  latency.py --bundle=DIR [--dispatch=off,band,priority,latency_guard.bpf.o] [--every_ms=10]
             [--seconds=5] [--rounds=2] [--budget_ms=7] [--inference=resnet50_infer] [--training=gpt2_train]
             [--tier=isolated] [--json=FILE] [--md=FILE] [--svg=FILE]

Both are programs of framework_steps.py, of two tenants; the one that infers has --weight=1
--priority=10 and a slice that reserves the budget in each period, for --dispatch=reservation; the
other --weight=1. A kind of dispatch may have more flags of the server after a +, as in
priority+--dispatch_expect_us=0. For each kind a scheduler and a server are started, and in them, for
so many rounds, the inference runs alone, the training alone, and then both at once. A request's time
is from when it was due to when its result is on the host, so one that had to wait for the one before
it is counted with its wait. The first row is of two programs without Warpline. Prints p50, p99 and
the maximum, p50 and p99 against those alone of the same row, and the training's steps a second
against alone.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from pool import Pool  # noqa: E402  (found by the path above)

PROGRAM = HERE / "framework_steps.py"
INFERENCE, TRAINING = 0, 1
SLICE = "requests"
TENANTS = (["--weight=1", "--priority=10", "--slices=" + SLICE], ["--weight=1"])
NATIVE = "native"
# So much earlier the training begins, and it ends so much later but for the requests that do not count.
HEAD_START_S = 2.0


class Steps:
    """A program of framework_steps.py that is warmed up."""

    def __init__(self, command, env):
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)
        self._read()

    def _read(self):
        for line in self._process.stdout:
            if line.startswith("@steps "):
                return json.loads(line[len("@steps "):])
        raise RuntimeError("a program ended with status %s" % self._process.wait())

    def begin(self, what):
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()

    def finish(self):
        return self._read()

    def close(self):
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def at(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def rate(times_ms, start_s=0.0, seconds=float("inf")):
    """Steps a second, of those that ended in that time after the first one began."""
    ended, counted = 0.0, []
    for time_ms in times_ms:
        ended += time_ms / 1000
        if start_s < ended <= start_s + seconds:
            counted.append(time_ms)
    return 1000 * len(counted) / sum(counted)


def figures(times_ms):
    return {"p50": at(times_ms, 0.5), "p99": at(times_ms, 0.99), "max": max(times_ms), "requests": len(times_ms)}


def row_of(name, inference, training, args, trace):
    """What both take alone and together, in rounds that follow each other; `trace` is a context manager
    around the last time that they work together."""
    requests = "%g s every %g ms" % (args.seconds, args.every_ms)
    alone, together, training_alone, training_together = [], [], [], []
    for i in range(args.rounds):
        inference.begin(requests)
        alone += inference.finish()
        training.begin("%g s" % args.seconds)
        training_alone.append(rate(training.finish()))
        training.begin("%g s" % (args.seconds + 2 * HEAD_START_S))
        time.sleep(HEAD_START_S)
        inference.begin(requests)
        with trace(name) if i == args.rounds - 1 else contextlib.nullcontext():
            together += inference.finish()
        training_together.append(rate(training.finish(), HEAD_START_S, args.seconds))
    return {"dispatch": name, "alone": figures(alone), "together": figures(together),
            "training_alone": statistics.mean(training_alone), "training": statistics.mean(training_together)}


def measure_pair(name, start, args, trace=lambda _: contextlib.nullcontext()):
    with contextlib.ExitStack() as stack:
        steps = []
        for tenant, program in ((INFERENCE, args.inference), (TRAINING, args.training)):
            steps.append(start(tenant, [args.python, str(PROGRAM), program]))
            stack.callback(steps[-1].close)
        return row_of(name, *steps, args, trace)


def natively(_, command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    return Steps(command, env)


def measure(local_server, installation, args):
    rows = []
    for name in [NATIVE] * (not args.no_native) + args.dispatch.split(","):
        if name == NATIVE:
            rows.append(measure_pair(name, natively, args))
        else:
            policy, *more_flags = name.split("+")
            flags = ["--device=" + args.device, "--tiers=isolated,guarded", "--dispatch=" + policy, *more_flags,
                     *args.server_flag]
            slices = {SLICE: ["--period_ms=%d" % args.every_ms, "--budget_ms=%d" % args.budget_ms]}
            with Pool(local_server, installation, TENANTS, flags, slices) as pool:
                more = {}
                if args.trace and policy != "off":
                    more["trace"] = lambda name: pool.traced(args.trace / (name + ".json"), 3)
                rows.append(measure_pair(
                    " ".join([pathlib.Path(policy).name.split(".")[0], *more_flags]),
                    lambda tenant, command: Steps(pool.command(args.tier, *command), pool.environment(tenant)),
                    args, **more))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    return rows


def table(rows):
    lines = ["| dispatch | alone: p50, ms | p99 | beside training: p50 | p99 | max | p50 against alone | p99 against alone | training keeps |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        alone, together = row["alone"], row["together"]
        lines.append("| %s | %.2f | %.2f | %.2f | %.2f | %.1f | %.2f | %.2f | %.2f |" % (
            row["dispatch"], alone["p50"], alone["p99"], together["p50"], together["p99"], together["max"],
            together["p50"] / alone["p50"], together["p99"] / alone["p99"], row["training"] / row["training_alone"]))
    return "\n".join(lines)


def plot(rows):
    """Bars of p50 and p99 on a logarithmic scale, and what the training keeps, as SVG."""
    import math  # pylint: disable=import-outside-toplevel
    bar, gap, height, left = 22, 26, 220, 60
    most = max(row["together"]["p99"] for row in rows)
    least = min(row["alone"]["p50"] for row in rows) / 1.5

    def y(value):
        return 20 + height * (1 - math.log(value / least) / math.log(1.2 * most / least))

    parts, x = [], left + gap
    for row in rows:
        series = (("alone", "p50", "#b8c8dc"), ("alone", "p99", "#7f9bbd"), ("together", "p50", "#f0b98a"),
                  ("together", "p99", "#c8641e"))
        for which, part, colour in series:
            value = row[which][part]
            parts.append('<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"><title>%s %s %s: %.2f ms</title></rect>'
                         % (x, y(value), bar, 20 + height - y(value), colour, row["dispatch"], which, part, value))
            parts.append('<text x="%d" y="%.1f" text-anchor="middle">%.3g</text>' % (x + bar / 2, y(value) - 3, value))
            x += bar
        parts.append('<text x="%d" y="%d" text-anchor="middle">%s</text>' % (x - 2 * bar, height + 36, row["dispatch"]))
        parts.append('<text x="%d" y="%d" text-anchor="middle">training %.2f</text>'
                     % (x - 2 * bar, height + 50, row["training"] / row["training_alone"]))
        x += gap
    head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="10">'
            '<title>A small inference beside training</title><rect width="100%%" height="100%%" fill="white"/>'
            '<text x="%d" y="12">ms, logarithmic; blue alone, orange beside training: p50, p99; what the training keeps</text>'
            '<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="black"/>'
            % (x, height + 60, left, left, height + 20, x, height + 20))
    return head + "".join(parts) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tier", default="isolated")
    parser.add_argument("--dispatch", default="off,band,priority")
    parser.add_argument("--inference", default="resnet50_infer")
    parser.add_argument("--training", default="gpt2_train")
    parser.add_argument("--every_ms", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--budget_ms", type=int, default=7, help="of --every_ms, for --dispatch=reservation")
    parser.add_argument("--no_native", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path, metavar="FOLDER",
                        help="for a trace of three seconds of each kind of dispatch")
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    rows = measure(local_server, local_server.Installation.from_bundle(args.bundle), args)
    print(table(rows))
    for path, text in ((args.json, json.dumps(rows, indent=1) + "\n"), (args.md, table(rows) + "\n"),
                       (args.svg, plot(rows))):
        if path:
            path.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
