#!/usr/bin/env python3
import csv
import os
import pathlib
import stat
import tarfile
import tempfile
import time
import unittest

import run


def running(pid):
    """Whether a process exists that nobody ended: a zombie has ended."""
    status = pathlib.Path("/proc/%d/status" % pid)
    try:
        return "\nState:\tZ" not in status.read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sample(self, name, text, *runs, reason=""):
        path = self.folder / name / name
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return self.listed(name, *runs, reason=reason)

    @staticmethod
    def listed(name, *runs, reason="", built=True):
        found = run.Sample(name, reason, built)
        found.runs = list(runs) or [[]]
        return found

    def comparison(self, native=True, timeout_s=20):
        plain = dict(os.environ)
        return run.Comparison(self.folder, plain if native else None, {**plain, "REMOTE": "1"},
                              timeout_s)

    def rows(self, *samples, **options):
        return {row["sample"]: row for row in self.comparison(**options).all(samples, jobs=3)}

    def results(self, *samples, **options):
        return {name: row["result"] for name, row in self.rows(*samples, **options).items()}

    def test_the_last_line_with_a_verdict_counts(self):
        self.assertEqual("passed", run.verdict_of("a failed first\nTest PASSED\n3.5 GB/s\n"))
        self.assertEqual("failed", run.verdict_of("1 passed\nResult = FAIL\n"))
        self.assertEqual("passed", run.verdict_of("0 failures\n"))
        self.assertEqual("waived", run.verdict_of("Two GPUs are required. Waiving test.\n"))
        self.assertEqual("", run.verdict_of("L1-Error: 0\nDone\n"))

    def test_the_same_on_both_sides_is_the_same_even_if_it_fails(self):
        row = self.rows(self.sample("bad", "echo FAILED to find it; exit 1\n"))["bad"]
        self.assertEqual("same", row["result"])
        self.assertEqual("native: exit 1: FAILED to find it", row["reason"])

    def test_another_exit_status_or_verdict_is_different(self):
        found = self.rows(self.sample("exit", "echo PASSED; exit ${REMOTE:-0}\n"),
                          self.sample("says", "test $REMOTE && echo FAILED; exit 0\n"),
                          self.sample("waives", "test $REMOTE && echo waived || echo passed\n"))
        self.assertEqual({"DIFFERENT"}, {row["result"] for row in found.values()})
        self.assertEqual("remote: exit 1: PASSED", found["exit"]["reason"])
        self.assertEqual("remote: exit 0: waived", found["waives"]["reason"])

    def test_the_reason_of_the_list_comes_first(self):
        row = self.rows(self.sample("known", "exit ${REMOTE:-0}\n", reason="prints times"))["known"]
        self.assertEqual(("DIFFERENT", "prints times"), (row["result"], row["reason"]))

    def test_what_differs_only_beside_others_is_the_same_with_a_note(self):
        mark = self.folder / "mark"
        row = self.rows(self.sample("once", "test $REMOTE || exit 0; test -e %s && exit 0\n"
                                            "touch %s; exit 3\n" % (mark, mark)))["once"]
        self.assertEqual(("same", 0), (row["result"], row["remote_exit"]))
        self.assertIn("exit 3", row["reason"])

    def test_a_sample_that_does_not_end_is_ended_with_its_children(self):
        mark = self.folder / "mark"
        slow = self.sample("slow", "test $REMOTE || exit 0\nsleep 600 & echo $! > %s; wait\n" % mark)
        for timeout_s in (1, 4, 16, 64):
            row = self.comparison(timeout_s=timeout_s).once(slow)
            self.assertEqual(("DIFFERENT", "timeout"), (row["result"], row["remote_exit"]))
            # A busy machine may need longer to get there.
            if mark.exists() and mark.read_text(encoding="utf-8"):
                break
        child = int(mark.read_text(encoding="utf-8"))
        until = time.monotonic() + 240
        while running(child) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(running(child))

    def test_a_signal_is_named(self):
        row = self.rows(self.sample("crash", "test $REMOTE || exit 0; kill -SEGV $$\n"))["crash"]
        self.assertEqual((-11, "remote: SIGSEGV: no output"), (row["remote_exit"], row["reason"]))

    def test_all_runs_of_a_sample_must_be_good(self):
        text = 'touch seen; test "$1" != "${REMOTE:+bad}"\n'
        found = self.rows(self.sample("one", text, ["good"], ["bad"], ["good"]),
                          self.sample("two", text, ["good"], ["good"]))
        self.assertEqual((0, 1), (found["one"]["native_exit"], found["one"]["remote_exit"]))
        self.assertEqual("same", found["two"]["result"])
        self.assertFalse((self.folder / "one" / "seen").exists())

    def test_a_run_does_not_see_what_the_other_side_wrote(self):
        sample = self.sample("writes", "test -e out && exit 1; touch out\n")
        self.assertEqual({"writes": "same"}, self.results(sample))

    def test_missing_and_not_built(self):
        found = self.rows(self.listed("none"), self.listed("gl", reason="a window", built=False))
        self.assertEqual("missing", found["none"]["result"])
        self.assertEqual(("not built", "a window"), (found["gl"]["result"], found["gl"]["reason"]))
        text, good = run.total(list(found.values()))
        self.assertFalse(good)
        self.assertIn("1 not built; not so: none", text)

    def test_remote_only(self):
        found = self.results(self.sample("good", "echo PASSED\n"), self.sample("bad", "exit 1\n"),
                             self.sample("waives", "echo waived; exit 2\n"),
                             self.sample("mute", "echo Two GPUs are required; exit 2\n"),
                             native=False)
        self.assertEqual({"good": "passed", "bad": "FAILED", "waives": "passed", "mute": "passed"},
                         found)

    def test_what_takes_too_long_natively_is_not_compared(self):
        row = self.comparison(timeout_s=0.3).once(self.sample("long", "exec sleep 30\n"))
        self.assertEqual(("too long", ""), (row["result"], row["remote_exit"]))
        text, good = run.total([row])
        self.assertTrue(good)
        self.assertIn("1 take too long natively", text)

    def test_wall_times_name_what_is_slower(self):
        def row(name, native, remote):
            return {**dict.fromkeys(run.COLUMNS, ""), "sample": name, "result": "same",
                    "native_exit": 0, "native_s": str(native), "remote_s": str(remote)}
        rows = [row("slow", 1, 4), row("fast", 4, 1), row("short", 0.01, 0.3)]
        self.assertEqual("remote wall time is 1.44 of native (geometric mean of 3); slower: slow 4.0",
                         run.wall_times(rows))
        self.assertEqual("", run.wall_times([]))

    def test_the_total_counts_those_that_pass_natively(self):
        rows = list(self.rows(
            self.sample("good", "echo PASSED\n"), self.sample("mute", "exit 0\n"),
            self.sample("worse", "exit ${REMOTE:-0}\n"), self.sample("bad", "exit 1\n"),
            self.sample("waives", "echo waived; exit 2\n")).values())
        text, good = run.total(rows)
        self.assertEqual("2 of 3 that pass natively are the same remotely; natively 1 are waived, "
                         "1 fail; 0 not built; not so: worse", text)
        self.assertFalse(good)

    def test_table_and_logs(self):
        comparison = self.comparison()
        rows = comparison.all([self.sample("good", "echo PASSED\n"),
                               self.sample("worse", "echo hello; exit ${REMOTE:-0}\n")])
        run.write_csv(self.folder / "table.csv", rows)
        with open(self.folder / "table.csv", encoding="utf-8") as file:
            read = list(csv.DictReader(file))
        self.assertEqual(["good", "worse"], [row["sample"] for row in read])
        self.assertEqual(list(run.COLUMNS), list(read[0]))
        run.write_logs(self.folder / "logs.tar.gz", comparison.logs)
        with tarfile.open(self.folder / "logs.tar.gz") as archive:
            self.assertEqual(["worse.native.txt", "worse.remote.txt"], archive.getnames())
            text = archive.extractfile("worse.remote.txt").read().decode()
        self.assertEqual("$ worse\nhello\n\n", text)

    def test_libraries_follow_ours(self):
        plain, remote = run.environments("/ours", "host:1", ["/a", "/b"])
        self.assertTrue(plain["LD_LIBRARY_PATH"].endswith("/a:/b"))
        self.assertNotIn("WARPLINE_ENDPOINT", plain)
        self.assertEqual(("/ours:/a:/b", "host:1"),
                         (remote["LD_LIBRARY_PATH"], remote["WARPLINE_ENDPOINT"]))

    def test_the_list(self):
        path = self.folder / "list.txt"
        path.write_text("# c\na -x 1\na -y\nb  # why\n- c  # no\n", encoding="utf-8")
        self.assertEqual([("a", [["-x", "1"], ["-y"]], "", True), ("b", [[]], "why", True),
                          ("c", [], "no", False)],
                         [(s.name, s.runs, s.reason, s.built) for s in run.listed_samples(path)])

    def test_every_sample_of_a_commit_is_listed_with_arguments_or_a_reason(self):
        samples = run.listed_samples()
        self.assertGreaterEqual(sum(sample.built for sample in samples), 164)
        self.assertTrue(all(sample.reason for sample in samples if not sample.built))
        self.assertRegex(run.LISTING.read_text(encoding="utf-8"), r"at commit [0-9a-f]{40}")


if __name__ == "__main__":
    unittest.main()
