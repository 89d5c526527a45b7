#!/usr/bin/env python3
"""What the client library and our programs leave to the programs beside them: descriptors, signals
that were inherited, and faults."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

PROGRAMS = RUNFILES / "tests/uses/programs"
# How a session goes: through memory that is shared with this host's server, by UCX, by gRPC to a
# name that must be looked up.
UCX_PORTS = range(24800, 24816)
WAYS = {
    "memory": {},
    "ucx": {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "relay"},
    "grpc": {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "0"},
}
# Says how it was started, as far as `warpline run` has a part in it.
INHERITED = """
import os, signal
ignored = [n.name for n in sorted(signal.valid_signals() & set(signal.Signals))
           if signal.getsignal(n) == signal.SIG_IGN and n not in (signal.SIGPIPE, signal.SIGXFSZ)]
blocked = [signal.Signals(n).name for n in sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))]
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
are_open = [is_open(fd) for fd in range(3)]
with open(os.environ["SAID"], "w") as said: print(ignored, blocked, are_open, file=said)
"""


def closing(*descriptors):
    """A command that executes what follows with these descriptors closed."""
    return ["sh", "-c", 'exec "$@" %s' % " ".join("%d>&-" % fd for fd in descriptors), "sh"]


class GuestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="warpline-guest-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.installation = harness.install([])
        cls.addClassCleanup(cls.installation.close)
        cls.warpline = str(cls.installation.root / "bin/warpline")
        for name in ("low_descriptors", "own_faults", "asks_nvml"):
            subprocess.run(["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
                            "-I", str(RUNFILES), str(PROGRAMS / (name + ".c")),
                            "-o", str(cls.folder / name), "-pthread"], check=True)

    def serve(self, *flags, prefix=()):
        server = harness.local_server.Server(
            self.installation,
            ["--device=" + harness.DEVICE, "--ucx_networks=127.0.0.0/8",
             "--relay_ports=%d-%d" % (UCX_PORTS[0], UCX_PORTS[-1]), *flags], prefix=prefix)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def start(self, server, *command, env=None, **options):
        environment = self.installation.client_environment(server.endpoint)
        environment.update(env or {})
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([str(word) for word in command], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True, **options)

    def end(self, server, *command, **options):
        """Exit status, standard output and standard error."""
        return harness.finish(self.start(server, *command, **options))

    # ---- Descriptors.

    def check_descriptors(self, server, what, argument, env):
        result = self.folder / "result"
        result.unlink(missing_ok=True)
        _, _, stderr = self.end(server, self.folder / "low_descriptors", result, what, argument,
                                env=env)
        said = result.read_text() if result.exists() else "nothing"
        self.assertEqual("ok 0\n", said, "%s %s: %s" % (what, argument, stderr))

    def test_descriptors_that_are_closed_stay_closed(self):
        server = self.serve()
        for way, env in WAYS.items():
            for closed in (1, 2, 4, 6, 7) if way == "memory" else (7,):
                with self.subTest(way=way, closed=closed):
                    self.check_descriptors(server, "closed", closed, env)

    def test_a_name_is_looked_up_while_descriptors_are_closed(self):
        server = self.serve()
        env = {**WAYS["grpc"],
               "WARPLINE_ENDPOINT": server.endpoint.replace("127.0.0.1", "localhost")}
        self.check_descriptors(server, "closed", 7, env)

    def test_descriptors_that_are_replaced_and_closed_meanwhile(self):
        server = self.serve()
        for way, env in WAYS.items():
            with self.subTest(way=way):
                mine = self.folder / ("mine-" + way)
                self.check_descriptors(server, "replaced", mine, env)
                self.assertEqual("12345678", mine.read_text())

    def test_all_low_numbers_are_the_program_s(self):
        server = self.serve()
        for way, env in WAYS.items():
            with self.subTest(way=way):
                self.check_descriptors(server, "taken", self.folder / ("taken-" + way), env)

    def test_nvml_where_descriptors_are_closed_and_children_ignored(self):
        server = self.serve()
        for closed in ((), (0,), (1,), (2,), (0, 1, 2)):
            for ignores in (False, True):
                with self.subTest(closed=closed, ignores=ignores):
                    result = self.folder / "nvml"
                    result.unlink(missing_ok=True)
                    self.end(server, *closing(*closed), self.folder / "asks_nvml", result,
                             preexec_fn=ignore_children if ignores else None)
                    self.assertEqual("1 device, %s\n" % [int(fd not in closed) for fd in range(3)],
                                     result.read_text())

    def test_our_programs_where_descriptors_are_closed(self):
        server = self.serve(prefix=closing(0, 1, 2))
        holder = self.start(server, *closing(0, 1, 2), self.warpline, "run", "--", "sleep", "600")
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        harness.wait_until(lambda: harness.children(holder.pid, "sleep"), "the program of run")
        ours = [server.pid, holder.pid, *harness.local_server.descendants(server.pid)]
        self.assertGreater(len(ours), 3)
        for process in ours:
            for fd in range(3):
                to = os.readlink("/proc/%d/fd/%d" % (process, fd))
                with self.subTest(process=process, fd=fd):
                    self.assertRegex(to, r"^/dev/null$|^/memfd:warpline-output")
        self.assertEqual((0, "1\n"), self.end(server, self.warpline, "run", "--", "echo", "1")[:2])

    def test_what_asks_a_server_where_descriptors_are_closed(self):
        server = self.serve()
        for closed in ((0,), (1,), (0, 1, 2)):
            for verb in (("ps",), ("stat",), ("devices",), ("explain", sys.executable)):
                with self.subTest(closed=closed, verb=verb):
                    status, _, stderr = self.end(server, *closing(*closed), self.warpline, *verb)
                    self.assertEqual(0, status, stderr)

    # ---- Signals that were inherited.

    def run_and_ask(self, server, prepare, prefix=()):
        """How `warpline run` ends, and what its program says of itself."""
        said = self.folder / "said"
        said.unlink(missing_ok=True)
        status, _, stderr = self.end(server, *prefix, self.warpline, "run", "--", sys.executable,
                                     "-c", INHERITED + "raise SystemExit(7)",
                                     env={"SAID": str(said)}, preexec_fn=prepare)
        self.assertEqual(7, status, stderr)
        return said.read_text()

    def test_run_ends_as_its_program_ends_and_hands_on_what_it_inherited(self):
        server = self.serve()
        everything_open = "[] [] [True, True, True]\n"
        self.assertEqual(everything_open, self.run_and_ask(server, None))
        self.assertEqual("['SIGCHLD'] [] [True, True, True]\n",
                         self.run_and_ask(server, ignore_children))

        def as_nohup():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)

        self.assertEqual("['SIGHUP', 'SIGINT'] [] [True, True, True]\n",
                         self.run_and_ask(server, as_nohup))

        def blocked():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR1])

        self.assertEqual("[] ['SIGUSR1', 'SIGCHLD'] [True, True, True]\n",
                         self.run_and_ask(server, blocked))
        self.assertEqual("[] [] [False, True, False]\n",
                         self.run_and_ask(server, None, prefix=closing(0, 2)))

    def test_run_tells_every_end_where_children_are_ignored(self):
        server = self.serve()
        for command, status in ((["true"], 0), (["false"], 1),
                                (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
                                (["/nonexistent/program"], 127), ([str(self.folder)], 126)):
            with self.subTest(command):
                self.assertEqual(status, self.end(server, self.warpline, "run", "--", *command,
                                                  preexec_fn=ignore_children)[0])

    def test_run_within_run_where_children_are_ignored(self):
        server = self.serve()
        self.assertEqual(5, self.end(server, self.warpline, "run", "--", self.warpline, "run", "--",
                                     "sh", "-c", "exit 5", preexec_fn=ignore_children)[0])

    def test_a_session_where_everything_is_ignored_or_blocked(self):
        server = self.serve()

        def prepare():
            ignore_children()
            for number in (signal.SIGPIPE, signal.SIGHUP, signal.SIGALRM, signal.SIGSEGV):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

        for way, env in WAYS.items():
            with self.subTest(way=way):
                status, stdout, stderr = self.end(server, self.folder / "own_faults", "blocked",
                                                  env=env, preexec_fn=prepare)
                self.assertEqual((0, "faults: ok\n"), (status, stdout), stderr)

    def test_a_server_that_inherits_ignored_and_blocked_signals(self):
        program = ("import os, signal, sys\n"
                   "for n in (signal.SIGCHLD, signal.SIGINT): signal.signal(n, signal.SIG_IGN)\n"
                   "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
                   "os.execv(sys.argv[1], sys.argv[1:])\n")
        server = self.serve(prefix=(sys.executable, "-c", program))
        self.assertEqual(0, self.end(server, self.folder / "own_faults", "returned")[0])
        # The terminal's interrupt was not meant for it.
        os.kill(server.pid, signal.SIGINT)
        self.assertEqual(0, self.end(server, self.folder / "own_faults", "returned")[0])
        # Each of its processes hears how its children end, and takes the signals that it waits for.
        ignored = signals(server.pid, "SigIgn")
        self.assertLessEqual({signal.SIGINT, signal.SIGPIPE}, ignored)
        self.assertNotIn(signal.SIGCHLD, ignored)
        for process in harness.local_server.descendants(server.pid):
            with self.subTest(process=process):
                self.assertLessEqual(signals(process, "SigIgn"), {signal.SIGPIPE})
                self.assertEqual(set(), signals(process, "SigBlk"))
        (supervisor,) = harness.children(server.pid, "warpline-supervisor")
        os.kill(supervisor, signal.SIGKILL)
        harness.wait_until(lambda: "supervisor of workers and keepers died" in server.log(),
                           "the supervisor's end is told")
        harness.wait_until(
            lambda: self.end(server, self.folder / "own_faults", "returned")[0] == 0,
            "another supervisor's processes")
        os.kill(server.pid, signal.SIGTERM)
        harness.wait_until(lambda: not server.running(), "the server's end")

    # ---- Faults.

    def faults(self, server, use, env=None, **options):
        return self.end(server, self.folder / "own_faults", use, env=env, **options)

    def test_faults_of_a_program_with_a_handler_of_its_own(self):
        server = self.serve()
        for use in ("before", "after", "delivered", "maskless", "returned", "ignored", "threads"):
            for way in ("memory", "grpc"):
                with self.subTest(use=use, way=way):
                    status, stdout, stderr = self.faults(server, use, WAYS[way])
                    self.assertEqual((0, "faults: ok\n"), (status, stdout), stderr)

    def test_another_signal_is_left_while_a_touch_waits_for_the_device(self):
        server = self.serve()
        status, stdout, stderr = self.faults(server, "left")
        self.assertEqual((0, "faults: ok"), (status, stdout[-11:-1]), stdout + stderr)

    def test_faults_that_end_the_program(self):
        server = self.serve()
        for use in ("default", "reset", "sent", "restored", "deferred"):
            with self.subTest(use=use):
                status, stdout, stderr = self.faults(server, use)
                self.assertEqual(-signal.SIGSEGV, status, stdout + stderr)
                self.assertEqual("" if use == "sent" else "faults: ends\n", stdout, stderr)


def signals(process, which):
    """Those that the process ignores ("SigIgn") or its first thread blocks ("SigBlk")."""
    text = pathlib.Path("/proc/%d/status" % process).read_text(encoding="ascii")
    mask = int(re.search(r"%s:\s*([0-9a-f]+)" % which, text)[1], 16)
    # The C library has signals of its own, which no program can set.
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


if __name__ == "__main__":
    unittest.main()
