#!/usr/bin/env python3
"""Runs public projects' own pytest suites natively and remotely and compares them test by test.

  suites.py --suite=NAME:DIR[:PYTEST-ARGUMENTS] ... --remote=HOST:PORT --lib=DIR [--jobs=N]
            [--timeout_s=N] [--limit_s=N] [--again_s=N] [--csv=FILE] [--logs=FILE.tar.gz]

Both sides of a suite run at the same time, each with --jobs workers in a copy of DIR of its own, as
`python3 -m pytest PYTEST-ARGUMENTS` (words as in a shell; without any: all of DIR). pytest-xdist and
pytest-timeout have to be installed. A suite whose sides do not end in --limit_s is ended, and what
both had reached counts. A test is

  same           passed on both sides; also when it did so remotely only once it ran alone
  DIFFERENT      passed natively and not remotely, also alone
  native failed, native skipped
                 not counted: there is nothing to compare with
  too long       natively not ended in --timeout_s
  not reached    by one of the sides in --limit_s; those that neither has reached are not known

Prints one line a DIFFERENT test with the last line of its error, and a total for each suite with the
remote time in parts of the native one; exit status 1 if any test is DIFFERENT or a suite has none.
"""
import argparse
import collections
import csv
import faulthandler
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COLUMNS = ("suite", "test", "result", "native", "native_s", "remote", "remote_s", "reason")
PLUGIN = "suites_plugin"  # The name by which pytest imports this file.
# Where the plugin writes what became of each test, and after how long it ends a worker that hangs.
REPORT, HANG_S = "SUITES_REPORT", "SUITES_HANG_S"
TIMED_OUT = "Timeout"
LINE_LENGTH = 160


# The part that pytest loads as a plugin: xdist sends the reports of all workers to the process that
# has them, which writes them down at once, so that they are there when the suite is killed.

def is_worker():
    return "PYTEST_XDIST_WORKER" in os.environ


def note(**entry):
    if REPORT in os.environ and not is_worker():
        with open(os.environ[REPORT], "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def last_error(report):
    """The line of a failed report that says the most: the first that pytest marks as the error in its
    last group of such lines, or simply the last."""
    lines = [line for line in str(report.longrepr or "").splitlines() if line.strip()]
    words, after_error = (lines or ["no words"])[-1], False
    for line in lines:
        is_error = line.startswith("E ")
        if is_error and not after_error:
            words = line[1:]
        after_error = is_error
    return " ".join(words.split())[:LINE_LENGTH]


def pytest_runtest_logreport(report):
    note(test=report.nodeid, when=report.when, outcome=report.outcome,
         seconds=getattr(report, "duration", 0),
         reason="" if report.passed else last_error(report))


def pytest_collectreport(report):
    if report.failed:
        note(test=report.nodeid, when="collect", outcome="failed", seconds=0,
             reason=last_error(report))


def pytest_runtest_logstart():
    """pytest-timeout interrupts Python; code that does not return to it takes its worker along."""
    if HANG_S in os.environ and is_worker():
        faulthandler.dump_traceback_later(float(os.environ[HANG_S]), exit=True)


def pytest_runtest_logfinish():
    if HANG_S in os.environ and is_worker():
        faulthandler.cancel_dump_traceback_later()


# The part that runs pytest.

class Suite:
    """NAME:DIR[:PYTEST-ARGUMENTS]"""

    def __init__(self, text):
        name, _, rest = text.partition(":")
        folder, _, arguments = rest.partition(":")
        self.name, self.folder = name, pathlib.Path(folder).resolve()
        self.arguments = shlex.split(arguments)
        if not name or not self.folder.is_dir():
            raise argparse.ArgumentTypeError("not NAME:DIR[:PYTEST-ARGUMENTS]: " + text)


class Outcome:
    """What became of one test on one side: passed, failed, skipped or too long."""

    def __init__(self):
        self.result, self.seconds, self.reason = "", 0.0, ""

    def add(self, entry):
        self.seconds += entry["seconds"]
        outcome = entry["outcome"]
        if outcome == "failed":
            timed_out = entry["reason"].startswith("Failed: " + TIMED_OUT)
            self.result = "too long" if timed_out else "failed"
            self.reason = entry["reason"]
        elif outcome == "skipped" and self.result in ("", "passed"):
            self.result, self.reason = "skipped", entry["reason"]
        elif entry["when"] == "call" and not self.result:
            self.result = "passed"


class Side:
    """pytest on a suite, natively or remotely; reports() has what it has found until now."""

    def __init__(self, suite, env, jobs, timeout_s, arguments):
        self.place = tempfile.TemporaryDirectory(prefix="suite_")
        folder = pathlib.Path(self.place.name)
        self.report, self.output = folder / "report", folder / "output"
        shutil.copy(__file__, folder / (PLUGIN + ".py"))
        copy = folder / "copy" / suite.folder.name
        shutil.copytree(suite.folder, copy, symlinks=True)
        # What was set for both sides stays; equal seeds make the workers agree on what to run.
        env = {"PYTHONHASHSEED": "0", **env, REPORT: str(self.report),
               HANG_S: str(1.5 * timeout_s + 5),
               "PYTHONPATH": ":".join(filter(None, [str(folder), env.get("PYTHONPATH")]))}
        # With that rootdir the names of the tests are relative to the folder that pytest runs in.
        command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q",
                   "--rootdir=%s" % copy,
                   "-n", str(jobs), "--max-worker-restart=1000", "--timeout=%g" % timeout_s,
                   "--timeout-method=signal", "--continue-on-collection-errors", *arguments]
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(command, cwd=copy, env=env, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=subprocess.STDOUT,
                                            start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.place.cleanup()

    def wait(self, until):
        """Whether it has ended at that time; then all that it started is killed."""
        try:
            self.process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.end()
        return True

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def reports(self):
        found = collections.defaultdict(Outcome)
        if self.report.exists():
            for line in self.report.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # It was killed as it wrote this one.
                    continue
                found[entry["test"]].add(entry)
        return {test: outcome for test, outcome in found.items() if outcome.result}


class Comparison:
    """Compares suites; `plain` and `remote` are the environments of the two sides."""

    def __init__(self, plain, remote, options):
        self.plain, self.remote, self.options = plain, remote, options
        self.logs = {}  # File name: what pytest printed.

    def side(self, suite, env, jobs, arguments):
        return Side(suite, env, jobs, self.options.timeout_s, arguments)

    def compare(self, suite):
        """The rows of a suite."""
        arguments, options = suite.arguments, self.options
        with self.side(suite, self.plain, options.jobs, arguments) as native, \
                self.side(suite, self.remote, options.jobs, arguments) as remote:
            until = time.monotonic() + options.limit_s
            for name, side in (("native", native), ("remote", remote)):
                ended = side.wait(until)
                self.logs["%s.%s.txt" % (suite.name, name)] = side.text()
                if not ended:
                    print("# %s: the %s side was ended after %g s" % (suite.name, name,
                                                                     options.limit_s), flush=True)
                elif side.process.returncode not in (0, 1):
                    print("# %s: the %s pytest ended with %d:" % (suite.name, name,
                                                                 side.process.returncode))
                    print("\n".join("#   " + line for line in side.text().splitlines()[-12:]),
                          flush=True)
            rows = {row["test"]: row for row in joined(suite, native.reports(), remote.reports())}
        until = time.monotonic() + options.again_s
        # First one after the other in one worker, then what is left each in a process of its own.
        self.again(suite, rows, until, together=True)
        self.again(suite, rows, until, together=False)
        return list(rows.values())

    def again(self, suite, rows, until, together):
        """Runs the tests that differ once more remotely, with nothing else beside them."""
        bad = [test for test, row in rows.items() if row["result"] == "DIFFERENT"]
        own = [word for word in suite.arguments if not names_tests(word)]
        groups = [bad[at:at + 100] for at in range(0, len(bad), 100)] if together else \
            [[test] for test in bad]
        for group in groups:
            if time.monotonic() > until:
                return
            with self.side(suite, self.remote, 1, [*own, *group]) as side:
                side.wait(until)
                found = side.reports()
                for test in group:
                    if test not in found:
                        continue
                    row = rows[test]
                    row["remote"], row["remote_s"] = (found[test].result,
                                                      "%.2f" % found[test].seconds)
                    if found[test].result == "passed":
                        row["result"] = "same"
                        row["reason"] = "at first not, beside others (%s)" % row["reason"]
                    else:
                        row["reason"] = found[test].reason


def names_tests(word):
    """Whether a word of a suite's arguments says which files to run, which is not said again."""
    return not word.startswith("-") and (".py" in word or "/" in word or "::" in word)


def joined(suite, native, remote):
    """A row for each test that either side knows of."""
    for test in [*native, *(test for test in remote if test not in native)]:
        ours, theirs = remote.get(test), native.get(test)
        row = dict.fromkeys(COLUMNS, "")
        row["suite"], row["test"] = suite.name, test
        for name, outcome in (("native", theirs), ("remote", ours)):
            if outcome:
                row[name], row[name + "_s"] = outcome.result, "%.2f" % outcome.seconds
        if not theirs:
            row["result"] = "not reached"
        elif theirs.result != "passed":
            row["result"] = "too long" if theirs.result == "too long" else "native " + theirs.result
            row["reason"] = theirs.reason
        elif not ours:
            row["result"] = "not reached"
        else:
            row["result"] = "same" if ours.result == "passed" else "DIFFERENT"
            row["reason"] = ours.reason
        yield row


def total(name, rows):
    """What to print of a suite's rows, and whether all is well."""
    count = collections.Counter(row["result"] for row in rows)
    bad, same = count["DIFFERENT"], count["same"]
    text = "%s\t%d of %d that pass natively are the same remotely" % (name, same, same + bad)
    odd = sum(row["result"] == "native failed" and row["remote"] == "passed" for row in rows)
    for result, words in (("native failed", "fail natively"), ("native skipped", "are skipped"),
                          ("too long", "take too long"), ("not reached", "not reached")):
        if count[result]:
            text += "; %d %s" % (count[result], words)
            if result == "native failed" and odd:
                text += " (%d of them pass remotely)" % odd
    times = [(float(row["native_s"]), float(row["remote_s"])) for row in rows
             if row["result"] == "same"]
    theirs, ours = (sum(column) for column in zip(*times)) if times else (0, 0)
    if theirs:
        text += "; remote time is %.2f of native" % (ours / theirs)
    return text, same > 0 and not bad


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    # Only here, as pytest imports this file from elsewhere.
    from run import environments, write_logs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Suite, action="append", required=True,
                        metavar="NAME:DIR[:PYTEST-ARGUMENTS]")
    parser.add_argument("--remote", metavar="ENDPOINT", required=True)
    parser.add_argument("--lib", required=True, help="folder of our libcuda.so.1")
    parser.add_argument("--libraries", default="", help="more folders of libraries, for both sides")
    parser.add_argument("--jobs", type=int, default=4, help="workers of each side")
    parser.add_argument("--timeout_s", type=float, default=60, help="of one test")
    parser.add_argument("--limit_s", type=float, default=600, help="of one suite")
    parser.add_argument("--again_s", type=float, default=60,
                        help="how long a suite's tests that differ are run once more, alone")
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--logs", type=pathlib.Path, help="tar.gz of what pytest printed")
    args = parser.parse_args()
    libraries = [folder for folder in args.libraries.split(":") if folder]
    comparison = Comparison(*environments(args.lib, args.remote, libraries), args)
    everything, good = [], True
    for suite in args.suite:
        rows = comparison.compare(suite)
        for row in rows:
            if row["result"] == "DIFFERENT":
                print("\t".join(row[column] for column in ("result", "suite", "test", "reason")))
        text, well = total(suite.name, rows)
        print("total\t" + text, flush=True)
        good, everything = good and well, everything + rows
        # After each suite, so that what was found is there if the next one does not end.
        if args.csv:
            write_csv(args.csv, everything)
        if args.logs:
            write_logs(args.logs, comparison.logs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
