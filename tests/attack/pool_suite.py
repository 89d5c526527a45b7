"""The pool suite: what a stranger does at the ports of a scheduler and of a server that reports to it.

Ports for sessions and calls, for health checks, for metrics, and of the page. A row is stopped when
meanwhile honest programs run to their end, the operator's actions are recorded, metrics, health and
the page are answered, and afterwards no server was lost, nobody has ended, and the peak of neither
process's memory is more than 128 MiB above what it was before. How long anything took is told, and
nothing is judged by it. That rows get through without what stops them is shown by --prove
(prove_rows.py).
"""
from pool import calls, floods, servers, web
from pool.pool import GotThrough, Pool
from suite import NOT_STOPPED, STOPPED, Row

ROWS = {**floods.ROWS, **calls.ROWS, **web.ROWS, **servers.ROWS}
# When whatever does not come is given up.
GIVE_UP_S = 240


class PoolSuite:
    name = "pool"

    def __init__(self, installation, flags, give_up_s=GIVE_UP_S):
        self._pool = Pool(installation, flags, give_up_s)

    def close(self):
        self._pool.close()

    def play(self, name):
        self._pool.begin()
        try:
            did = ROWS[name](self._pool)
            return Row(self.name, name, STOPPED, "%s; %s" % (did, self._pool.judge()))
        except GotThrough as effect:
            return Row(self.name, name, NOT_STOPPED, str(effect))

    def rows(self, only=()):
        for name in ROWS:
            if not only or name in only:
                yield self.play(name)
