#!/usr/bin/env python3
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent / "test_summary.py"


def configured(label, kind="cc_test rule"):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": kind}}


def verdict(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


class TestSummary(unittest.TestCase):

    def summary(self, events, bazel_status):
        """Last line of the script's output and its exit status."""
        with tempfile.NamedTemporaryFile("w", dir=os.environ.get("TEST_TMPDIR")) as f:
            f.write("".join(json.dumps(event) + "\n" for event in events))
            f.flush()
            done = subprocess.run([sys.executable, str(SCRIPT), f.name, str(bazel_status)],
                                  stdout=subprocess.PIPE, text=True, check=False)
        return done.stdout.splitlines()[-1], done.returncode

    def test_passes(self):
        events = [configured("//a:t"), configured("//a:lib", "cc_library rule"),
                  verdict("//a:t", "PASSED")]
        self.assertEqual(("1 passed, 0 failed, 0 skipped", 0), self.summary(events, 0))

    def test_failure_and_timeout_count_as_failed(self):
        events = [verdict("//a:t", "FAILED"), verdict("//a:u", "TIMEOUT"), verdict("//a:v", "PASSED")]
        self.assertEqual(("1 passed, 2 failed, 0 skipped", 1), self.summary(events, 3))

    def test_unbuilt_test_counts_as_failed(self):
        events = [configured("//a:t"), configured("//a:u"), verdict("//a:u", "PASSED")]
        self.assertEqual(("1 passed, 1 failed, 0 skipped", 1), self.summary(events, 1))

    def test_left_out_by_its_tags_counts_as_skipped(self):
        events = [configured("//a:t"), configured("//a:u"), verdict("//a:u", "PASSED")]
        self.assertEqual(("1 passed, 0 failed, 1 skipped", 0), self.summary(events, 0))

    def test_broken_build_is_a_failure_even_without_tests(self):
        self.assertEqual(("0 passed, 1 failed, 0 skipped", 1), self.summary([], 1))

    def test_no_tests_is_no_failure(self):
        self.assertEqual(("0 passed, 0 failed, 0 skipped", 0), self.summary([], 4))

    def test_target_with_all_cases_skipped_counts_as_skipped(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            report = pathlib.Path(folder) / "test.xml"
            report.write_text("<testsuites><testcase><skipped/></testcase></testsuites>")
            result = {"id": {"testResult": {"label": "//a:t"}}, "testResult": {
                "testActionOutput": [{"name": "test.xml", "uri": report.as_uri()}]}}
            events = [configured("//a:t"), result, verdict("//a:t", "PASSED")]
            self.assertEqual(("0 passed, 0 failed, 1 skipped", 0), self.summary(events, 0))


unittest.main()
