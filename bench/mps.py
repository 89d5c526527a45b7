#!/usr/bin/env python3
"""What programs of one tenant get of a GPU that they share by NVIDIA's Multi-Process Service.

  mps.py --bundle=DIR --program=mps [--device=auto] [--seconds=6] [--parts=30,70] [--md=FILE] [--logs=DIR]

A scheduler with two tenants and a server are started with --mps=off and with --mps=tenant, and run
bench/cuda:mps on the isolated tier: one program on each slice of so many percent of the multiprocessors,
alone and then at once, and at once with a program of the other tenant that has no such part. The table
says on how many multiprocessors each program's blocks ran and how many kernels it had a second.

Then, with --mps=tenant, all run again, and the first one writes to an address that it does not have: the
second table says with what each ended, how long after the fault, and whether the tenant's next program is
served. At the end the server is told to stop, and what is left of it is said: processes whose
name has "mps" in it, and folders of groups. Exits with 1 if that is anything.
"""
import argparse
import json
import pathlib
import re
import signal
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pool import Pool  # noqa: E402  (found by the path above)

END_TIMEOUT_S = 60
FAULT_AFTER_S = 2


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Run:
    """A program that runs, as a tenant on a slice, or without one."""

    def __init__(self, pool, tenant, part, program, seconds, *options):
        self.name = "tenant%d%s" % (tenant, ", %d %%" % part if part else "")
        environment = pool.environment(tenant, **({"WARPLINE_SLICE": "part%d" % part} if part else {}))
        self._process = subprocess.Popen(
            pool.command("isolated", str(program), "--seconds=%g" % seconds, *options), env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait(self):
        try:
            said, errors = self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, errors = self._process.communicate()
            errors += "killed: it did not end"
        lines = lines_of(said)
        self.errors = errors
        self.multiprocessors = next((line["multiprocessors"] for line in lines if "multiprocessors" in line), 0)
        self.progress = [(line["at"], line["kernels"]) for line in lines if "kernels" in line]
        ends = [line for line in lines if "ended" in line]
        self.ended = ends[-1]["ended"] if ends else "no answer: " + errors.strip()[-200:]
        self.ended_at = ends[-1]["at"] if ends else 0
        return self


def rate(run, start, end):
    """Kernels a second between two times, of those seconds that lie within."""
    inside = [(at, count) for at, count in run.progress if start <= at <= end]
    if len(inside) < 2:
        return 0
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def together(runs):
    """Waits for all, and returns them with their rates while all were at work."""
    for run in runs:
        run.wait()
    started = [run for run in runs if run.progress]
    if not started:
        return [(run, 0) for run in runs]
    start = max(run.progress[0][0] for run in started)
    end = min(run.progress[-1][0] for run in started)
    return [(run, rate(run, start, end)) for run in runs]


def processes_of_mps():
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        name = command.split(" ")[0].rsplit("/", 1)[-1]
        if "cuda-mps" in name or name == "warpline-mps":
            found.append("%s %s" % (entry.name, command))
    return sorted(found)


def snapshot(title, out):
    """What somebody wants to see who looks at this for the first time: processes, users, files."""
    out.write("== %s\n" % title)
    for command in (["ps", "-eo", "pid,ppid,user,uid,lstart,args", "--forest"],
                    ["nvidia-smi"], ["nvidia-smi", "pmon", "-c", "1"]):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        out.write("$ %s\n%s%s\n" % (" ".join(command), done.stdout, done.stderr))
    for process in processes_of_mps():
        pid = process.split(" ")[0]
        for name in ("fd", "ns"):
            folder = pathlib.Path("/proc") / pid / name
            try:
                out.write("%s %s: %s\n" % (process, name, " ".join(
                    sorted({os.readlink(link) for link in folder.iterdir()}))))
            except OSError as error:
                out.write("%s %s: %s\n" % (process, name, error))
        try:
            maps = (pathlib.Path("/proc") / pid / "maps").read_text()
            out.write("%s maps: %s\n" % (pid, " ".join(sorted(set(re.findall(r"/(?:dev|tmp|run|memfd)\S*", maps))))))
        except OSError:
            pass
    out.flush()


class Measurement:
    def __init__(self, args, local_server, installation, logs):
        self._args = args
        self._local_server = local_server
        self._installation = installation
        self._logs = logs
        self.shares = ["| --mps | which | program | multiprocessors | kernels a second | ended with |",
                       "|---|---|---|---|---|---|"]
        self.faults = ["| program | ended with | seconds after the fault |", "|---|---|---|"]
        self.left = []

    def _pool(self, mps, place):
        args = self._args
        slices = {"part%d" % part: ["--sm_percent=%d" % part] for part in args.parts}
        tenants = [["--slices=" + ",".join(slices)], []]
        flags = ["--device=" + args.device, "--tiers=isolated", "--drain_seconds=1", "--mps=" + mps,
                 *(["--mps_dir=%s" % place] if mps != "off" else []), *args.server_flag]
        return Pool(self._local_server, self._installation, tenants, flags, slices)

    def _run(self, pool, tenant, part, *options, seconds=None):
        return Run(pool, tenant, part, self._args.program.resolve(), seconds or self._args.seconds,
                   *self._args.program_flag, *options)

    def _note(self, mps, which, results):
        for run, kernels in results:
            self.shares.append("| %s | %s | %s | %d | %.0f | %s |" % (
                mps, which, run.name, run.multiprocessors, kernels, run.ended))
            print(self.shares[-1], flush=True)
            if run.errors.strip():
                self._logs.write("%s %s %s: %s\n" % (mps, which, run.name, run.errors))

    def measure_shares(self, pool, mps):
        parts = self._args.parts
        for part in parts:
            self._note(mps, "alone", together([self._run(pool, 0, part)]))
        runs = [self._run(pool, 0, part) for part in parts]
        time.sleep(self._args.seconds / 2)
        snapshot("at once, --mps=" + mps, self._logs)
        self._note(mps, "at once", together(runs))
        self._note(mps, "and another tenant",
                   together([self._run(pool, 0, part) for part in parts] + [self._run(pool, 1, 0)]))

    def measure_fault(self, pool):
        seconds = FAULT_AFTER_S + self._args.seconds
        parts = self._args.parts
        first = self._run(pool, 0, parts[0], "--fault_after=%d" % FAULT_AFTER_S, seconds=seconds)
        others = [self._run(pool, 0, part, seconds=seconds) for part in parts[1:]] + [
            self._run(pool, 1, 0, seconds=seconds)]
        first.wait()
        later = self._run(pool, 0, parts[0], seconds=2)
        for run in others:
            run.wait()
        later.wait()
        later.name += ", started after the fault"
        for run in (first, *others, later):
            early = run.ended != "cudaSuccess" and run.ended_at > 0
            self.faults.append("| %s | %s | %s |" % (
                run.name, run.ended, "%.2f" % (run.ended_at - first.ended_at) if early else ""))
            print(self.faults[-1], flush=True)
            if run.errors.strip():
                self._logs.write("fault, %s: %s\n" % (run.name, run.errors))

    def stop(self, pool, place):
        """Ends the server in the middle of work, and says what is left."""
        run = self._run(pool, 0, self._args.parts[0], seconds=20)
        time.sleep(3)
        before = processes_of_mps()
        os.kill(pool.server.pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while pool.server.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        took = 30 - (deadline - time.monotonic())
        self.left = processes_of_mps() + ["folder %s" % path for path in pathlib.Path(place).iterdir()]
        run.wait()
        return "%d processes of MPS before the server was told to stop; it took %.1f s; left: %s" % (
            len(before), took, "; ".join(self.left) or "nothing")

    def measure(self, mps):
        with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as place:
            pathlib.Path(place).chmod(0o755)
            with self._pool(mps, place) as pool:
                try:
                    self.measure_shares(pool, mps)
                    if mps == "off":
                        return ""
                    self.measure_fault(pool)
                    return self.stop(pool, place)
                finally:
                    self._logs.write("== the server's log, --mps=%s\n%s\n" % (mps, pool.server.log()))
                    self._logs.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:mps")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--parts", type=lambda text: [int(part) for part in text.split(",")], default=[30, 70],
                        help="percents of the multiprocessors, one for each program of the tenant")
    parser.add_argument("--modes", default="off,tenant", help="of --mps")
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("--program_flag", action="append", default=[],
                        help="such as --rounds=10 and --blocks=4 for the CPU device, with --modes=off")
    parser.add_argument("--md", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("/dev/null"),
                        help="a file for what programs and the server have logged")
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    with open(args.logs, "w", encoding="utf-8") as logs:
        measurement = Measurement(args, local_server, local_server.Installation.from_bundle(args.bundle), logs)
        said = [measurement.measure(mps) for mps in args.modes.split(",")]
    lines = [*measurement.shares, "", *measurement.faults, "", *filter(None, said)]
    print("\n".join(lines))
    if args.md:
        args.md.write_text("\n".join(lines) + "\n", encoding="ascii")
    return 1 if measurement.left else 0


if __name__ == "__main__":
    sys.exit(main())
