#!/usr/bin/env python3
"""Every kind of memory over every way between client and server, against docs/compatibility.md.

Fails where the page's table says something else than what was seen, and prints the table that it saw.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

_RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(_RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

PROGRAM = "kinds"
PAGE = _RUNFILES / "docs/compatibility.md"
MAKE_CERTS = _RUNFILES / "deploy/local/make_certs.sh"
# No memory is shared with the server, so it could be on another host.
APART = {"WARPLINE_SHARE_MEMORY": "0"}
WORKS, SLOWER = "works", "works, slower"
# More than the program's kernels and commands take, which cross as well.
OTHER_BYTES = 500000
HEADER = "| memory | same host | other host, gRPC | other host, TLS | other host, UCX |"


class KindsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + PROGRAM: "tests/memory/" + PROGRAM})
        cls.addClassCleanup(cls.installation.close)
        listed = subprocess.run([str(cls.installation.root / "bin/examples" / PROGRAM)],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.kinds = [line.split("\t") for line in listed.splitlines()]
        certs = tempfile.TemporaryDirectory(prefix="warpline-kinds-")
        cls.addClassCleanup(certs.cleanup)
        subprocess.run(["bash", str(MAKE_CERTS), certs.name, "127.0.0.1", "alice"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.certs = pathlib.Path(certs.name)

    def places(self):
        """(transport, the server's flags, the client's environment) of each column."""
        of = lambda name: str(self.certs / name)  # noqa: E731
        relay = {**APART, "WARPLINE_TRANSFER": "relay"}
        return (
            ("shm", (), {}),
            ("grpc", (), {**APART, "WARPLINE_TRANSFER": "0"}),
            ("tls", ("--tls_ca=" + of("ca.crt"), "--tls_cert=" + of("server.crt"),
                     "--tls_key=" + of("server.key")),
             {**relay, "WARPLINE_TLS_CA": of("ca.crt"), "WARPLINE_TLS_CERT": of("alice.crt"),
              "WARPLINE_TLS_KEY": of("alice.key")}),
            ("ucx", ("--ucx_networks=127.0.0.0/8",), relay),
        )

    def transports(self, server, env):
        listed = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "ps", "--json", "--endpoint=" + server.endpoint],
            stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **env})
        return [one["transport"] for one in json.loads(listed.stdout).get("sessions", [])]

    def cell(self, server, number, transport, env):
        _, asked, processes = self.kinds[number]
        harness.wait_until(lambda: not self.transports(server, env), "the end of the one before")
        program = harness.start_held(self.installation, server.endpoint, PROGRAM, str(number), stat=True,
                                     env=env)
        harness.wait_until(
            lambda: self.transports(server, env) == [transport] * int(processes),
            lambda: "%s goes over %s: %s" % (self.kinds[number][0], transport, server.log_tail()))
        _, stdout, stderr = harness.finish(program)
        verdict = (stdout.splitlines() or ["no word: " + stderr])[-1]
        if verdict != WORKS:
            return "`" + verdict + "`"
        counted = harness.counters(stderr)
        crossed = counted["bytes sent"] + counted["bytes received"] + counted["bulk bytes"]
        return SLOWER if crossed > int(asked) + OTHER_BYTES else WORKS

    def test_the_page_says_what_is_seen(self):
        columns = []
        for transport, flags, env in self.places():
            with harness.server(self.installation, *flags) as server:
                columns.append([self.cell(server, number, transport, env)
                                for number in range(len(self.kinds))])
        rows = ["| " + " | ".join((kind[0], *cells)) + " |"
                for kind, *cells in zip(self.kinds, *columns)]
        seen = "\n".join((HEADER, "|---" * 5 + "|", *rows))
        page = PAGE.read_text(encoding="utf-8")
        self.assertIn(HEADER, page, seen)
        start = page.index(HEADER)
        self.assertEqual(page[start:page.index("\n\n", start)], seen)
        self.assertNotIn("WRONG", seen)


if __name__ == "__main__":
    unittest.main()
