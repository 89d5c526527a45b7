"""Tests of sessions whose memory leaves the device, and of those that go on at another server."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

PROGRAM = "long_program"
SWAP = "--swap_host=256MiB"
# Clients from other hosts share nothing with the server's host.
APART = {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "0"}
PATIENT = {"WARPLINE_RESUME_SECONDS": str(harness.GIVE_UP_S)}
MAKE_CERTS = harness.RUNFILES / "deploy/local/make_certs.sh"
GUARDED = ("--tiers=isolated,guarded", "--noguarded_standby", "--guarded_memory=192MiB")


class PagingCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM,
             "bin/long_program": "tests/chaos/" + PROGRAM,
             "bin/examples/both_devices": "tests/chaos/both_devices",
             "bin/examples/mapped_memory": "tests/chaos/mapped_memory",
             "bin/examples/pinned_memory": "tests/chaos/pinned_memory",
             "bin/examples/shared_memory": "tests/chaos/shared_memory",
             "bin/examples/variables": "tests/chaos/variables"})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def make_certificates(self, folder, *options):
        """Makes them in a folder of `folder`. Returns a server's flags and a client's environment,
        which this process has, too, until the test ends."""
        certs = folder / "certs"
        subprocess.run(["bash", str(MAKE_CERTS), *options, str(certs), "127.0.0.1", "alice"],
                       check=True, stdout=subprocess.DEVNULL)
        flags = ["--tls_ca=%s" % (certs / "ca.crt"), "--tls_cert=%s" % (certs / "server.crt"),
                 "--tls_key=%s" % (certs / "server.key")]
        env = {"WARPLINE_TLS_CA": str(certs / "ca.crt"),
               "WARPLINE_TLS_CERT": str(certs / "alice.crt"),
               "WARPLINE_TLS_KEY": str(certs / "alice.key")}
        os.environ.update(env)
        self.addCleanup(lambda: [os.environ.pop(name) for name in env])
        return flags, env

    def await_open(self, server, count=1):
        def is_open():
            sessions = self.sessions(server)
            return len(sessions) == count and all(one["state"] == "open" for one in sessions)
        harness.wait_until(is_open, lambda: "sessions go on\n" + server.log_tail())

    def warpline(self, server, *arguments):
        run = subprocess.run(
            [str(self.installation.root / "bin/warpline"), arguments[0],
             "--endpoint=" + server.endpoint, *arguments[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S,
            check=False)
        return run.returncode, run.stdout

    def page(self, server, verb, said, *arguments):
        status, output = self.warpline(server, verb, *arguments)
        self.assertEqual(status, 0, output + server.log_tail())
        self.assertIn(said, output)

    def sessions(self, server):
        return harness.sessions(self.installation, server.endpoint)

    def finish(self, process, server, name=PROGRAM):
        status, stdout, stderr = harness.finish(process)
        self.assertEqual(status, 0, stdout + stderr + server.log_tail())
        self.assertIn(name + ": ok", stdout)


class OutlivingCase(PagingCase):
    """Tests of sessions that outlive their server. `flags` are a server's, `client` is a program's
    environment, and `folder` goes with the test."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-outliving-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.flags = [SWAP, "--resume_seconds=%d" % harness.GIVE_UP_S]
        self.client = {**APART, **PATIENT}

    def use_tls(self):
        """Sessions go on over connections of their own."""
        flags, env = self.make_certificates(self.folder)
        self.flags += flags
        self.client.update(WARPLINE_TRANSFER="relay", **env)

    def serve(self, *flags, former=None):
        """A server, at the address of the former one if there is one."""
        at = ["--listen=" + former.endpoint] if former else []
        server = harness.server(self.installation, *at, *self.flags, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def started(self, server, name=PROGRAM, *arguments, env=None):
        if name == PROGRAM and not any("words" in one for one in arguments):
            arguments += ("--words=2048", "--rest_ms=0")
        return harness.start_held(self.installation, server.endpoint, name, *arguments,
                                  env={**self.client, **(env or {})})
