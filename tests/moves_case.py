"""Tests of leases that move between servers of one scheduler."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import harness
from held_link import HeldLink
from paging_case import APART, PATIENT, PROGRAM, SWAP, PagingCase


class MovesCase(PagingCase):
    """`flags` are all servers', `client` is programs' environment, and `servers` are by name."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-migrate-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.client = {**APART, **PATIENT}
        self.flags = [SWAP, "--resume_seconds=%d" % harness.GIVE_UP_S]
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(lambda: self.scheduler.close())  # Some tests start another.
        self.servers = {}

    def serve(self, name, *flags):
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=" + name, *self.flags, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        harness.wait_until(lambda: "up server=%s\n" % name in self.scheduler.log(),
                           lambda: "server %s is up\n" % name + server.log_tail())
        self.servers[name] = server
        return server

    def serve_two(self, *flags):
        """Programs are placed on a."""
        first = self.serve("a", *flags)
        return first, self.serve("b", *flags)

    def started(self, name=PROGRAM, *arguments, env=None, prefix=()):
        if name == PROGRAM and not any("words" in one for one in arguments):
            arguments += ("--words=2048", "--rest_ms=0")
        program = harness.start_held(self.installation, self.scheduler.endpoint, name, *arguments,
                                     env={**self.client, **(env or {})}, prefix=prefix)
        self.addCleanup(program.kill)
        return program

    def operator(self, *arguments):
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline"), *arguments,
             "--endpoint=" + self.scheduler.endpoint],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=self.as_operator(), timeout=harness.GIVE_UP_S, check=False)
        return run.returncode, run.stdout

    def as_operator(self):
        return {**os.environ, "WARPLINE_OPERATOR_CREDENTIAL_FILE":
                str(self.scheduler.folder / "state/operator.credential")}

    def logs(self):
        return "\n".join([self.scheduler.log()[-2000:]] +
                         ["%s:\n%s" % (name, server.log_tail(30))
                          for name, server in self.servers.items()])

    def migrate(self, lease, to, said="moved lease="):
        status, output = self.operator("migrate", lease, "--to=" + to)
        self.assertIn(said, output, self.logs())
        self.assertEqual(status == 0, said == "moved lease=", output)
        return output

    def lease_on(self, server):
        return self.sessions(server)[0]["lease"]

    def where(self):
        """The server that has the session, of two."""
        names = [name for name, server in self.servers.items() if self.sessions(server)]
        self.assertEqual(len(names), 1)
        return names[0]

    def other(self, name):
        return next(each for each in self.servers if each != name)

    def use_tls(self):
        """Sessions go on over connections of their own, and servers speak TLS with each other."""
        flags, env = self.make_certificates(self.folder, "--server_is_client")
        self.flags += flags
        self.client.update(WARPLINE_TRANSFER="relay", **env)
        return flags

    def begin_move(self, lease, here, there):
        """A migration that has begun when this returns."""
        moves = subprocess.Popen(
            [str(self.installation.root / "bin/warpline"), "migrate", lease, "--to=" + there,
             "--endpoint=" + self.scheduler.endpoint], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=self.as_operator())
        self.addCleanup(moves.kill)
        harness.wait_until(lambda: "moves lease=%s" % lease in self.servers[here].log(), self.logs)
        return moves

    def await_outcome(self, lease, here):
        harness.wait_until(lambda: any("lease=%s" % lease in line and (" moved " in line or "stays" in line)
                                       for line in self.servers[here].log().splitlines()), self.logs)


class LinkedCase(MovesCase):
    """Servers a and b, with a link before each of them and one from each to the scheduler."""

    def setUp(self):
        super().setUp()
        # The lease of a server that ended runs out.
        self.scheduler_flags = ["--lost_after=3s", "--lease_ttl=4s"]
        self.flags[-1] = "--resume_seconds=20"
        self.links = {name: HeldLink() for name in "ab"}  # Whatever comes to a server.
        # From a server to the scheduler, in plain text.
        self.wires = {name: HeldLink(self.folder / ("wire-" + name)) for name in "ab"}
        for link in (*self.links.values(), *self.wires.values()):
            self.addCleanup(link.close)

    def set_up(self, transport="grpc"):
        self.scheduler.close()
        flags = self.use_tls() if transport == "tls" else []
        socket = "unix:%s" % (self.folder / "scheduler")
        self.scheduler = harness.Scheduler(
            self.installation, *self.scheduler_flags, *flags, "--listen=127.0.0.1:0," + socket)
        # It has the same port when it is started again.
        self.scheduler.set_flag("--listen=%s,%s" % (self.scheduler.endpoint, socket))
        for name in "ab":
            self.wires[name].target = socket
            self.serve(name)

    def serve(self, name, *flags):
        server = harness.server(
            self.installation, "--scheduler=" + self.wires[name].endpoint, "--name=" + name,
            "--advertise=" + self.links[name].endpoint, *self.flags, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        self.servers[name] = server
        self.links[name].target = server.endpoint
        harness.wait_until(lambda: "connected scheduler=" in server.log(), self.logs)
        return server

    def what_is_left(self):
        """All that a session may leave behind."""
        left = {}
        for name, server in self.servers.items():
            stat = json.loads(self.warpline(server, "stat", "--json")[1])
            found = [int(stat.get("swap_bytes", 0)), len(stat.get("sessions", []))]
            found += [int(one.get("granted_bytes", 0)) for one in stat["devices"]]
            if any(found):
                left[name] = found
        leases = json.loads(self.operator("lease", "list", "--json")[1]).get("leases", [])
        left.update({one["id"]: one for one in leases if one["state"] == "active"})
        pool = json.loads(self.operator("servers", "--json")[1])["servers"]
        left.update({"leased on " + one["name"]: one["leased_bytes"] for one in pool
                     if int(one.get("leased_bytes", 0))})
        return left

    def await_nothing_left(self):
        harness.wait_until(lambda: not self.what_is_left(),
                           lambda: "%s is left\n%s" % (self.what_is_left(), self.logs()))
