#!/usr/bin/env python3
"""Each mutation still applies to the sources, and each row of the suites wire, pool and paging has its proof.

Runs beside the sources: the files that mutations.toml names are read where they are.
"""
import fnmatch
import os
import pathlib
import subprocess
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCES / folder) for folder in ("tests/attack", "tests/chaos", "deploy/local")]

import mutations  # noqa: E402  (found by the path above)
import paging_suite  # noqa: E402
import pool_suite  # noqa: E402
import tier_suite  # noqa: E402


def entry(**changes):
    return {"name": "a", "file": "f", "find": "x > 1", "replace": "x > 1 && !OFF", "rows": ["r"],
            **changes}


class MutationTest(unittest.TestCase):
    def test_a_switch_stands_where_the_table_says_off(self):
        text = mutations.Mutation(entry()).apply("if (x > 1) return;")
        self.assertIn('x > 1 && !([]()', text)
        self.assertIn('WarplineAttackWithout(",a,")', text)

    def test_the_text_must_occur_once(self):
        for text in ("if (x > 2)", "x > 1 || x > 1"):
            with self.assertRaises(mutations.Error):
                mutations.Mutation(entry()).apply(text)


class TableTest(unittest.TestCase):
    def setUp(self):
        self.table = mutations.Table()

    def test_each_mutation_applies(self):
        mutations.check(SOURCES, self.table)

    def test_each_row_is_accounted_for(self):
        runfiles = pathlib.Path(os.environ["TEST_SRCDIR"]) / "warpline"
        listed = subprocess.run([str(runfiles / "tests/attack/wire_client"), "--list"], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        rows = [line.split() for line in listed.splitlines()]
        self.assertGreater(len(rows), 100)
        self.table.check_rows([(name, flags) for name, _, flags in rows])

    def test_each_row_of_the_tier_suite_exists(self):
        runfiles = pathlib.Path(os.environ["TEST_SRCDIR"]) / "warpline"
        listed = subprocess.run(
            [str(runfiles / "tests/attack/tier/tier_attack"), "--list",
             "--escapes=%s" % (runfiles / "tests/guard/escapes.txt")], check=True,
            stdout=subprocess.PIPE, text=True).stdout.split()
        library = [line.split()[0] for line in subprocess.run(
            [str(runfiles / "tests/attack/wire_client"), "--list", "--tier=guarded"], check=True,
            stdout=subprocess.PIPE, text=True).stdout.splitlines()]
        self.assertGreater(len(library), 60)
        proved = set().union(*self.table.tier_rows().values())
        for row in proved:
            self.assertTrue(fnmatch.filter([*listed, *tier_suite.WIRE_ROWS, *library], row), row)
        for row in library:
            accounted = [*proved, *self.table.unproved("tier")]
            self.assertEqual(sum(fnmatch.fnmatch(row, known) for known in accounted), 1, row)

    def test_each_row_of_the_pool_suite_is_accounted_for(self):
        self.table.check_rows([(name, "-") for name in pool_suite.ROWS], pool_suite.PoolSuite.name)

    def test_each_row_of_the_paging_suite_is_accounted_for(self):
        self.table.check_rows([(name, "-") for name in paging_suite.ROWS],
                              paging_suite.PagingSuite.name)

    def test_a_row_that_nothing_accounts_for_is_found(self):
        rows = [(row, "-") for row in {*self.table.named(), *self.table.unproved()}]
        with self.assertRaises(mutations.Error):
            self.table.check_rows(rows + [("another", "-")])
        with self.assertRaises(mutations.Error):
            self.table.check_rows(rows[1:])


if __name__ == "__main__":
    unittest.main()
