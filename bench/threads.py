#!/usr/bin/env python3
"""Which threads of client, server and worker take how much processor time while a program runs.

  threads.py --bundle=DIR [--native] [--copies=N] [--server_flag=FLAG ...] -- PROGRAM ARGUMENTS...

Starts a server of the bundle, runs the program through it (or without it, with --native), so many
copies of it at once, and reads what the kernel counts of each thread. Prints, for each name of a
process and a thread, how many seconds they had a processor, how many they waited for one, and how
often they gave it up by themselves or had it taken. What the server did before the program began
is left out. Then the program's own output.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import threading
import time

SAMPLE_S = 0.05


def read(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


class Sampler:
    """The counters of every thread of some processes and what they start, as long as they live."""

    def __init__(self, roots):
        self._roots = roots
        self._first = {}
        self._last = {}
        self._stop = threading.Event()
        self._look(self._first)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def add(self, pid):
        self._roots = [*self._roots, pid]

    def _below(self, pid):
        yield pid
        try:
            for task in os.listdir("/proc/%d/task" % pid):
                for child in read("/proc/%d/task/%s/children" % (pid, task)).split():
                    yield from self._below(int(child))
        except OSError:
            pass

    def _look(self, into):
        for root in self._roots:
            for pid in self._below(root):
                try:
                    process = read("/proc/%d/comm" % pid).strip()
                    for task in os.listdir("/proc/%d/task" % pid):
                        folder = "/proc/%d/task/%s/" % (pid, task)
                        ran_ns, waited_ns = read(folder + "schedstat").split()[:2]
                        switches = [int(line.split()[1]) for line in read(folder + "status").splitlines()
                                    if "ctxt_switches" in line]
                        into[pid, task] = (process, read(folder + "comm").strip(),
                                           (int(ran_ns) / 1e9, int(waited_ns) / 1e9, *switches))
                except (OSError, ValueError):
                    pass  # It has ended meanwhile.

    def _run(self):
        while not self._stop.wait(SAMPLE_S):
            self._look(self._last)

    def finish(self):
        """(process, thread) -> [threads, seconds, seconds waited, switches, switches taken]."""
        self._stop.set()
        self._thread.join()
        self._look(self._last)
        sums = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
        for key, (process, name, counters) in self._last.items():
            before = self._first[key][2] if key in self._first else (0, 0, 0, 0)
            entry = sums[process, name]
            entry[0] += 1
            for i, (now, then) in enumerate(zip(counters, before)):
                entry[i + 1] += now - then
        return sums


def table(sums, least_s):
    lines = ["%-18s %-18s %7s %9s %9s %9s %9s" % ("process", "thread", "threads", "ran s", "waited s", "gave up",
                                                   "taken")]
    for (process, name), entry in sorted(sums.items(), key=lambda item: -item[1][1]):
        if entry[1] >= least_s:
            lines.append("%-18s %-18s %7d %9.3f %9.3f %9d %9d" % (process, name, *entry))
    lines.append("%-37s %7d %9.3f %9.3f" % ("all", *(sum(entry[i] for entry in sums.values()) for i in range(3))))
    return "\n".join(lines)


def run(command, env, copies, roots):
    """(seconds, sums, outputs)"""
    sampler = Sampler(roots)
    start = time.monotonic()
    processes = []
    for _ in range(copies):
        processes.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
        sampler.add(processes[-1].pid)
    outputs = [process.communicate()[0] for process in processes]
    took = time.monotonic() - start
    sums = sampler.finish()
    for process in processes:
        if process.returncode != 0:
            raise SystemExit("the program ended with %d: %s" % (process.returncode, outputs[0][-500:]))
    return took, sums, outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--least_s", type=float, default=0.005, help="threads below this are left out")
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    sys.path[:0] = [str(args.bundle.resolve()), str(pathlib.Path(__file__).resolve().parent.parent / "deploy/local")]
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    if args.native:
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        took, sums, outputs = run(args.command, env, args.copies, [])
    else:
        installation = local_server.Installation.from_bundle(args.bundle)
        with local_server.Server(installation, ["--device=" + args.device, *args.server_flag]) as server:
            env = installation.client_environment(server.endpoint)
            if "WARPLINE_STAT" in os.environ:
                env["WARPLINE_STAT"] = os.environ["WARPLINE_STAT"]
            time.sleep(2)  # Its workers are made, and are at rest.
            took, sums, outputs = run(args.command, env, args.copies, [server.pid])
    print("%.3f s" % took)
    print(table(sums, args.least_s))
    for output in outputs[:1]:
        print(output.rstrip())


if __name__ == "__main__":
    main()
