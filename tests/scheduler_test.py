#!/usr/bin/env python3
"""Leases end to end: a scheduler, two servers on the CPU device, and `warpline run`."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import unittest

import harness


class PoolTest(unittest.TestCase):
    """A pool of its own for each test."""

    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/examples/vector_add": "examples/vector_add",
            "bin/examples/lease_tree": "tests/cuda/lease_tree"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(self.scheduler.close)
        self.servers = [self.serve("a"), self.serve("b")]

    def serve(self, name, *flags):
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=" + name, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=" + name in self.scheduler.log(), "server is up")
        return server

    def serve_with_credential(self, name):
        path = self.scheduler.folder / ("credential-" + name)
        path.write_text(self.warpline("servers", "add", name))
        return self.serve(name, "--scheduler_credential_file=%s" % path)

    def stop_servers(self):
        # Leaving a Server would end everything that this process has started.
        for server in self.servers:
            os.kill(server.pid, signal.SIGTERM)
            harness.wait_until(lambda: not server.running(), "the server ends")

    def environment(self, **more):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"], env["LD_LIBRARY_PATH"]
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(
            self.scheduler.folder / "state/operator.credential")
        env.update(more)
        return env

    def warpline(self, *arguments, endpoint=None, status=0, **env):
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline"), *self.with_endpoint(arguments, endpoint)],
            env=self.environment(**env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def with_endpoint(self, arguments, endpoint):
        verbs = 1 if arguments[0] == "run" else len(
            [a for a in arguments[:2] if not a.startswith("-")])
        return [*arguments[:verbs], "--endpoint=" + (endpoint or self.scheduler.endpoint),
                *arguments[verbs:]]

    def start_run(self, *arguments, endpoint=None, **env):
        process = subprocess.Popen(
            [str(self.installation.root / "bin/warpline"),
             *self.with_endpoint(["run", *arguments], endpoint)],
            env=self.environment(**env), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        def end():
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
            process.stderr.close()

        self.addCleanup(end)
        return process

    def tree(self, *flags):
        return [str(self.installation.root / "bin/examples/lease_tree"), *flags]

    def start_tree(self, **env):
        """Four processes at work until the tree is finished, in sessions of one lease."""
        process = self.start_run("--memory=4GiB", *self.tree("--held=1", "--share_mib=64"), **env)
        harness.await_held(process, "lease_tree")
        return process

    def vector_add(self):
        return str(self.installation.root / "bin/examples/vector_add")

    def leases(self, state="active"):
        listed = json.loads(self.warpline("lease", "list", "--json"))["leases"]
        return [lease for lease in listed if lease["state"] == state]

    def wait_for_sessions(self, count):
        harness.wait_until(
            lambda: [lease["sessions"] for lease in self.leases()] == [count], "sessions run")

    # --- The quota.

    def test_tree_of_processes_shares_one_quota(self):
        out = self.warpline("run", "--memory=4GiB", "--", *self.tree())
        self.assertIn("lease_tree: ok (4 processes, 4 GiB)", out)
        self.assertEqual(self.leases(), [])

    def test_tree_shares_one_quota_on_a_server_without_scheduler(self):
        with harness.server(self.installation) as server:
            out = self.warpline("run", "--memory=4GiB", "--", *self.tree(),
                                endpoint=server.endpoint)
            self.assertIn("lease_tree: ok (4 processes, 4 GiB)", out)

    def test_leases_spread_and_the_pool_is_not_overbooked(self):
        capacity = [int(device["capacity_bytes"]) for server in
                    json.loads(self.warpline("servers", "--json"))["servers"]
                    for device in server["devices"]]
        most = "--memory=%d" % (max(capacity) // (2 << 20) * (2 << 20))
        held = [self.start_run(most, "sleep", "600") for _ in range(2)]
        harness.wait_until(lambda: len(self.leases()) == 2, "two leases")
        self.assertEqual({lease["server"] for lease in self.leases()}, {"a", "b"})
        error = self.warpline("run", most, "true", status=1)
        self.assertIn("no capacity", error)
        for process in held:
            process.terminate()
            self.assertEqual(process.wait(harness.GIVE_UP_S), 128 + signal.SIGTERM)
        self.warpline("run", most, "true")

    # --- Waiting, gangs, and servers that are taken out.

    def whole_device(self):
        capacity = [int(device["capacity_bytes"]) for server in
                    json.loads(self.warpline("servers", "--json"))["servers"]
                    for device in server["devices"]]
        return "--memory=%d" % (min(capacity) // (2 << 20) * (2 << 20))

    def test_run_waits_until_there_is_room(self):
        whole = self.whole_device()
        held = [self.start_run(whole, "sleep", "600") for _ in range(2)]
        harness.wait_until(lambda: len(self.leases()) == 2, "two leases")
        self.assertIn("within 1s", self.warpline("run", "--wait=1s", whole, "true", status=1))
        interrupted = self.start_run("--wait", whole, "uname")
        harness.wait_until(lambda: "waits tenant=default program=\"uname\"" in self.scheduler.log(), "it waits")
        waits = self.start_run("--wait", whole, "echo", "ran")
        harness.wait_until(lambda: "waits tenant=default program=\"echo\"" in self.scheduler.log(),
                           "both wait")
        interrupted.send_signal(signal.SIGINT)
        self.assertEqual(interrupted.wait(harness.GIVE_UP_S), 128 + signal.SIGINT)
        held[0].terminate()
        self.assertEqual(waits.wait(harness.GIVE_UP_S), 0)
        self.assertEqual(waits.stdout.read(), "ran\n")
        self.assertIn("waiting for a lease, about number ", waits.stderr.read())
        self.assertIsNone(held[1].poll())
        error = self.warpline("run", "--wait", "--memory=64TiB", "true", status=1)
        self.assertIn("no server could ever have it", error)

    def test_gang_gets_its_leases_at_once(self):
        whole = self.whole_device()
        gang = ["--wait", "--gang=g", "--members=2", whole, "sleep", "600"]
        first = self.start_run(*gang)
        harness.wait_until(lambda: "1 have not asked yet" in self.scheduler.log(), "one waits")
        self.assertEqual(self.leases(), [])
        second = self.start_run(*gang)
        harness.wait_until(lambda: len(self.leases()) == 2, "two leases")
        self.assertEqual({lease["server"] for lease in self.leases()}, {"a", "b"})
        for process in (first, second):
            self.assertIsNone(process.poll())

    def test_server_is_cordoned_and_drained(self):
        self.warpline("servers", "cordon", "a", "--reason=a fan is loud")
        self.assertIn("cordoned (a fan is loud)", self.warpline("servers"))
        runs = self.start_run("--memory=1GiB", "sleep", "600")
        harness.wait_until(self.leases, "the lease")
        self.assertEqual(self.leases()[0]["server"], "b")
        self.warpline("servers", "drain", "b", "--within=2s", "--reason=new disks")
        harness.wait_until(lambda: self.leases("revoked"), "the lease ends")
        self.assertIn("server b is being drained: new disks", self.leases("revoked")[0]["reason"])
        self.assertIsNone(runs.poll())
        self.assertIn("every server that is up is cordoned",
                      self.warpline("run", "--memory=1GiB", "true", status=1))
        self.warpline("servers", "uncordon", "b")
        self.warpline("run", "--memory=1GiB", "true")
        self.assertIn("there is no server", self.warpline("servers", "cordon", "c", status=1))

    # --- Several devices.

    def devices_of(self, *options, endpoint=None, **env):
        """The UUIDs that a program sees under a lease."""
        out = self.warpline("run", *options, "--", str(self.installation.root / "bin/warpline"),
                            "devices", endpoint=endpoint, **env)
        return [line.split()[1] for line in out.splitlines() if line.startswith("uuid ")]

    def test_lease_of_several_devices_is_on_one_server(self):
        self.assertIn("no capacity", self.warpline("run", "--gpus=2", "true", status=1))
        self.serve("pair", "--device=cpu:2")
        both = self.devices_of("--gpus=2", "--memory=1GiB")
        self.assertEqual(len(set(both)), 2)
        self.assertEqual(self.devices_of("--device=%s,%s" % (both[1], both[0])), both[::-1])
        self.assertEqual(self.devices_of("--device=" + both[1]), both[1:])
        process = self.start_run("--gpus=2", "--memory=1GiB", "sleep", "600")
        harness.wait_until(self.leases, "the lease")
        lease = self.leases()[0]
        self.assertEqual((lease["server"], lease["device"]), ("pair", ",".join(both)))
        self.assertIn(",".join(both), self.warpline("lease", "list"))
        leased = {server["name"]: int(server["leased_bytes"]) for server in
                  json.loads(self.warpline("servers", "--json"))["servers"]}
        self.assertEqual(leased["pair"], 2 << 30)
        self.assertIsNone(process.poll())

    def test_server_without_scheduler_leases_its_devices(self):
        with harness.server(self.installation, "--device=cpu:2") as server:
            both = self.devices_of("--gpus=2", endpoint=server.endpoint)
            self.assertEqual(len(set(both)), 2)
            self.assertEqual(self.devices_of("--device=1,0", endpoint=server.endpoint), both[::-1])
            self.assertEqual(self.devices_of("--device=1", endpoint=server.endpoint), both[1:])
            self.assertEqual(len(self.devices_of(endpoint=server.endpoint)), 1)
            for options, why in ((["--gpus=3"], "the server has 2"),
                                 (["--device=0,2"], "not all of the devices"),
                                 (["--device=1,1"], "twice")):
                error = self.warpline("run", *options, "true", endpoint=server.endpoint, status=1)
                self.assertIn(why, error)

    # --- Who may.

    def test_server_of_a_scheduler_refuses_sessions_without_a_token(self):
        for token in (None, "garbage", "Zm9v.YmFy", "\x7f" * 5000):
            env = {}
            if token is not None:
                path = self.scheduler.folder / "token"
                path.write_text(token)
                env["WARPLINE_TOKEN_FILE"] = str(path)
            status, stdout, stderr = harness.finish(harness.start(
                self.installation, self.servers[0].endpoint, "vector_add", env=env))
            self.assertNotEqual(status, 0)
            self.assertIn("not permitted", stdout.lower() + stderr.lower())
            self.assertEqual(stderr.count(" E stub "), 1, stderr)

    def test_program_that_dials_the_scheduler_gets_a_lease(self):
        harness.run(self.installation, self.scheduler.endpoint, "vector_add")
        harness.wait_until(lambda: not self.leases(), "the lease is given back")
        self.assertIn("granted lease", self.scheduler.log())

    def test_tenants(self):
        self.warpline("run", "true")
        self.stop_servers()
        credential = self.warpline("tenant", "add", "vision", "--memory=4GiB",
                                   "--max_sessions=6").strip()
        self.assertIn("credential", self.warpline("run", "true", status=1))
        self.assertIn("knows no tenant",
                      self.warpline("run", "true", status=1, WARPLINE_CREDENTIAL="guess"))
        # Servers need theirs from now on.
        self.serve_with_credential("c")
        self.warpline("run", "--memory=4GiB", self.vector_add(), WARPLINE_CREDENTIAL=credential)
        self.assertIn("may lease 4096 MiB", self.warpline(
            "run", "--memory=5GiB", "true", status=1, WARPLINE_CREDENTIAL=credential))
        status, stdout, stderr = harness.finish(harness.start(
            self.installation, self.scheduler.endpoint, "vector_add",
            env={"WARPLINE_CREDENTIAL": credential}))
        self.assertEqual(status, 0, stdout + stderr)
        self.assertIn("may have 6 sessions", self.warpline(
            "run", "--sessions=7", "true", status=1, WARPLINE_CREDENTIAL=credential))
        self.assertIn("its limit", self.warpline(
            "run", "--sessions=1", *self.tree("--share_mib=64"), status=1,
            WARPLINE_CREDENTIAL=credential))
        self.warpline("tenant", "remove", "vision")
        self.assertIn("operator", self.warpline(
            "tenant", "add", "x", status=1, WARPLINE_OPERATOR_CREDENTIAL_FILE="/etc/hostname"))

    def test_rights_are_kept(self):
        self.stop_servers()
        credential = self.warpline("tenant", "add", "vision", "--rights=memory,copy_in").strip()
        self.serve_with_credential("c")
        status, stdout, stderr = harness.finish(harness.start(
            self.installation, self.scheduler.endpoint, "vector_add",
            env={"WARPLINE_CREDENTIAL": credential}))
        self.assertNotEqual(status, 0)
        self.assertIn("not permitted", (stdout + stderr).lower())
        self.assertIn("memory", self.warpline("tenant", "list"))
        self.warpline("tenant", "set", "vision", "--rights=none")
        status, stdout, stderr = harness.finish(harness.start(
            self.installation, self.scheduler.endpoint, "vector_add",
            env={"WARPLINE_CREDENTIAL": credential}))
        self.assertNotEqual(status, 0)
        self.assertIn("not permitted", (stdout + stderr).lower())
        self.warpline("tenant", "set", "vision", "--rights=launch,load,memory,copy_in,copy_out")
        self.warpline("run", "--memory=1GiB", self.vector_add(), WARPLINE_CREDENTIAL=credential)

    def test_server_shows_a_credential_of_its_own(self):
        self.stop_servers()
        c = self.serve_with_credential("c")
        d = self.scheduler.folder / "credential-d"
        d.write_text(self.warpline("servers", "add", "d"))
        self.assertIn("added", self.warpline("servers"))
        impostor = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                  "--name=e", "--scheduler_credential_file=%s" % d)
        impostor.__enter__()
        self.addCleanup(impostor.__exit__, None, None, None)
        harness.wait_until(lambda: "does not take a server" in impostor.log_tail(),
                           "it is refused")
        self.warpline("run", "--memory=1GiB", self.vector_add())
        self.warpline("servers", "remove", "c")
        self.assertNotIn("\nc ", self.warpline("servers"))
        self.assertIn("no server", self.warpline("run", "true", status=1))
        self.assertTrue(c.running())

    # --- How leases end.

    def lose(self, process, words):
        status = process.wait(harness.GIVE_UP_S)
        stdout, stderr = process.communicate()
        self.assertEqual(status, 3, stdout + stderr)
        self.assertIn("lost (error 800)", stdout)
        self.assertIn(words, stderr)

    def test_revoked_lease_ends_its_sessions(self):
        process = self.start_tree()
        self.wait_for_sessions(4)
        self.warpline("lease", "revoke", self.leases()[0]["id"], "--reason=maintenance")
        self.lose(process, "maintenance")
        self.assertEqual(self.leases(), [])

    def test_lease_ends_when_its_time_is_over(self):
        self.stop_servers()
        # Long enough for the tree to be at work.
        credential = self.warpline("tenant", "add", "short", "--max_seconds=20").strip()
        self.serve_with_credential("c")
        process = self.start_tree(WARPLINE_CREDENTIAL=credential)
        self.lose(process, "as long as")

    def test_sessions_go_on_while_the_scheduler_is_away(self):
        process = self.start_tree()
        self.wait_for_sessions(4)
        lease = self.leases()[0]["id"]
        self.scheduler.kill()
        time.sleep(harness.LEASE_TTL_S + 1)
        self.scheduler.start()
        harness.wait_until(lambda: [x["id"] for x in self.leases()] == [lease], "the same lease")
        status, stdout, stderr = harness.finish(process)
        self.assertEqual(status, 0, stdout + stderr)
        self.assertIn("lease_tree: ok", stdout)
        harness.wait_until(lambda: not self.leases(), "the lease is given back")

    def test_sessions_keep_the_lease_of_a_killed_holder(self):
        process = self.start_tree()
        self.wait_for_sessions(4)
        child = harness.children(process.pid, "lease_tree")
        self.assertEqual(len(child), 1)
        process.kill()
        process.wait()
        time.sleep(harness.LEASE_TTL_S + 1)
        self.wait_for_sessions(4)
        process.stdin.close()
        self.assertIn("lease_tree: ok", process.stdout.read())
        harness.wait_until(lambda: not self.leases(), "the lease runs out")

    def test_lost_server_is_shown_and_gets_no_lease(self):
        os.kill(self.servers[0].pid, signal.SIGKILL)
        harness.wait_until(lambda: "lost" in self.warpline("servers"), "it is lost")
        for _ in range(2):
            self.warpline("run", "--memory=1GiB", self.vector_add())

    # --- A state that is of no use.

    def refused_with_state(self, damage):
        """What a scheduler says that ends at once, for what `damage` does to its stopped state."""
        self.scheduler.kill()
        database = self.scheduler.folder / "state/state.db"
        # As SQLite leaves it: all in one file.
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        kept = database.read_bytes()
        damage(database)
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline-scheduler"), "--listen=127.0.0.1:0",
             "--state=%s" % database.parent], capture_output=True, text=True, timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(str(database), done.stderr)
        if database.is_dir():
            database.rmdir()
        database.write_bytes(kept)
        self.scheduler.start()
        return done.stderr

    def test_state_of_no_use_is_not_taken_for_an_empty_one(self):
        def overwrite(path):
            sound = path.read_bytes()
            path.write_bytes(sound[:4096] + b"\x5a" * (len(sound) - 4096))

        def make_newer(path):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("UPDATE records SET value = '99' WHERE key = 'version'")
                connection.commit()

        def drop_records(path):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("DROP TABLE records")

        def make_unreadable(path):
            path.unlink()
            path.mkdir()

        self.warpline("run", "--memory=1GiB", self.vector_add())
        for damage in (overwrite, drop_records, make_unreadable):
            said = self.refused_with_state(damage)
            self.assertIn("put back a copy", said, damage.__name__)
        self.assertIn("version 99", self.refused_with_state(make_newer))
        self.servers.append(self.serve("c"))
        self.warpline("run", "--memory=1GiB", self.vector_add())

    # --- Two servers with one name.

    def test_a_second_server_with_a_name_is_refused_until_the_first_ends(self):
        other = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint, "--name=a")
        other.__enter__()
        self.addCleanup(other.__exit__, None, None, None)
        harness.wait_until(lambda: "refused another server=a" in self.scheduler.log(), "it is refused")
        harness.wait_until(lambda: "another server reports by the name of a" in other.log_tail(),
                           "it says so")
        self.assertNotIn("changed server=a", self.scheduler.log())
        os.kill(self.servers[0].pid, signal.SIGTERM)
        harness.wait_until(lambda: "changed server=a" in self.scheduler.log(), "it is taken")

    # --- The command line.

    def test_run_says_what_failed(self):
        self.assertIn("127.0.0.1:1", self.warpline("run", "true", endpoint="127.0.0.1:1", status=1))
        self.assertIn("not found", self.warpline("run", "no-such-program", status=127))
        self.assertIn("has the device",
                      self.warpline("run", "--device=GPU-nope", "true", status=1))
        self.assertIn("--memory=4Gb", self.warpline("run", "--memory=4Gb?", "true", status=2))
        copy = self.scheduler.folder / "bin/warpline"
        copy.parent.mkdir()
        shutil.copy(self.installation.root / "bin/warpline", copy)
        done = subprocess.run([str(copy), "run", "true"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libcuda.so.1 of Warpline is not in", done.stderr)

    def test_run_passes_on_exit_codes_signals_and_its_lease(self):
        self.warpline("run", "sh", "-c", "exit 7", status=7)
        self.warpline("run", "sh", "-c", "kill -9 $$", status=128 + signal.SIGKILL)
        process = self.start_run("sh", "-c", "trap 'exit 9' USR1; echo up; while :; do sleep 0.1; done")
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(harness.GIVE_UP_S), 9)
        warpline = str(self.installation.root / "bin/warpline")
        self.warpline("run", "sh", "-c", "[ -z \"$WARPLINE_CREDENTIAL\" ] && "
                      "[ $(stat -c %%a $WARPLINE_TOKEN_FILE) = 600 ] && exec %s run %s"
                      % (warpline, self.vector_add()), WARPLINE_CREDENTIAL="unused")
        self.assertEqual(self.scheduler.log().count("granted lease"), 4)

    def test_reports(self):
        process = self.start_tree()
        self.wait_for_sessions(4)
        sessions = lambda: json.loads(self.warpline("ps", "--json"))["sessions"]
        used = lambda: [int(session["quota_used_bytes"]) for session in sessions()]
        harness.wait_until(lambda: len(used()) == 4 and min(used()) >= 256 << 20, "all is reported")
        session = sessions()[0]
        self.assertEqual(session["tenant"], "default")
        self.assertEqual(session["lease"], self.leases()[0]["id"])
        self.assertEqual(int(session["quota_bytes"]), 4 << 30)
        self.assertIn("lease_tree", self.warpline("ps"))
        self.assertIn("lease_tree", self.warpline("top", "--once"))
        on = self.servers[0] if session["server"] == "a" else self.servers[1]
        self.assertIn(session["lease"], self.warpline("ps", endpoint=on.endpoint))
        self.assertIn("default", self.warpline("tenant", "list"))
        self.assertIn("no scheduler", self.warpline("servers", endpoint=on.endpoint, status=1))
        process.terminate()
        process.wait(harness.GIVE_UP_S)

    def test_scheduler_ends_in_order_and_is_alone_in_its_folder(self):
        second = subprocess.run(
            [str(self.installation.root / "bin/warpline-scheduler"), "--listen=127.0.0.1:0",
             "--state=%s" % (self.scheduler.folder / "state")], capture_output=True, text=True)
        self.assertEqual(second.returncode, 2)
        self.assertIn("another scheduler", second.stderr)
        self.scheduler.process.terminate()
        self.assertEqual(self.scheduler.process.wait(harness.GIVE_UP_S), 0)

    def test_garbage_harms_nobody(self):
        host, port = self.scheduler.endpoint.split(":")
        for garbage in (b"", b"\0" * 4096, os.urandom(65536),
                        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(1000)):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(garbage)
        self.assertIn("no lease", self.warpline("run", "--memory=999999T", "true", status=1))
        self.warpline("run", self.vector_add())
        self.assertIsNone(self.scheduler.process.poll())


if __name__ == "__main__":
    unittest.main()
