#!/usr/bin/env python3
"""Runs the example programs against a Warpline server on this machine and checks their results.

The programs are what nvcc makes by default: nothing of Warpline is linked into them. Each runs with
LD_LIBRARY_PATH naming only the folder of our libcuda.so.1, and WARPLINE_ENDPOINT naming the server.
The last line is `demo: ok (N programs, device: NAME)`, or `demo: FAILED (WHY)` with exit status 1.
"""
import argparse
import dataclasses
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import local_server  # noqa: E402  (lies beside this file)

STAT_PREFIX = "warpline stat:"


@dataclasses.dataclass
class Outcome:
    ok: bool
    seconds: float
    device: str
    why: str
    stdout: str
    stderr: str


def read_programs(path):
    """The list of programs: a name and its arguments a line; # starts a comment."""
    programs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split()
        if words:
            programs.append((words[0], words[1:]))
    if not programs:
        raise local_server.Error("%s names no program" % path)
    return programs


def text_of(output):
    return output.decode("utf-8", errors="replace")


def judge(name, status, stdout):
    """Why the program failed; empty if it did not. It must say ok itself, in its last line."""
    lines = stdout.strip().splitlines()
    last = lines[-1] if lines else ""
    if status < 0:
        try:
            return "killed by %s" % signal.Signals(-status).name
        except ValueError:
            return "killed by signal %d" % -status
    if status != 0:
        return "exit status %d" % status
    if not last.startswith(name + ": ok"):
        return "exit status 0, but the last line is not '%s: ok ...'" % name
    return ""


def run_program(installation, endpoint, name, arguments, timeout_s, stat):
    env = installation.client_environment(endpoint)
    if stat:
        env["WARPLINE_STAT"] = "1"
    command = [str(installation.root / "bin/examples" / name), *arguments]
    start = time.monotonic()
    try:
        status, output, errors = local_server.run_group(command, env, timeout_s)
        stdout, stderr = text_of(output), text_of(errors)
        why = "no end after %g s" % timeout_s if status is None else judge(name, status, stdout)
    except OSError as error:
        stdout, stderr, why = "", "", str(error)
    devices = re.findall(r"device: (.+)\)$", stdout, re.MULTILINE)
    return Outcome(not why, time.monotonic() - start, devices[-1] if devices else "unknown device",
                   why, stdout, stderr)


def show(name, outcome, endpoint, stat, width):
    verdict = "ok    " if outcome.ok else "FAILED"
    print("%-*s  %s  %7.2f s  %s on %s" % (width, name, verdict, outcome.seconds, outcome.device,
                                           endpoint))
    if not outcome.ok:
        print("    why: " + outcome.why)
        for source, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
            for line in text.splitlines()[-40:]:
                print("    %s: %s" % (source, line))
    elif stat:
        for line in outcome.stderr.splitlines():
            if line.startswith(STAT_PREFIX):
                print("    " + line[len(STAT_PREFIX):].strip())
    sys.stdout.flush()


def run_all(installation, programs, args):
    """Prints a line a program. Returns the failed names and the devices that programs named."""
    flags = ["--device=" + args.device]
    if args.session_memory:
        flags.append("--session_memory=" + args.session_memory)
    failed, devices = [], []
    width = max(len(name) for name, _ in programs)
    with local_server.Server(installation, flags + args.server_flag) as server:
        for name, arguments in programs:
            outcome = run_program(installation, server.endpoint, name, arguments, args.timeout,
                                  args.stat)
            show(name, outcome, server.endpoint, args.stat, width)
            if not outcome.ok:
                failed.append(name)
            elif outcome.device not in devices:
                devices.append(outcome.device)
            if not server.running():
                print("warpline-server ended; its last lines:\n" + server.log_tail())
                raise local_server.Error("the server ended during %s" % name)
        if failed and server.log_tail():
            print("last lines of the server's log:\n" + server.log_tail())
    return failed, devices


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--bundle", metavar="DIR",
                       help="run from a folder made by ./dev bundle (default: this file's)")
    where.add_argument("--bazel_bin", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--programs", metavar="FILE", help="the list of programs")
    parser.add_argument("--device", default="auto",
                        help="where the server runs kernels (default: a GPU if there is one)")
    parser.add_argument("--only", metavar="NAME", action="append", default=[],
                        help="run this program only (may be repeated)")
    parser.add_argument("--stat", action="store_true", help="print each session's counters")
    parser.add_argument("--timeout", type=float, default=180, metavar="SECONDS",
                        help="limit for each program (default 180)")
    parser.add_argument("--session_memory", metavar="SIZE", help="the server's flag of that name")
    parser.add_argument("--server_flag", metavar="FLAG", action="append", default=[],
                        help="a further flag for the server (may be repeated)")
    args = parser.parse_args()
    if not args.bundle and not args.bazel_bin:
        args.bundle = str(pathlib.Path(__file__).resolve().parent)
    return args


def demo(args):
    """Returns what the last line says in its parentheses; raises Error for a failure."""
    if args.bundle:
        installation = local_server.Installation.from_bundle(args.bundle)
        programs_file = installation.root / "bin/examples/programs.txt"
    else:
        installation = None
        programs_file = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/programs.txt"
    programs = read_programs(pathlib.Path(args.programs) if args.programs else programs_file)
    unknown = set(args.only) - {name for name, _ in programs}
    if unknown:
        raise local_server.Error("no such program: " + ", ".join(sorted(unknown)))
    if args.only:
        programs = [p for p in programs if p[0] in args.only]
    if installation is None:
        installation = local_server.Installation.from_bazel_bin(
            args.bazel_bin, {"bin/examples/" + name: "examples/" + name for name, _ in programs})
    try:
        failed, devices = run_all(installation, programs, args)
    finally:
        installation.close()
    if failed:
        raise local_server.Error("%d of %d programs: %s"
                                 % (len(failed), len(programs), ", ".join(failed)))
    return "%d programs, device: %s" % (len(programs), ", ".join(devices))


def main():
    local_server.stop_on_signals()
    args = parse_arguments()
    try:
        print("demo: ok (%s)" % demo(args))
        return 0
    except (local_server.Error, OSError) as error:
        first, _, rest = str(error).partition("\n")
        if rest:
            print(rest)
        print("demo: FAILED (%s)" % first.rstrip(":"))
    except KeyboardInterrupt:
        print("demo: FAILED (interrupted)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
