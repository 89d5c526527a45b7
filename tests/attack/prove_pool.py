"""Shows of each row of the pool suite that it gets through without the defences that stop it.

The programs are those of a tree with mutations.toml built in (mutations.py). Each row is made against a
scheduler and a server of its own without the row's defences: then it must have its effect, on a pool
that served everybody before. ./dev attack --prove --suite=pool.
"""
import os

import local_server
import mutations
from pool_suite import ROWS, PoolSuite
from suite import STOPPED

# Some rows wait, without their defences, for what does not come.
GIVE_UP_S = 60


class PoolProver:
    """`installation` has the clients and, in the place of the server's programs, mutated ones."""

    def __init__(self, installation, flags):
        self._installation, self._flags = installation, flags
        self._table = mutations.Table()
        self._table.check_rows([(name, "-") for name in ROWS], PoolSuite.name)

    def _play(self, name, defences):
        os.environ[mutations.VARIABLE] = ",%s," % ",".join(defences)
        try:
            suite = PoolSuite(self._installation, self._flags, GIVE_UP_S)
            try:
                return suite.play(name)
            finally:
                suite.close()
        finally:
            del os.environ[mutations.VARIABLE]

    def prove(self, only):
        """Prints a line a row. Returns whether all are proved that can be, and there are any."""
        through = made = reasons = 0
        for name in ROWS:
            if only and name not in only:
                continue
            reason = self._table.unproved(PoolSuite.name).get(name)
            if reason is not None:
                reasons += 1
                print("prove: pool %s: no proof (%s)" % (name, reason), flush=True)
                continue
            defences = self._table.defences_of(name, PoolSuite.name)
            made += 1
            try:
                row = self._play(name, defences)
                is_through, detail = row.verdict != STOPPED, row.detail
            except local_server.Error as error:
                is_through, detail = False, "not prepared: %s" % error
            through += is_through
            print("prove: pool %s: %s (without %s; %s)" % (
                name, "gets through" if is_through else "NOT PROVED", ", ".join(defences), detail),
                flush=True)
        print("proved: %d of %d rows of the pool get through without their defence (%d without a proof)"
              % (through, made, reasons))
        return through == made and (made > 0 or bool(only))
