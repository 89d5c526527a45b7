#!/usr/bin/env python3
"""Whole programs over TLS: server, application and command line with the certificates that
make_certs.sh makes."""
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

import harness

MAKE_CERTS = harness.RUNFILES / "deploy/local/make_certs.sh"


class TlsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.make_certs("certs")
        self.installation = harness.install(["vector_add", "free_in_flight"])
        self.addCleanup(self.installation.close)

    def make_certs(self, name, server="127.0.0.1,gpuhost", client="alice"):
        subprocess.run(["bash", str(MAKE_CERTS), str(self.folder / name), server, client],
                       check=True, stdout=subprocess.DEVNULL)
        return self.folder / name

    def server(self, *flags):
        certs = self.folder / "certs"
        return harness.server(self.installation, "--tls_ca=%s" % (certs / "ca.crt"),
                              "--tls_cert=%s" % (certs / "server.crt"),
                              "--tls_key=%s" % (certs / "server.key"), *flags)

    def client(self, folder="certs", name="alice"):
        certs = self.folder / folder
        return {"WARPLINE_TLS_CA": str(certs / "ca.crt"),
                "WARPLINE_TLS_CERT": str(certs / (name + ".crt")),
                "WARPLINE_TLS_KEY": str(certs / (name + ".key"))}

    def failure(self, server, env):
        """What an application that must not get a session says; it says it in one line."""
        status, _, stderr = harness.finish(
            harness.start(self.installation, server.endpoint, "vector_add", env=env))
        self.assertNotEqual(0, status)
        lines = [line for line in stderr.splitlines() if " stub " in line]
        self.assertEqual(1, len(lines), stderr)
        return lines[0]

    def warpline(self, *arguments, env=None):
        return subprocess.run([str(self.installation.root / "bin/warpline"), *arguments],
                              env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)

    def test_a_program_runs_and_is_known_by_its_certificate(self):
        with self.server() as server:
            harness.run(self.installation, server.endpoint, "vector_add", env=self.client())
            self.assertIn(" cn=alice", server.log_tail())
            stat = self.warpline("stat", "--endpoint=" + server.endpoint, env=self.client())
            self.assertEqual(0, stat.returncode, stat.stderr)
            self.assertRegex(stat.stdout, r"opened +1")
            self.assertNotIn("PRIVATE KEY", server.log_tail())

    def test_options_of_the_command_line_reach_the_program(self):
        options = ["--%s=%s" % (name[len("WARPLINE_"):].lower(), path)
                   for name, path in self.client().items()]
        with self.server() as server:
            ran = self.warpline("run", "--endpoint=" + server.endpoint, *options, "--",
                                str(self.installation.root / "bin/examples/vector_add"))
            self.assertEqual(0, ran.returncode, ran.stderr)
            listed = self.warpline("ps", "--endpoint=" + server.endpoint, *options)
            self.assertEqual(0, listed.returncode, listed.stderr)
            # Its session may be gone by now.
            self.assertRegex(listed.stdout, "PEER|no sessions on warpline-server")

    def test_what_is_wrong_is_said_in_one_line(self):
        self.make_certs("other")
        with self.server() as server:
            self.assertIn("the server uses TLS", self.failure(server, {}))
            strange_server = {**self.client(),
                              "WARPLINE_TLS_CA": str(self.folder / "other/ca.crt")}
            self.assertIn("not signed by", self.failure(server, strange_server))
            strange_client = {**self.client("other"),
                              "WARPLINE_TLS_CA": str(self.folder / "certs/ca.crt")}
            self.assertIn("does not accept the certificate", self.failure(server, strange_client))
            wrong_name = {**self.client(), "WARPLINE_TLS_SERVER_NAME": "elsewhere"}
            self.assertIn("not for \"elsewhere\"", self.failure(server, wrong_name))
            missing = {**self.client(), "WARPLINE_TLS_KEY": str(self.folder / "none.key")}
            self.assertIn("none.key", self.failure(server, missing))
            half = {**self.client(), "WARPLINE_TLS_KEY": ""}
            self.assertIn("WARPLINE_TLS_KEY is missing", self.failure(server, half))
            stat = self.warpline("stat", "--endpoint=" + server.endpoint)
            self.assertIn("the server uses TLS", stat.stderr)

    def test_a_client_with_tls_is_told_of_a_server_without(self):
        with harness.server(self.installation) as server:
            self.assertIn("the server does not use TLS", self.failure(server, self.client()))

    def test_renewed_certificates_count_without_a_restart(self):
        with self.server() as server:
            harness.run(self.installation, server.endpoint, "vector_add", env=self.client())
            self.make_certs("certs", client="bob")
            harness.wait_until(
                lambda: harness.run(self.installation, server.endpoint, "vector_add",
                                    env=self.client(name="bob")) and
                "TLS certificate reloaded" in server.log_tail(), "reloaded")
            self.assertIn(" cn=bob", server.log_tail())

    def test_a_server_does_not_start_with_half_of_it(self):
        server = self.installation.root / "bin/warpline-server"
        for flags, complaint in (
                (["--tls_cert=/none"], "is missing"),
                (["--listen=0.0.0.0:0"], "TLS is not configured"),
                (["--tls_cert=/none", "--tls_key=/none", "--tls_ca=/none"], "cannot read /none")):
            ended = subprocess.run([str(server), "--device=cpu", "--listen=127.0.0.1:0", *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   check=False, timeout=harness.GIVE_UP_S)
            self.assertEqual(2, ended.returncode, ended.stdout)
            self.assertIn(complaint, ended.stdout)

    def test_with_it_any_address_is_served(self):
        for any_address in ["0.0.0.0:0"] + (["[::]:0"] if socket.has_dualstack_ipv6() else []):
            with self.server("--listen=" + any_address) as server:
                harness.run(self.installation, server.endpoint, "vector_add", env=self.client())


if __name__ == "__main__":
    unittest.main()
