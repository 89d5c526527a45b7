"""Shows of each row of the suites pool and paging that it gets through without the defences that stop it.

The programs are those of a tree with mutations.toml built in (mutations.py). Each row is made against a
server of its own (in the suite pool with its scheduler) without the row's defences: then it must have
its effect, on a server that served everybody before. ./dev attack --prove --suite=pool|paging.
"""
import os

import local_server
import mutations
import paging_suite
import pool_suite
from suite import NOT_HERE, STOPPED

# Some rows wait, without their defences, for what does not come.
GIVE_UP_S = 60


class RowProver:
    """`installation` has the clients and, in the place of the server's programs, mutated ones."""

    suite, rows = None, {}

    def __init__(self, installation, flags):
        self._installation, self._flags = installation, flags
        self._table = mutations.Table()
        self._table.check_rows([(name, "-") for name in self.rows], self.suite.name)

    def _play(self, name, defences):
        os.environ[mutations.VARIABLE] = ",%s," % ",".join(defences)
        try:
            suite = self.suite(self._installation, self._flags, GIVE_UP_S)
            try:
                return suite.play(name)
            finally:
                suite.close()
        finally:
            del os.environ[mutations.VARIABLE]

    def prove(self, only):
        """Prints a line a row. Returns whether all are proved that can be, and there are any."""
        through = made = reasons = 0
        for name in self.rows:
            if only and name not in only:
                continue
            reason = self._table.unproved(self.suite.name).get(name)
            if reason is not None:
                reasons += 1
                print("prove: %s %s: no proof (%s)" % (self.suite.name, name, reason), flush=True)
                continue
            defences = self._table.defences_of(name, self.suite.name)
            made += 1
            try:
                row = self._play(name, defences)
                is_through = row.verdict not in (STOPPED, NOT_HERE) and not row.unprepared
                detail = row.detail
            except local_server.Error as error:
                is_through, detail = False, "not prepared: %s" % error
            through += is_through
            print("prove: %s %s: %s (without %s; %s)" % (
                self.suite.name, name, "gets through" if is_through else "NOT PROVED",
                ", ".join(defences), detail), flush=True)
        print("proved: %d of %d rows of the suite %s get through without their defence (%d without a proof)"
              % (through, made, self.suite.name, reasons))
        return through == made and (made > 0 or bool(only))


class PoolProver(RowProver):
    suite, rows = pool_suite.PoolSuite, pool_suite.ROWS


class PagingProver(RowProver):
    suite, rows = paging_suite.PagingSuite, paging_suite.ROWS
