#!/usr/bin/env python3
"""Sessions that go on over connections of their own, through relays: over UCX, and with TLS."""
import collections
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "chaos"))
import cuts  # noqa: E402  (found by the path above)

PROGRAM = "long_program"
RELAY = "warpline-relay"
DELAY_RELAY = harness.RUNFILES / "transport/testing/delay_relay_main"
# As from another host.
APART = {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "relay"}
# Buffers of 4 MiB, whose copies go through bulk connections.
LARGE = "--words=%d" % (1 << 20)
MAKE_CERTS = harness.RUNFILES / "deploy/local/make_certs.sh"


class Relays:
    """What holds for both kinds of relays. TRANSPORT is what sessions go on over, OFFERED the flags of
    a server that offers it, and CLIENT a client's environment besides."""
    TRANSPORT, OFFERED, CLIENT = "", (), {}

    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({"bin/examples/" + PROGRAM: "tests/chaos/" + PROGRAM})

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def run_program(self, server, *arguments, seconds=1, env=APART):
        """Its stderr, when it has ended with right results."""
        _, stderr = harness.run(self.installation, server.endpoint, PROGRAM, "--seconds=%d" % seconds,
                                *arguments, stat=True, env={**env, **self.CLIENT})
        return stderr

    def start_program(self, server, *arguments):
        """One that goes over a relay already, until it is finished, and the relay."""
        process = harness.start_held(self.installation, server.endpoint, PROGRAM, *arguments,
                                     stat=True, env={**APART, **self.CLIENT})
        self.await_transport(server)
        relays = harness.server_processes(server.pid, RELAY)
        self.assertEqual(len(relays), 1)
        return process, relays[0]

    def await_transport(self, server):
        harness.wait_until(lambda: "transport        " + self.TRANSPORT in self.stat(server),
                           lambda: "the session goes over its own: " + server.log_tail())

    @staticmethod
    def await_bulk_bytes(port, least):
        harness.wait_until(lambda: cuts.metrics(port).get("warpline_bulk_bytes_total", 0) > least,
                           "large copies")

    def finish(self, process):
        status, stdout, stderr = harness.finish(process)
        self.assertEqual(status, 0, stdout + stderr)
        self.assertIn(PROGRAM + ": ok", stdout)
        return stderr

    def stat(self, server):
        return subprocess.run(
            [str(self.installation.root / "bin/warpline"), "stat",
             "--endpoint=" + server.endpoint],
            stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **self.CLIENT}).stdout

    def check_no_relay_is_left(self, server):
        harness.wait_until(lambda: not harness.server_processes(server.pid, RELAY),
                           "no relay is left")

    def test_a_session_goes_on_over_a_relay_of_its_own(self):
        with harness.server(self.installation, *self.OFFERED) as server:
            process, _ = self.start_program(server)
            stderr = self.finish(process)
            self.assertIn("transfers: 1 (now %s)" % self.TRANSPORT, stderr)
            self.assertEqual(harness.counters(stderr)["resumes"], 0)
            self.check_no_relay_is_left(server)

    def test_a_session_that_does_not_want_to_stays(self):
        with harness.server(self.installation, *self.OFFERED) as server:
            for transfer in ("0", "local"):
                stderr = self.run_program(server, env={"WARPLINE_TRANSFER": transfer})
                self.assertNotIn("(now %s)" % self.TRANSPORT, stderr)

    def test_a_relay_that_is_lost_is_followed_by_another(self):
        with harness.server(self.installation, *self.OFFERED) as server:
            process, relay = self.start_program(server)
            os.kill(relay, signal.SIGKILL)
            harness.wait_until(lambda: harness.server_processes(server.pid, RELAY) not in ([], [relay]),
                               "another relay follows")
            self.await_transport(server)
            stderr = self.finish(process)
            self.assertGreaterEqual(harness.counters(stderr)["resumes"], 1)
            self.assertIn("(now %s)" % self.TRANSPORT, stderr)
            self.check_no_relay_is_left(server)

    def test_a_relay_that_cannot_be_reached_does_not_matter(self):
        with socket.create_server(("127.0.0.1", 0)) as taken, harness.server(
                self.installation, *self.OFFERED,
                "--relay_ports=%d-%d" % (2 * taken.getsockname()[1:])) as server:
            stderr = ""
            for seconds in (2, 8, 32, 128):
                stderr = self.run_program(server, seconds=seconds)
                self.assertIn("transfers: 0 (now grpc)", stderr)
                if "has no connections of its own" in stderr:
                    break
            self.assertIn("has no connections of its own", stderr)
            self.assertIn("relay lost session=", server.log())

    def test_large_copies_go_over_bulk_connections_to_the_relay(self):
        port = harness.local_server.free_port()
        with harness.server(self.installation, *self.OFFERED,
                            "--admin_listen=127.0.0.1:%d" % port) as server:
            process, _ = self.start_program(server, LARGE)
            self.await_bulk_bytes(port, 16 << 20)
            stderr = self.finish(process)
            self.assertIn("(now %s)" % self.TRANSPORT, stderr)
            # Bytes that the relay had not reported when it was ended are not counted.
            self.assertLessEqual(cuts.metrics(port)["warpline_bulk_bytes_total"],
                                 1.001 * harness.counters(stderr)["bulk bytes"])

    def test_without_memory_on_the_servers_host_they_ride(self):
        with harness.server(self.installation, *self.OFFERED, "--host_memory=1MiB") as server:
            for seconds in (3, 12, 48, 192):
                stderr = self.run_program(server, LARGE, seconds=seconds)
                self.assertEqual(harness.counters(stderr)["bulk bytes"], 0)
                if "(now %s)" % self.TRANSPORT in stderr and "bulk connection 0 cannot be used" in stderr:
                    return
            self.fail(stderr)

    def test_strangers_reach_nothing_of_a_relay_that_has_its_client_nor_of_the_client(self):
        port = harness.local_server.free_port()
        with harness.server(self.installation, *self.OFFERED,
                            "--admin_listen=127.0.0.1:%d" % port) as server:
            process, relay = self.start_program(server, LARGE)
            self.assertEqual(self.listens_at(process.pid), set())
            ports = self.listens_at(relay)
            self.assertEqual(len(ports), 1)  # Where bulk connections come to.
            self.throw_garbage_at(ports.pop(), seconds=3)
            self.await_bulk_bytes(port, 0)
            stderr = self.finish(process)
            self.assertEqual(harness.counters(stderr)["resumes"], 0)
            self.assertGreater(harness.counters(stderr)["bulk bytes"], 0)
            self.assertIn("(now %s)" % self.TRANSPORT, stderr)
            self.check_no_relay_is_left(server)

    def throw_garbage_at(self, port, seconds):
        """Connections that say too little, something else, or another secret, and a frame after it;
        each is ended by the relay."""
        until = time.monotonic() + seconds
        put = struct.pack("<II", 11, 16 + 4096) + struct.pack("<QQ", 1 << 46, 4096) + bytes(4096)
        kinds = [b"", b"x", bytes(24), os.urandom(24) + put, os.urandom(1 << 16),
                 os.urandom(16) + struct.pack("<II", 0xffffffff, 0) + put]
        held = collections.deque()
        while time.monotonic() < until:
            for kind in kinds:
                stranger = socket.create_connection(("127.0.0.1", port))
                held.append(stranger)
                if len(held) > 40:
                    held.popleft().close()
                try:
                    stranger.sendall(kind)
                except OSError:
                    pass  # It was ended in the middle.
        last = held.pop()
        last.settimeout(harness.GIVE_UP_S)
        try:
            self.assertEqual(last.recv(1), b"")
        except ConnectionResetError:
            pass
        for stranger in held:
            stranger.close()
        last.close()

    @staticmethod
    def listens_at(pid):
        """The TCP ports of loopback at which the process listens."""
        sockets = set()
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                found = re.match(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (pid, name)))
            except OSError:
                continue
            if found:
                sockets.add(found[1])
        ports = set()
        for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:
                ports.add(int(words[1].split(":")[1], 16))
        return ports

    def test_cut_connections_and_killed_relays_lose_and_repeat_nothing(self):
        program = [str(self.installation.root / "bin/examples" / PROGRAM), "--seconds=5"]
        counts, failures, left = cuts.run(self.installation, DELAY_RELAY, [program], cuts=25,
                                          device="cpu", cut_every_ms="200-800", jobs=2,
                                          kill_relays_every_ms="200-800", server_flags=self.OFFERED,
                                          variables={**APART, **self.CLIENT})
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)

    def test_relays_that_are_killed_during_large_copies_lose_and_repeat_nothing(self):
        program = [str(self.installation.root / "bin/examples" / PROGRAM), "--seconds=5", LARGE]
        counts, failures, left = cuts.run(self.installation, DELAY_RELAY, [program], cuts=15,
                                          device="cpu", cut_every_ms="300-900", jobs=2,
                                          kill_relays_every_ms="300-900", server_flags=self.OFFERED,
                                          variables={**APART, **self.CLIENT}, bulk_bytes=1)
        print(counts)
        self.assertFalse(failures, "\n".join(failures[:3]))
        self.assertFalse(left)


class UcxRelayTest(Relays, unittest.TestCase):
    TRANSPORT, OFFERED = "ucx", ("--ucx_networks=127.0.0.0/8",)

    def test_a_client_from_elsewhere_stays(self):
        with harness.server(self.installation, "--ucx_networks=10.0.0.0/8") as server:
            self.assertIn("transfers: 0 (now grpc)", self.run_program(server))

    def test_what_flags_cannot_mean_is_said(self):
        for flags in (["--ucx_networks=rack7"], ["--ucx_networks=10.0.0.0/40"],
                      ["--relay_ports=9-3"], ["--ucx_networks=10.0.0.0/8", "--shm=false"],
                      ["--ucx_networks=10.0.0.0/8", "--relay_ports=none"],
                      ["--ucx_transports=RC", "--ucx_networks=10.0.0.0/8"],
                      ["--ucx_transports=rc,,tcp", "--ucx_networks=10.0.0.0/8"],
                      ["--ucx_transports=posix,tcp", "--ucx_networks=10.0.0.0/8"],
                      ["--ucx_transports=all", "--ucx_networks=10.0.0.0/8"],
                      ["--ucx_transports=rc"]):
            said = subprocess.run(
                [str(self.installation.root / "bin/warpline-server"), "--check_config",
                 "--device=cpu", *flags],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(said.returncode, 2)
            name = re.match(r"--\w+", flags[0])[0]
            self.assertIn(name, said.stdout)


    def test_a_server_does_not_start_with_transports_that_its_ucx_lacks(self):
        said = subprocess.run(
            [str(self.installation.root / "bin/warpline-server"), "--device=cpu", "--listen=127.0.0.1:0",
             "--ucx_networks=127.0.0.0/8", "--ucx_transports=telepathy,tcp"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("--ucx_transports: ", said.stdout)
        self.assertIn("telepathy", said.stdout)
        self.assertIn("docs/transports.md", said.stdout)


class TlsRelayTest(Relays, unittest.TestCase):
    TRANSPORT = "tls"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory(prefix="warpline-relay-test-")
        subprocess.run(["bash", str(MAKE_CERTS), cls.folder.name, "127.0.0.1", "alice"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        of = lambda name: str(pathlib.Path(cls.folder.name, name))  # noqa: E731
        cls.OFFERED = ("--tls_ca=" + of("ca.crt"), "--tls_cert=" + of("server.crt"),
                       "--tls_key=" + of("server.key"))
        cls.CLIENT = {"WARPLINE_TLS_CA": of("ca.crt"), "WARPLINE_TLS_CERT": of("alice.crt"),
                      "WARPLINE_TLS_KEY": of("alice.key")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        super().tearDownClass()

    def test_a_server_may_have_none(self):
        with harness.server(self.installation, *self.OFFERED, "--relay_ports=none") as server:
            self.assertIn("transfers: 0 (now grpc)", self.run_program(server))
        # The secret of a relay is not told in plain text.
        with harness.server(self.installation) as server:
            _, stderr = harness.run(self.installation, server.endpoint, PROGRAM, "--seconds=1",
                                    stat=True, env=APART)
            self.assertIn("transfers: 0 (now grpc)", stderr)


if __name__ == "__main__":
    unittest.main()
