"""Shows of rows of the tier suite that they get through without the defences that stop them.

The server programs are those of a tree with mutations.toml built in (mutations.py). Rows that the same
defences stop are made against one server without these, one after another: in each the attacker must
get something of a neighbour's, or the neighbour be disturbed. ./dev attack --prove --suite=tier.
"""
import os

import mutations
from suite import STOPPED
from tier_suite import NOT_PREPARED, TierSuite

NEIGHBOURS = 2


class TierProver:
    """`installation` has the clients and, in the place of the server's programs, mutated ones."""

    def __init__(self, installation, flags):
        self._installation, self._flags = installation, flags
        self._groups = mutations.Table().tier_rows()

    def _rows(self, defences, rows):
        os.environ[mutations.VARIABLE] = ",%s," % ",".join(defences)
        try:
            suite = TierSuite(self._installation, self._flags)
            suite.neighbours, suite.jobs = NEIGHBOURS, 1
            yield from suite.rows(rows)
        finally:
            del os.environ[mutations.VARIABLE]

    def prove(self, only):
        """Prints a line a row. Returns whether all are proved, and there are any."""
        through = made = 0
        for defences, rows in self._groups.items():
            wanted = {row for row in rows if not only or row in only}
            for row in self._rows(defences, wanted) if wanted else ():
                is_through = row.verdict != STOPPED and NOT_PREPARED not in row.detail
                through, made = through + is_through, made + 1
                print("prove: tier %s: %s (without %s; %s)" % (
                    row.name, "gets through" if is_through else "NOT PROVED",
                    ", ".join(defences), row.detail), flush=True)
        print("proved: %d of %d rows of the tier get through without their defence" % (through, made))
        return through == made and (made > 0 or bool(only))
