#!/usr/bin/env python3
"""Tests of compare.py with commands that print figures as the benchmark does."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare  # pylint: disable=wrong-import-position


def printing(*figures):
    lines = "".join(
        "print('%s');" % json.dumps(dict(zip(("name", "value", "unit"), figure)))
        for figure in figures)
    return '%s -c "%s"' % (sys.executable, lines.replace('"', '\\"'))


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = compare.main(list(arguments))
    return status, out.getvalue(), err.getvalue()


class CompareTest(unittest.TestCase):

    def test_other_lines_are_no_figures(self):
        figures = compare.parse_figures('hello\n{broken\n{"name": "a", "value": 2, "unit": "us"}\n')
        self.assertEqual(figures, {"a": (2.0, "us")})

    def test_figures_are_medians_of_the_runs(self):
        runs = [{"x": (value, "us")} for value in (1.0, 50.0, 3.0)]
        (row,) = compare.merge({"native": [{"x": (1.5, "us")}], "control": [], "remote": runs})
        self.assertEqual(row["remote"], 3.0)
        self.assertEqual(row["ratio"], 2.0)
        self.assertEqual(row["remote_runs"], [1.0, 50.0, 3.0])

    def test_table_has_native_remote_and_peer(self):
        status, out, _ = run("--native=" + printing(("launch_sync", 8, "us")),
                             "--remote=" + printing(("launch_sync", 16, "us")), "--runs=1")
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines()[1].split(),
                         ["launch_sync", "us", "8", "16", "2x", "1.6x", "missed", "5.36x"])

    def test_the_control_says_what_native_programs_differ_by(self):
        both = printing(("launch_sync", 8, "us"))
        status, out, _ = run("--native=" + both, "--remote=" + both, "--runs=3")
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines()[1].split(),
                         ["launch_sync", "us", "8", "8", "1x", "0", "1.6x", "met", "5.36x"])

    def test_without_a_gpu_the_remote_column_stands_alone(self):
        status, out, err = run("--native=false", "--remote=" + printing(("init", 5, "ms")),
                               "--runs=2")
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines()[0].split(), ["figure", "unit", "remote"])
        self.assertIn("remote column alone", err)

    def test_a_failing_remote_fails(self):
        status, _, err = run("--remote=false")
        self.assertEqual(status, 1)
        self.assertIn("remote", err)

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            status, _, _ = run("--json=" + path, "--runs=1", "--remote=" + printing(("init", 5, "ms")))
            self.assertEqual(status, 0)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)[0]["remote"], 5.0)


if __name__ == "__main__":
    unittest.main()
