#!/usr/bin/env python3
"""Runs built public programs natively and remotely, in turn, and compares exit status and verdict.

  run.py --programs=DIR --remote=HOST:PORT --lib=DIR [--list=FILE] [--libraries=DIR:...]
         [--jobs=N] [--csv=FILE] [--logs=FILE.tar.gz] [--only=NAME,...]

DIR holds one folder for each program of the list, which is cuda_samples.txt unless --list says
another: the program of that name and its data. A folder DIR/lib, and those of --libraries, hold what
they need besides CUDA's driver. Every run has a copy of the program's folder to itself. The verdict
is the last line that says passed, failed or waived; programs without one are judged by their exit
status alone. Prints one line a program:

  same        exit status and verdict are those of the native run
  DIFFERENT   they are not, also when the program was run once more, alone
  too long    the native run did not end in time, so there is nothing to compare
  missing     DIR does not have it
  not built   nor should it; the list says why

and a total, with the remote wall time in parts of the native one (the geometric mean, and what took
half as long again); exit status 1 if any is DIFFERENT or missing. --remote_only leaves the native
runs out: then a program has `passed` or `FAILED`.
"""
import argparse
import concurrent.futures
import csv
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

LISTING = pathlib.Path(__file__).resolve().parent / "cuda_samples.txt"
VERDICT = re.compile(r"\b(pass(ed)?|ok|fail(ed|ures?)?|success(ful(ly)?)?|waiv(ed?|ing))\b",
                     re.IGNORECASE)
WAIVED_EXIT = 2  # EXIT_WAIVED of the samples' helper_string.h
OUTPUT_BYTES = 1 << 20
# Programs whose remote run took this many times the native one, and so much longer, are named.
SLOWER, SLOWER_S = 1.5, 0.5
STARTING = threading.Lock()
COLUMNS = ("sample", "result", "native_exit", "native_verdict", "native_s", "remote_exit",
           "remote_verdict", "remote_s", "reason")


class Sample:
    """A line of the list: the name, the arguments of each run, and what there is to say of it."""

    def __init__(self, name, reason="", built=True):
        self.name, self.reason, self.built, self.runs = name, reason, built, []


def listed_samples(path=LISTING):
    """The samples in the order of the list. Lines of the same name are runs of one sample."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text, _, reason = line.partition("#")
        words = text.split()
        if not words:
            continue
        built = words[0] != "-"
        name = words[0 if built else 1]
        sample = found.setdefault(name, Sample(name, reason.strip(), built))
        if built:
            sample.runs.append(words[1:])
    return list(found.values())


def verdict_of(output):
    """"passed", "failed", "waived" or "", by the last line that says so; figures do not count."""
    for line in reversed(output.splitlines()):
        words = [match[0].lower() for match in VERDICT.finditer(line)]
        if not words:
            continue
        if any(word.startswith("waiv") for word in words):
            return "waived"
        no_failures = re.search(r"\b0 failures?\b", line, re.IGNORECASE)
        return "passed" if no_failures or not words[-1].startswith("fail") else "failed"
    return ""


class Outcome:
    """How a sample ended on one side."""

    def __init__(self, status, output, seconds):
        self.status, self.output, self.seconds = status, output, seconds
        self.verdict = verdict_of(output) or ("waived" if status == WAIVED_EXIT else "none")

    def passed(self):
        return self.status == 0 and self.verdict in ("passed", "none")

    def waived(self):
        return self.verdict == "waived" and self.status in (0, WAIVED_EXIT)

    def same_as(self, other):
        return (self.status, self.verdict) == (other.status, other.verdict)

    def last_words(self):
        """The line that gave the verdict, if that was no pass, else the last that it printed."""
        lines = [" ".join(line.split()) for line in self.output.splitlines() if line.strip()]
        if self.verdict in ("failed", "waived"):
            lines = [line for line in lines if verdict_of(line) == self.verdict]
        text = lines[-1] if lines else "no output"
        return "%s: %s" % (self.ending(), text if len(text) <= 120 else text[:117] + "...")

    def ending(self):
        if isinstance(self.status, int) and self.status < 0:
            return signal.Signals(-self.status).name
        return "timeout" if self.status == "timeout" else "exit %d" % self.status


def run(folder, name, arguments, env, timeout_s):
    """Runs folder/name once in a copy of `folder`."""
    with tempfile.TemporaryDirectory(prefix="sample_") as place, tempfile.TemporaryFile() as output:
        copy = pathlib.Path(place) / name
        # A process that is started while another thread writes its program would keep that
        # program open, which then could not be executed.
        with STARTING:
            shutil.copytree(folder, copy, symlinks=True)
            started = time.monotonic()
            process = subprocess.Popen(["./" + name, *arguments], cwd=copy, env=env, stdout=output,
                                       stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = "timeout"
        seconds = time.monotonic() - started
        try:  # Also what a sample of several processes left behind.
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_BYTES))
        return Outcome(status, output.read().decode("utf-8", "replace"), seconds)


def run_all(programs, sample, env, timeout_s):
    """The runs of a sample one after the other, until one is not good: the outcome of the last."""
    output, seconds, outcome = "", 0, None
    for arguments in sample.runs:
        outcome = run(programs / sample.name, sample.name, arguments, env, timeout_s)
        seconds += outcome.seconds
        output += "$ %s\n%s\n" % (" ".join([sample.name, *arguments]), outcome.output)
        if not outcome.passed():
            break
    outcome.seconds, outcome.log = seconds, output
    return outcome


def environments(lib, endpoint, libraries=()):
    """The environments of native and remote programs."""
    plain = {k: v for k, v in os.environ.items()
             if not k.startswith("WARPLINE_") and k != "DISPLAY"}
    remote = {k: v for k, v in plain.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    former = [plain["LD_LIBRARY_PATH"]] if plain.get("LD_LIBRARY_PATH") else []
    if former or libraries:
        plain["LD_LIBRARY_PATH"] = ":".join([*former, *libraries])
    remote["LD_LIBRARY_PATH"] = ":".join([str(lib), *libraries])
    remote["WARPLINE_ENDPOINT"] = endpoint
    return plain, remote


class Comparison:
    """Compares samples; `plain` None leaves out the native runs. Threads may share once()."""

    def __init__(self, programs, plain, remote, timeout_s):
        self.programs, self.timeout_s = programs, timeout_s
        self.sides = ([("native", plain)] if plain is not None else []) + [("remote", remote)]
        self.logs = {}  # file name: what that side printed, of samples that did not pass on both

    def once(self, sample):
        row = dict.fromkeys(COLUMNS, "")
        row["sample"] = sample.name
        if not sample.built:
            return {**row, "result": "not built", "reason": sample.reason}
        if not (self.programs / sample.name / sample.name).is_file():
            return {**row, "result": "missing"}
        found = {}
        for side, env in self.sides:
            outcome = run_all(self.programs, sample, env, self.timeout_s)
            found[side] = outcome
            row[side + "_exit"], row[side + "_verdict"] = outcome.status, outcome.verdict
            row[side + "_s"] = "%.1f" % outcome.seconds
            if side == "native" and outcome.status == "timeout":
                return {**row, "result": "too long"}
        remote, native = found["remote"], found.get("native")
        if native:
            row["result"] = "same" if native.same_as(remote) else "DIFFERENT"
        else:
            row["result"] = "passed" if remote.passed() or remote.waived() else "FAILED"
        for side, outcome in found.items():
            self.logs.pop("%s.%s.txt" % (sample.name, side), None)
        if not all(outcome.passed() for outcome in found.values()):
            row["reason"] = sample.reason or "; ".join(
                "%s: %s" % (side, outcome.last_words()) for side, outcome in found.items()
                if not outcome.passed() and not (side == "remote" and row["result"] == "same"))
            for side, outcome in found.items():
                self.logs["%s.%s.txt" % (sample.name, side)] = outcome.log
        elif row["result"] == "DIFFERENT":
            row["reason"] = sample.reason or "verdicts differ"
        return row

    def all(self, samples, jobs=1, again_s=90):
        """The rows of `samples`; those that differ run once more, alone, for `again_s` in all."""
        rows = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(self.once, sample) for sample in samples]
            for done in concurrent.futures.as_completed(running):
                row = done.result()
                rows[row["sample"]] = row
                if row["result"] not in ("DIFFERENT", "FAILED"):
                    show(row)
        until = time.monotonic() + again_s
        for sample in samples:
            first = rows[sample.name]
            if first["result"] not in ("DIFFERENT", "FAILED"):
                continue
            if time.monotonic() < until:
                row = rows[sample.name] = self.once(sample)
                if row["result"] in ("same", "passed"):
                    row["reason"] = "at first %s beside others (%s)" % (first["result"],
                                                                       first["reason"])
            show(rows[sample.name])
        return [rows[sample.name] for sample in samples]


def show(row):
    print("\t".join(str(row[column]) for column in COLUMNS), flush=True)


def total(rows):
    """What to print of `rows`, and whether all is well."""
    bad = [row["sample"] for row in rows if row["result"] in ("DIFFERENT", "FAILED", "missing")]
    built = [row for row in rows if row["result"] not in ("missing", "not built", "too long")]
    if any(row["native_verdict"] for row in built):
        passing = [row for row in built
                   if row["native_exit"] == 0 and row["native_verdict"] in ("passed", "none")]
        same = sum(row["result"] == "same" for row in passing)
        waived = sum(row["native_verdict"] == "waived" for row in built)
        text = "%d of %d that pass natively are the same remotely" % (same, len(passing))
        text += "; natively %d are waived, %d fail" % (waived, len(built) - len(passing) - waived)
    else:
        text = "%d of %d pass" % (sum(row["result"] == "passed" for row in built), len(built))
    text += "; %d not built" % sum(row["result"] == "not built" for row in rows)
    too_long = sum(row["result"] == "too long" for row in rows)
    if too_long:
        text += "; %d take too long natively" % too_long
    return text + ("; not so: " + ", ".join(bad) if bad else ""), not bad


def wall_times(rows):
    """What to print of the wall times of programs that pass on both sides; "" without any."""
    times = [(row["sample"], float(row["native_s"]), float(row["remote_s"])) for row in rows
             if row["result"] == "same" and row["native_exit"] == 0 and row["native_s"]]
    if not times:
        return ""
    # Runs of less than a tenth of a second say nothing about each other.
    ratio = {name: max(remote, 0.1) / max(native, 0.1) for name, native, remote in times}
    mean = math.exp(sum(map(math.log, ratio.values())) / len(ratio))
    slower = sorted((name for name, native, remote in times
                     if ratio[name] > SLOWER and remote - native > SLOWER_S),
                    key=ratio.get, reverse=True)
    text = "remote wall time is %.2f of native (geometric mean of %d)" % (mean, len(ratio))
    named = ", ".join("%s %.1f" % (name, ratio[name]) for name in slower)
    return text + ("; slower: " + named if named else "")


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_logs(path, logs):
    with tempfile.TemporaryDirectory() as place, tarfile.open(path, "w:gz") as archive:
        for name, text in sorted(logs.items()):
            file = pathlib.Path(place) / name
            file.write_text(text, encoding="utf-8")
            archive.add(file, arcname=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--remote", metavar="ENDPOINT", required=True)
    parser.add_argument("--lib", required=True, help="folder of our libcuda.so.1")
    parser.add_argument("--list", type=pathlib.Path, default=LISTING, help="of the programs")
    parser.add_argument("--libraries", default="", help="more folders of libraries, for both sides")
    parser.add_argument("--remote_only", action="store_true")
    parser.add_argument("--only", help="samples, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="samples at a time")
    parser.add_argument("--timeout_s", type=float, default=60, help="of one run")
    parser.add_argument("--again_s", type=float, default=90,
                        help="how long those that differ are run once more, alone")
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path,
                        help="tar.gz of what the samples printed that did not pass on both sides")
    args = parser.parse_args()
    programs = args.programs.resolve()
    libraries = [folder for folder in args.libraries.split(":") if folder]
    if (programs / "lib").is_dir():
        libraries.append(str(programs / "lib"))
    plain, remote = environments(args.lib, args.remote, libraries)
    samples = listed_samples(args.list)
    if args.only:
        wanted = args.only.split(",")
        samples = [sample for sample in samples if sample.name in wanted]
    print("\t".join(COLUMNS))
    comparison = Comparison(programs, None if args.remote_only else plain, remote, args.timeout_s)
    rows = comparison.all(samples, args.jobs, args.again_s)
    text, good = total(rows)
    print("total\t" + text)
    if wall_times(rows):
        print("times\t" + wall_times(rows))
    if args.csv:
        write_csv(args.csv, rows)
    if args.logs:
        write_logs(args.logs, comparison.logs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
