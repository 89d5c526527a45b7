#!/usr/bin/env python3
"""Programs whose links are bad: lossy, slow, forgetful, gone for a while, or without IPv4. Client and
server are in two network namespaces, and what joins them is link_main (bench/network/link.py)."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "bench/network"))
import link as links  # noqa: E402  (found by the path above)

PROGRAM = "long_program"
LINK_MAIN = harness.RUNFILES / "bench/network/link_main"
MAKE_CERTS = harness.RUNFILES / "deploy/local/make_certs.sh"
# Buffers of 4 MiB, whose copies go through bulk connections where there are some.
LARGE = "--words=%d" % (1 << 20)
OTHER_ADDRESS = "10.213.7.9"
# Longer than any test takes: only a program's end ends its session.
RESUME_SECONDS = 3600
LOST, RESUMED = "connection to the server lost", "session resumed"


def missing():
    """Why there are no such links here, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    lacking = [each for each in ("ip", "nsenter", "unshare") if not shutil.which(each)]
    if lacking:
        return "needs " + ", ".join(lacking)
    tried = subprocess.run(["unshare", "--net", "--ipc", "--mount", "true"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "no network namespaces: " + tried.stdout.strip() if tried.returncode != 0 else None


class Side:
    """A server and its clients, at the two ends of a link."""

    def __init__(self, installation, link, folder, transfer, address):
        self._installation, self.link, self._folder = installation, link, folder
        self._transfer, self._address = transfer, address

    def __enter__(self):
        subprocess.run(["bash", str(MAKE_CERTS), self._folder, links.SERVER + "," + links.SERVER_6],
                       check=True, stdout=subprocess.DEVNULL)
        self.server = links.RemoteServer(
            self._installation,
            ["--device=" + harness.DEVICE, "--resume_seconds=%d" % RESUME_SECONDS,
             *("--tls_%s=%s/%s" % (name, self._folder, file) for name, file in (
                 ("ca", "ca.crt"), ("cert", "server.crt"), ("key", "server.key")))],
            self.link.server, self._address)
        self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    @property
    def environment(self):
        return {"WARPLINE_TLS_CA": self._folder + "/ca.crt", "WARPLINE_TLS_CERT": self._folder + "/client.crt",
                "WARPLINE_TLS_KEY": self._folder + "/client.key", "WARPLINE_TRANSFER": self._transfer,
                "WARPLINE_RESUME_SECONDS": str(RESUME_SECONDS)}

    def start(self, *arguments):
        """A program that is held, over the transport of this test. Its stderr is a file."""
        self.log = pathlib.Path(self._folder, "client.log")
        with open(self.log, "wb") as log:
            program = harness.start_held(self._installation, self.server.endpoint, PROGRAM, *arguments,
                                         stat=True, env=self.environment, prefix=self.link.client,
                                         stderr=log)
        return program

    def says(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def await_said(self, text):
        harness.wait_until(lambda: text in self.says(), lambda: "\"%s\": %s\n%s" % (
            text, self.says(), self.server.log_tail()))

    def sessions(self):
        """As the server lists them, asked from its own side of the link."""
        return harness.sessions(self._installation, self.server.endpoint, prefix=self.link.server,
                                env=self.environment)

    def await_work(self, transport=None, more=50):
        """Waits until the program has given its session so many commands more."""
        before = sum(int(one["commands"]) for one in self.sessions())
        harness.wait_until(
            lambda: any(int(one["commands"]) >= before + more and transport in (None, one["transport"])
                        for one in self.sessions()),
            lambda: "at work: %s\n%s\n%s" % (self.sessions(), self.says(), self.server.log_tail()))


class BadLinks:
    """What holds for each transport: TRANSFER is what a client's WARPLINE_TRANSFER says, and TRANSPORT
    how its session then goes on."""
    TRANSFER, TRANSPORT = "", ""

    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM})
        cls.addClassCleanup(cls.installation.close)

    @contextlib.contextmanager
    def side(self, address=links.SERVER, **emulation):
        with tempfile.TemporaryDirectory(prefix="warpline-") as folder, \
                links.Link(links.Emulation(LINK_MAIN, **emulation)) as link, \
                Side(self.installation, link, folder, self.TRANSFER, address) as side:
            yield side

    def finish(self, side, program):
        status, stdout, _ = harness.finish(program)
        said = side.says()
        self.assertEqual(status, 0, stdout + said + side.server.log_tail())
        self.assertIn(PROGRAM + ": ok", stdout)
        return said

    def test_packets_are_lost(self):
        with self.side(loss=1, delay_us=200) as side:
            for enter in (side.link.server, side.link.client):
                side.link.prefer_losses(enter)
            program = side.start(LARGE)
            side.await_work(self.TRANSPORT)
            harness.wait_until(lambda: side.link.counts()["lost"] > 100, "packets are lost")
            said = self.finish(side, program)
            self.assertNotIn(LOST, said)

    def test_the_link_is_slow(self):
        with self.side(rate_mbit=100) as side:
            program = side.start(LARGE)
            side.await_work(self.TRANSPORT)
            said = self.finish(side, program)
            self.assertNotIn(LOST, said)

    def test_a_router_forgets_idle_connections(self):
        with self.side(forget_s=1) as side:
            # It rests for three seconds on average.
            program = side.start("--rest_ms=6000")
            harness.wait_until(lambda: side.link.counts()["forgotten"] > 0, "a connection is forgotten")
            side.link.tell("forget 3600")
            side.await_said(RESUMED)
            side.await_work(more=5)
            self.assertIn(LOST, self.finish(side, program))

    def test_the_link_goes_away_and_the_client_comes_back_with_another_address(self):
        with self.side() as side:
            program = side.start()
            side.await_work(self.TRANSPORT)
            side.link.tell("down")
            side.await_said(LOST)
            side.link.remove_address(side.link.client, links.CLIENT)
            side.link.add_address(side.link.client, OTHER_ADDRESS)
            self.assertIsNone(program.poll())
            side.link.tell("up")
            side.await_said(RESUMED)
            side.await_work()
            self.finish(side, program)

    def test_there_is_no_ipv4(self):
        with self.side(address=links.SERVER_6) as side:
            for enter, address in ((side.link.server, links.SERVER), (side.link.client, links.CLIENT)):
                side.link.remove_address(enter, address)
            program = side.start(LARGE)
            side.await_work(self.TRANSPORT)
            said = self.finish(side, program)
            self.assertNotIn(LOST, said)


@unittest.skipIf(missing(), missing())
class OverTlsConnections(BadLinks, unittest.TestCase):
    TRANSFER, TRANSPORT = "relay", "tls"


@unittest.skipIf(missing(), missing())
class OverGrpc(BadLinks, unittest.TestCase):
    TRANSFER, TRANSPORT = "0", "grpc"

    def test_answers_take_longer_than_a_first_attempt_to_connect(self):
        # A connection with TLS takes three round trips.
        with self.side(delay_us=300000, forget_s=3600) as side:
            program = side.start("--words=2048")
            side.await_work(self.TRANSPORT, more=3)
            side.link.tell("forget")
            side.await_said(RESUMED)
            side.await_work(more=1)
            self.finish(side, program)


if __name__ == "__main__":
    unittest.main(verbosity=2)
