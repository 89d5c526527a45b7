#!/usr/bin/env python3
import os
import pathlib
import stat
import tempfile
import unittest

import run


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sample(self, name, text):
        path = self.folder / name / name
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return (name, [])

    def compare(self, *samples):
        plain = dict(os.environ)
        rows = run.compare(self.folder, samples, plain, {**plain, "REMOTE": "1"}, timeout_s=5)
        return {row["sample"]: row["verdict"] for row in rows}

    def test_the_last_line_with_a_verdict_counts(self):
        self.assertEqual("passed", run.verdict_of("a failed first\nTest PASSED\n3.5 GB/s\n"))
        self.assertEqual("failed", run.verdict_of("1 passed\nResult = FAIL\n"))
        self.assertEqual("passed", run.verdict_of("0 failures\n"))
        self.assertEqual("", run.verdict_of("L1-Error: 0\nDone\n"))

    def test_the_same_on_both_sides_is_the_same_even_if_it_fails(self):
        self.assertEqual({"bad": "same"}, self.compare(self.sample("bad", "echo FAILED; exit 1\n")))

    def test_another_exit_status_or_verdict_is_different(self):
        found = self.compare(self.sample("exit", "echo PASSED; exit ${REMOTE:-0}\n"),
                             self.sample("says", "test $REMOTE && echo FAILED; exit 0\n"))
        self.assertEqual({"exit": "DIFFERENT", "says": "DIFFERENT"}, found)

    def test_a_sample_that_is_not_built_is_missing(self):
        self.assertEqual({"none": "missing"}, self.compare(("none", [])))

    def test_at_least_forty_samples_are_listed_once_each_at_a_commit(self):
        names = [name for name, _ in run.listed_samples()]
        self.assertGreaterEqual(len(names), 40)
        self.assertEqual(len(names), len(set(names)))
        self.assertRegex(run.LISTING.read_text(encoding="utf-8"), r"# Commit [0-9a-f]{40}\.")


if __name__ == "__main__":
    unittest.main()
