#!/usr/bin/env python3
import csv
import os
import pathlib
import stat
import tempfile
import unittest

import run


def lines(*rows):
    return [run.Line(*row) for row in rows]


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return run.run_program(path, dict(os.environ))

    def test_a_call_is_as_good_as_its_worst_check(self):
        summary = run.summarize(lines(("a", "1", "ok", ""), ("a", "2", "FAIL", "why"),
                                      ("b", "1", "ok", ""), ("b", "2", "refused", "801"),
                                      ("c", "1", "refused", "801"), ("d", "1", "ok", "")))
        self.assertEqual({"a": "FAIL", "b": "partly refused", "c": "refused", "d": "ok"},
                         {call: verdict for call, (verdict, _) in summary.items()})
        self.assertEqual("2: why", summary["a"][1])

    def test_a_program_that_says_nothing_of_its_end_fails(self):
        found = self.program("printf 'a\\t1\\tok\\t\\n'; kill -9 $$\n")
        self.assertEqual(["ok", "FAIL"], [line.verdict for line in found])

    def test_a_program_that_ends_well_has_its_own_lines_only(self):
        found = self.program("printf 'a\\t1\\tok\\t\\ntotal\\tp\\tok\\t1 ok\\n'\n")
        self.assertEqual(lines(("a", "1", "ok", "")), found)

    def test_a_run_replaces_its_own_column_and_reasons_only(self):
        table = {}
        run.merge(table, "native", {"a": ("ok", ""), "gone": ("ok", "")})
        run.merge(table, "cpu", {"a": ("FAIL", "x: y"), "b": ("refused", "801")})
        run.merge(table, "cpu", {"a": ("refused", "z"), "b": ("ok", "")})
        run.merge(table, "native", {"a": ("ok", "")})
        self.assertEqual({"call": "a", "native": "ok", "remote": "", "cpu": "refused",
                          "reason": "cpu: z"}, table["a"])
        self.assertEqual("", table["b"]["reason"])
        self.assertNotIn("gone", table)

    def test_the_table_survives_its_file(self):
        table = {}
        run.merge(table, "cpu", {"a": ("FAIL", "x, \"y\" | z")})
        path = self.folder / "conformance.csv"
        run.write_table(path, table)
        self.assertEqual(table, run.read_table(path))
        with open(path, newline="", encoding="utf-8") as file:
            self.assertEqual(list(run.COLUMNS), next(csv.reader(file)))
        self.assertIn("| a |", path.with_suffix(".md").read_text(encoding="utf-8"))

    def test_only_what_became_worse_disagrees(self):
        table = {}
        run.merge(table, "cpu", {"a": ("ok", ""), "b": ("FAIL", "x"), "c": ("refused", "801")})
        worse, better = run.disagreements(
            table, "cpu", {"a": ("FAIL", "y"), "b": ("ok", ""), "c": ("refused", "801"),
                           "d": ("FAIL", "z"), "e": ("ok", "")})
        self.assertEqual(2, len(worse))
        self.assertEqual(["b"], better)

    def test_a_call_that_is_no_longer_checked_disagrees(self):
        table = {}
        run.merge(table, "cpu", {"a": ("ok", "")})
        worse, _ = run.disagreements(table, "cpu", {})
        self.assertEqual(1, len(worse))


if __name__ == "__main__":
    unittest.main()
