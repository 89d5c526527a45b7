#!/usr/bin/env python3
"""Floods of HTTP/2 frames and of malformed requests, at the ports of a scheduler and of a server.

While they come, others are served and no server is lost; afterwards the peak of memory tells what
they cost. Without the meters (transport/grpc/meter) each of these floods takes gigabytes.
"""
import contextlib
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "chaos"))
import cuts  # noqa: E402  (found by the path above)

MOST_PEAK_KIB = 128 << 10
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, PING, WINDOW_UPDATE = 1, 3, 4, 6, 8


def frame(kind, flags, stream, payload=b""):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload)


def call_headers(path):
    """The headers of a call, with HPACK's static table (RFC 7541, appendix A)."""
    def text(value):
        return bytes([len(value)]) + value
    return (b"\x83\x86\x04" + text(path.encode()) + b"\x01" + text(b"host") + b"\x0f\x10" +
            text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers"))


def reset_streams(path):
    headers = call_headers(path)
    return lambda stream: frame(HEADERS, 4, stream, headers) + frame(RESET, 0, stream, b"\0\0\0\x08")


def broken_streams(path):
    headers = call_headers(path)
    return lambda stream: (frame(HEADERS, 4, stream, headers) +
                           frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"))


def empty_frames(kind, payload=b""):
    return lambda stream: frame(kind, 0, 0, payload) * 100


class Flood:
    """Sends pieces from a thread of its own until it ends. Makes a new connection when one is cut."""

    def __init__(self, port, piece):
        self._port, self._piece = port, piece
        self._stop = threading.Event()
        self.sent = self.connections = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as peer:
                self.connections += 1
                # Python would wait for as long as a timeout of its own before it reads.
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
                peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
                stream = 1
                while not self._stop.is_set():
                    peer.sendall(b"".join(self._piece(stream + 2 * i) for i in range(100)))
                    stream += 200
                    self.sent += 100
                    with contextlib.suppress(BlockingIOError):
                        while peer.recv(1 << 16, socket.MSG_DONTWAIT):
                            pass


def peak_kib(pid):
    for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no peak of %d" % pid)


class FloodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
            "bin/examples/vector_add": "examples/vector_add",
            "bin/examples/unary_flood": "tests/hostile/unary_flood"})
        cls.health = [cuts.free_port(), cuts.free_port()]
        cls.scheduler = harness.Scheduler(cls.installation, "--health_listen=127.0.0.1:%d" % cls.health[0])
        cls.server = harness.server(cls.installation, "--scheduler=" + cls.scheduler.endpoint, "--name=a",
                                    "--health_listen=127.0.0.1:%d" % cls.health[1])
        cls.server.__enter__()
        harness.wait_until(lambda: "up server=a" in cls.scheduler.log(), "the server is up")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.scheduler.close()
        cls.installation.close()

    def run_honest(self):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"], env["LD_LIBRARY_PATH"]
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + self.scheduler.endpoint, "--",
             str(self.installation.root / "bin/examples/vector_add")],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def play(self, name, port, pid, piece, least):
        """An honest client is served beside the flood, which goes on until it has sent `least`."""
        before = peak_kib(pid)
        with self.subTest(name), Flood(port, piece) as flood:
            self.run_honest()
            harness.wait_until(lambda: flood.sent >= least, "the flood comes")
            self.run_honest()
            grown = peak_kib(pid) - before
            self.assertLessEqual(grown, MOST_PEAK_KIB, "%d pieces" % flood.sent)
            self.assertGreater(flood.connections, 1, "nothing was cut")
        self.assertNotIn("lost server=", self.scheduler.log())

    def ports(self):
        scheduler = int(self.scheduler.endpoint.rsplit(":", 1)[1])
        server = int(self.server.endpoint.rsplit(":", 1)[1])
        return (("scheduler", scheduler, self.scheduler.process.pid),
                ("scheduler's health", self.health[0], self.scheduler.process.pid),
                ("server", server, self.server.pid),
                ("server's health", self.health[1], self.server.pid))

    def test_streams_that_are_reset(self):
        for name, port, pid in self.ports():
            for path in ("/warpline_internal.Gpu/Session", "/warpline_internal.Scheduler/Report"):
                self.play(name, port, pid, reset_streams(path), 20000)

    def test_streams_that_the_server_resets(self):
        for name, port, pid in self.ports():
            self.play(name, port, pid, broken_streams("/warpline_internal.Gpu/Session"), 20000)

    def test_malformed_reports(self):
        """Requests of a megabyte, all in parts of two bytes, which would become a hundred each."""
        pid = self.scheduler.process.pid
        for part in ("3200", "4a00", "4200"):  # Devices, sessions and idle leases of a report.
            before = peak_kib(pid)
            with self.subTest(part), subprocess.Popen(
                    [str(self.installation.root / "bin/examples/unary_flood"),
                     "--endpoint=" + self.scheduler.endpoint,
                     "--method=/warpline_internal.Scheduler/Report", "--part=" + part,
                     "--bytes=1100000", "--at_once=64", "--calls=2000"],
                    stdout=subprocess.PIPE, text=True) as flood:
                self.run_honest()
                answers = flood.communicate()[0]
                self.assertEqual(flood.returncode, 0, answers)
                self.assertNotIn("OK=", answers)
                self.run_honest()
                grown = peak_kib(pid) - before
                self.assertLessEqual(grown, MOST_PEAK_KIB, answers)
            self.assertNotIn("lost server=", self.scheduler.log())

    def test_frames_that_carry_nothing(self):
        for name, port, pid in self.ports():
            self.play(name, port, pid, empty_frames(SETTINGS), 20000)
            self.play(name, port, pid, empty_frames(PING, b"12345678"), 20000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
