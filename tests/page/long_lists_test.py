#!/usr/bin/env python3
"""A pool as large as the constants promise: every list of it is told, whole, in parts, and no server
is lost by the size of its reports."""
import json
import re
import sqlite3
import unittest

import pool as pools

# These are the scheduler's: SchedulerOptions, kMaxTenants, kMaxSlices, kMostReportedSessions.
LEASES, SERVERS, TENANTS, SLICES, SESSIONS = 65536, 4096, 4096, 1024, 8192


def multiply(database, kind, template, names):
    """Writes the record of `kind` that is called `template` again, once for each of `names`."""
    value, = database.execute("SELECT value FROM records WHERE key = ?",
                              ("%s/%s" % (kind, template),)).fetchone()
    database.executemany("INSERT INTO records VALUES (?, ?)",
                         (("%s/%s" % (kind, name), value) for name in names))


class LongListsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # However slow the machine is, no lease ends and no server counts as silent meanwhile.
        cls.pool = pools.Pool(["--lease_ttl=1h", "--lost_after=60s"])
        cls.addClassCleanup(cls.pool.close)
        pool = cls.pool
        pool.add_tenant("tenant", "--max_leases=0", "--slices=any")
        pool.warpline("slice", "add", "slice", "--memory=2MiB")
        # Large enough for all leases.
        pool.add_server("server", 8, 16384)
        pool.lease("tenant", 1)
        lease = json.loads(pool.warpline("lease", "list", "--json"))["leases"][0]["id"]
        pool.filler.stdin.close()
        pool.filler.wait()
        pool.filler.stdout.close()
        pool.filler = None
        pool.process.terminate()
        pool.process.wait()
        path, = (pool.folder / "state").glob("*.db")
        with sqlite3.connect(path) as database:
            multiply(database, "leases", lease, ("%032x" % i for i in range(1, LEASES)))
            multiply(database, "tenants", "tenant", ("t%d" % i for i in range(1, TENANTS)))
            multiply(database, "slices", "slice", ("s%d" % i for i in range(1, SLICES)))
            multiply(database, "credentials", "server", ("v%d" % i for i in range(1, SERVERS)))
        database.close()
        pool.start()
        pool.fill("server", "server", 8, 16384, pool.warpline("servers", "renew", "server"))
        pool.fill("sessions", "server", SESSIONS)

    def list_of(self, *command):
        return json.loads(self.pool.warpline(*command, "--json"))

    def check(self, listed, key, count):
        self.assertEqual(len(listed), count)
        self.assertEqual(len({entry[key] for entry in listed}), count)

    def test_leases(self):
        listed = self.list_of("lease", "list")
        self.check(listed["leases"], "id", LEASES)
        self.assertFalse("next" in listed)
        self.assertEqual(len(self.pool.warpline("lease", "list").splitlines()), LEASES + 1)

    def test_tenants(self):
        listed = self.list_of("tenant", "list")["tenants"]
        self.check(listed, "name", TENANTS)
        self.assertEqual({entry["name"]: entry["leases"] for entry in listed if entry.get("leases")},
                         {"tenant": LEASES})

    def test_slices(self):
        self.check(self.list_of("slice", "list")["slices"], "name", SLICES)

    def test_servers(self):
        listed = self.list_of("servers")["servers"]
        self.check(listed, "name", SERVERS)
        self.assertEqual([entry["leases"] for entry in listed if entry["name"] == "server"],
                         [LEASES])

    def test_sessions(self):
        def told():
            return len(self.list_of("ps").get("sessions", []))
        pools.wait_until(lambda: told() == SESSIONS, lambda: "%d sessions" % told())
        listed = self.list_of("ps")["sessions"]
        self.check(listed, "id", SESSIONS)
        self.assertEqual(len(self.pool.warpline("ps").splitlines()), SESSIONS + 1)
        self.assertIn("%d sessions" % SESSIONS, self.pool.warpline("top", "--once").splitlines()[0])
        self.assertEqual(len(re.findall(r"^session ", self.pool.warpline("stat"), re.M)), SESSIONS)
        # All the time its reports were heard.
        self.assertEqual(re.findall("lost server=.*", self.pool.log()), [])
        state, = [entry["state"] for entry in self.list_of("servers")["servers"]
                  if entry["name"] == "server"]
        self.assertEqual(state, "up")

    def test_the_page_shows_them(self):
        status, _, body = self.pool.get(credential=self.pool.operator)
        self.assertEqual(status, 200)
        self.assertIn(b"server", body)


if __name__ == "__main__":
    unittest.main()
