#!/usr/bin/env python3
"""The audit: what happens on a server and a scheduler is recorded, and a record that was changed or
cut is found out."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

PROGRAM = "large_module"


class AuditTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + PROGRAM: "bench/cuda/" + PROGRAM,
             "bin/examples/vector_add": "examples/vector_add",
             "bin/examples/long_program": "tests/chaos/long_program"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="audit-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.dir = self.folder / "audit"

    def server(self, *flags):
        return harness.server(self.installation, "--audit_dir=%s" % self.dir,
                              "--module_cache_dir=%s" % (self.folder / "modules"), *flags)

    def warpline(self, *arguments, env=None):
        run = subprocess.run([str(self.installation.root / "bin/warpline"), *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=harness.GIVE_UP_S, check=False, env=dict(os.environ, **(env or {})))
        return run.returncode, run.stdout

    def audit(self, *arguments, directory=None):
        return self.warpline("audit", "--dir=%s" % (directory or self.dir), *arguments)

    def records(self, *arguments):
        status, text = self.audit("--json", *arguments)
        self.assertEqual(status, 0, text)
        return [json.loads(line) for line in text.splitlines()]

    def wait_for(self, event):
        harness.wait_until(lambda: self.dir.exists() and self.records("--event=" + event), event)
        return self.records("--event=" + event)

    def run_program(self, server):
        harness.run(self.installation, server.endpoint, PROGRAM)

    def test_what_a_session_does_is_recorded(self):
        with self.server("--max_sessions=1") as server:
            self.run_program(server)
            self.wait_for("session.closed")
            sent = self.wait_for("module.loaded")
            self.run_program(server)
            harness.wait_until(lambda: len(self.records("--event=session.closed")) == 2, "closed")
            holder = harness.start_held(self.installation, server.endpoint, "long_program", "--words=1024")
            harness.wait_until(lambda: len(self.records("--event=session.opened")) == 3, "opened")
            status, _, stderr = harness.finish(
                harness.start(self.installation, server.endpoint, "vector_add"))
            self.assertNotEqual(status, 0, stderr)
            refused = self.wait_for("session.refused")
            self.assertIn("the server is full: 1 sessions", refused[0]["reason"])
            self.assertRegex(refused[0]["peer"], "^unix:uid=[0-9]+$")
            status, output = self.warpline("replace", "--endpoint=" + server.endpoint)
            self.assertEqual(status, 0, output)
            self.assertEqual(self.wait_for("admin.replace")[0]["outcome"], "OK")
            self.wait_for("worker.replaced")
            for worker in harness.server_processes(server.pid, "warpline-worker"):
                os.kill(worker, signal.SIGKILL)
            died = self.wait_for("worker.died")
            session = self.records("--event=session.opened")[2]["session"]
            self.assertEqual(died[0]["session"], session)
            holder.kill()
            holder.communicate()
        opened = self.records("--event=session.opened")
        self.assertEqual([record["program"] for record in opened],
                         [PROGRAM, PROGRAM, "long_program"])
        # The second time the server had the module: it is known by the same hash.
        loaded = [record for record in self.records("--event=module")
                  if record["sha256"] == sent[0]["sha256"]]
        self.assertEqual([record["from"] for record in loaded], ["client", "cache"])
        self.assertTrue((self.folder / "modules").is_dir())
        stored = [path.name for path in (self.folder / "modules").rglob("*")
                  if len(path.name) == 64]
        self.assertIn(sent[0]["sha256"], stored)
        # What people read, filtered.
        status, text = self.audit("--session=%d" % opened[0]["session"], "--since=1h")
        self.assertEqual(status, 0, text)
        self.assertIn("session.opened session=%d" % opened[0]["session"], text)
        self.assertIn("program=" + PROGRAM, text)
        self.assertNotIn("long_program", text)
        self.assertEqual(self.records("--event=server")[-1]["event"], "server.stopped")
        self.assertEqual(self.audit("--verify")[0], 0)

    def test_every_module_is_recorded_by_its_hash(self):
        # A small one does not pass the server's store, and without a store none does.
        for store in ("modules", None):
            flags = () if store else ("--module_cache_dir=none",)
            with self.server(*flags) as server:
                harness.run(self.installation, server.endpoint, "vector_add")
                self.run_program(server)
                harness.wait_until(
                    lambda: self.dir.exists() and
                    len(self.records("--event=session.closed")) == 2, "closed")
            loaded = [record for record in self.records("--event=module.loaded")
                      if record["from"] == "worker"]
            sizes = [record["bytes"] for record in loaded]
            self.assertTrue(any(size < 16384 for size in sizes), sizes)
            self.assertEqual(any(size >= 16384 for size in sizes), store is None, sizes)
            for record in loaded:
                self.assertRegex(record["sha256"], "^[0-9a-f]{64}$")
            # Each once in its session.
            named = [(record["session"], record["sha256"]) for record in loaded]
            self.assertEqual(len(named), len(set(named)))
            shutil.rmtree(self.dir)

    def test_a_change_a_cut_and_a_missing_file_are_found(self):
        with self.server("--audit_anchor_interval=1s") as server:
            self.run_program(server)
            closed = self.wait_for("session.closed")[0]["seq"]

            def anchors_in_log():
                found = re.findall(r"audit anchor=(\d+:[0-9a-f]{64})", server.log())
                return [anchor for anchor in found if int(anchor.split(":")[0]) >= closed]

            harness.wait_until(anchors_in_log, "an anchor behind the session")
            anchors = anchors_in_log()
        self.assertEqual(self.audit("--verify", "--anchor=" + anchors[-1])[0], 0)
        # A restart goes on in the same file.
        with self.server() as server:
            self.assertIn("audit dir=", server.log_tail())
        status, text = self.audit("--verify", "--anchor=" + anchors[-1])
        self.assertEqual(status, 0, text)
        path = self.dir / "audit-00000001.jsonl"
        self.assertEqual(list(self.dir.glob("*.jsonl")), [path])
        good = path.read_bytes()
        lines = good.splitlines(keepends=True)
        for bad, anchor in ((good.replace(PROGRAM.encode(), b"other_module", 1), None),
                            (b"".join(lines[:2] + lines[3:]), None),
                            (b"".join(lines[:2]), anchors[-1])):
            self.assertNotEqual(bad, good)
            path.write_bytes(bad)
            found = self.audit("--verify", *(["--anchor=" + anchor] if anchor else []))
            self.assertEqual(found[0], 1, found[1])
            self.assertRegex(found[1], r"^audit-00000001.jsonl")
        # A server that finds its record changed says so, and goes on.
        path.write_bytes(b"".join(lines[:2] + lines[3:]))
        with self.server() as server:
            self.run_program(server)
            self.assertIn("a new chain begins", server.log_tail())
        self.assertEqual(len(self.records("--event=audit.broken")), 1)
        self.assertEqual(self.audit("--verify")[0], 1)
        path.unlink()
        status, text = self.audit("--verify")
        self.assertEqual(status, 1)
        shutil.rmtree(self.dir)
        self.assertEqual(self.audit("--verify")[0], 3)

    def test_a_flood_of_refusals_is_counted_and_does_not_fill_the_disk(self):
        with self.server("--max_sessions=1") as server:
            holder = harness.start_held(self.installation, server.endpoint, "long_program", "--words=1024")
            self.wait_for("session.opened")
            for _ in range(110):
                harness.finish(harness.start(self.installation, server.endpoint, "vector_add"))
            holder.kill()
            holder.communicate()
        refused = self.records("--event=session.refused")
        self.assertLess(len(refused), 110)
        counted = sum(record.get("left_out", 0) for record in self.records())
        self.assertGreaterEqual(len(refused) + counted, 110)

    def test_a_required_record_that_cannot_be_written_ends_the_start(self):
        blocked = self.folder / "file"
        blocked.write_text("")
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline-server"), "--device=cpu",
             "--listen=127.0.0.1:0", "--audit=required", "--audit_dir=%s" % (blocked / "audit")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("audit's record", run.stdout)
        # Best effort goes on without.
        with harness.server(self.installation, "--audit_dir=%s" % (blocked / "audit")) as server:
            self.assertIn("no audit is recorded", server.log_tail())
            self.run_program(server)

    def test_operators_are_recorded_where_there_is_a_scheduler_and_it_has_the_anchor(self):
        recorded = self.folder / "scheduler_audit"
        scheduler = harness.Scheduler(self.installation, "--audit_dir=%s" % recorded)
        self.addCleanup(scheduler.close)

        credential = scheduler.folder / "state/operator.credential"
        as_operator = {"WARPLINE_OPERATOR_CREDENTIAL_FILE": str(credential)}

        def anchor():
            text = self.warpline("servers", "--endpoint=" + scheduler.endpoint, env=as_operator)[1]
            found = re.search(r"\b(\d+:[0-9a-f]{64})\b", text)
            return found[1] if found else None

        def serve(*flags):
            server = self.server("--scheduler=" + scheduler.endpoint, "--name=a", *flags)
            server.__enter__()
            self.addCleanup(server.__exit__, None, None, None)
            return server

        # Leaving a server would end the scheduler with it.
        first = serve()
        harness.wait_until(anchor, "an anchor at the scheduler")
        os.kill(first.pid, signal.SIGTERM)
        harness.wait_until(lambda: not first.running(), "the server ends")
        self.assertEqual(self.audit("--verify", "--anchor=" + anchor())[0], 0)

        def verify():
            run = subprocess.run(
                [str(self.installation.root / "bin/warpline"), "audit", "--verify",
                 "--dir=%s" % self.dir, "--scheduler=" + scheduler.endpoint, "--server=a"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S,
                check=False, env=dict(os.environ, **as_operator))
            return run.returncode, run.stdout

        self.assertEqual(verify()[0], 0)
        # What was cut off is found by the scheduler's word alone.
        path = sorted(self.dir.glob("*.jsonl"))[-1]
        before = int(anchor().split(":")[0]) - 1
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:before]))
        self.assertEqual(self.audit("--verify")[0], 0)
        status, text = verify()
        self.assertEqual(status, 1, text)
        # The server comes back with less than it had.
        shutil.rmtree(self.dir)
        serve("--audit_dir=none")
        harness.wait_until(
            lambda: re.search("the audit of server=a lost records", scheduler.log()), "a warning")
        for arguments, code in ((["add", "acme"], 0), (["remove", "acme"], 0),
                                (["remove", "acme"], 1)):
            status, text = self.warpline(
                "tenant", *arguments, "--endpoint=" + scheduler.endpoint, env=as_operator)
            self.assertEqual(status, code, text)
        scheduler.process.terminate()
        self.assertEqual(scheduler.process.wait(harness.GIVE_UP_S), 0, scheduler.log())
        status, text = self.audit("--json", directory=recorded)
        self.assertEqual(status, 0, text)
        tenants = [json.loads(line) for line in text.splitlines() if "admin.tenant" in line]
        self.assertEqual([(record["action"], record["name"], record["outcome"])
                          for record in tenants],
                         [("add", "acme", "OK"), ("remove", "acme", "OK"),
                          ("remove", "acme", "NOT_FOUND")])
        self.assertNotIn(credential.read_text().strip(), text)


if __name__ == "__main__":
    unittest.main()
