#!/usr/bin/env python3
"""Measures how long a program takes to start through a Warpline server on this machine, and what
idle sessions cost the server's host.

    startup.py [--device=auto] [--runs=20] [--sessions=64] [--bundle=DIR]

Start: milliseconds from entering cuInit to the first synchronize returned (bench/cuda/startup.cu),
remote and, where there is a GPU, native in turn; median, least and most of the runs. Idle sessions:
the proportional set size (PSS) of the server and all its workers and keepers with and without that
many idle clients, by session; natively, the same of programs that hold a context, since a worker
holds one too.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import local_server  # noqa: E402  (lies beside this file)

PROGRAM = "bin/warpline_startup"
PAUSE_S = 0.5  # Between starts: the server makes the next worker warm meanwhile.


def figures(text):
    return {f["name"]: f["value"] for f in map(json.loads, text.splitlines())}


def run_once(program, env):
    done = subprocess.run([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise local_server.Error("%s failed: %s" % (program, done.stderr.strip()))
    return figures(done.stdout)


def native_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}


def has_native(program):
    try:
        run_once(program, native_environment())
        return True
    except local_server.Error:
        return False


def summary(values):
    return "median %.1f ms, least %.1f, most %.1f (%d runs)" % (
        statistics.median(values), min(values), max(values), len(values))


def measure_start(program, environments, runs, pause_s):
    taken = {name: [] for name in environments}
    for _ in range(runs):
        for name, env in environments.items():
            time.sleep(pause_s)
            taken[name].append(run_once(program, env))
    for name, all_figures in taken.items():
        for figure in ("cuInit", "cuInit_to_synchronize"):
            print("%-8s %-22s %s" % (name, figure, summary([f[figure] for f in all_figures])))
    sys.stdout.flush()


def pss_kib(pids):
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as lines:
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            pass  # It ended meanwhile.
    return total


class Holders:
    """Programs that hold a context each, started one after another."""

    def __init__(self, program, env, count):
        self._programs = []
        for _ in range(count):
            process = subprocess.Popen([program, "--hold"], env=env, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self._programs.append(process)
            if not process.stdout.readline():
                message = process.stderr.read().decode(errors="replace").strip()
                self.close()
                raise local_server.Error("a program that should hold a context: " + message)

    def pids(self):
        return [process.pid for process in self._programs]

    def close(self):
        for process in self._programs:
            process.stdin.close()
        for process in self._programs:
            process.wait()
            process.stdout.close()
            process.stderr.close()


def measure_idle(program, server, client, sessions, native):
    def server_pss():
        return pss_kib([server.pid, *local_server.descendants(server.pid)])

    empty = server_pss()
    holders = Holders(program, client, sessions)
    try:
        time.sleep(3)
        full = server_pss()
        processes = len(local_server.descendants(server.pid))
    finally:
        holders.close()
    mib = (full - empty) / sessions / 1024
    print("idle     %d sessions, %d server processes: %.1f MiB each (%.0f MiB without sessions)"
          % (sessions, processes, mib, empty / 1024))
    if native:
        holders = Holders(program, native_environment(), sessions)
        try:
            time.sleep(3)
            bare = pss_kib(holders.pids()) / sessions / 1024
        finally:
            holders.close()
        print("idle     %d programs that hold a context: %.1f MiB each; a session costs %.1f MiB more"
              % (sessions, bare, mib - bare))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(prog="startup.py", description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", metavar="DIR", help="a folder made by ./dev bundle "
                        "(default: this file's)")
    parser.add_argument("--bazel_bin", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--pause", type=float, default=PAUSE_S, metavar="SECONDS",
                        help="between starts (default: %(default)s)")
    parser.add_argument("--server_flag", metavar="FLAG", action="append", default=[])
    args = parser.parse_args()
    local_server.stop_on_signals()
    try:
        if args.bazel_bin:
            installation = local_server.Installation.from_bazel_bin(
                args.bazel_bin, {PROGRAM: "bench/cuda/startup"})
        else:
            installation = local_server.Installation.from_bundle(args.bundle or HERE)
            installation.check([PROGRAM])
        try:
            program = str(installation.root / PROGRAM)
            native = has_native(program)
            flags = ["--device=" + args.device, "--max_sessions=%d" % (args.sessions + 8),
                     *args.server_flag]
            with local_server.Server(installation, flags) as server:
                client = installation.client_environment(server.endpoint)
                run_once(program, client)  # Brings the files into the page cache.
                environments = {"remote": client}
                if native:
                    environments["native"] = native_environment()
                if args.runs > 0:
                    measure_start(program, environments, args.runs, args.pause)
                if args.sessions > 0:
                    measure_idle(program, server, client, args.sessions, native)
            return 0
        finally:
            installation.close()
    except (local_server.Error, OSError, subprocess.TimeoutExpired) as error:
        print("startup: FAILED (%s)" % error)
    except KeyboardInterrupt:
        print("startup: FAILED (interrupted)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
