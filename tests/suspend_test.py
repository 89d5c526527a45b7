#!/usr/bin/env python3
"""A suspended session keeps nothing on the device, and its program goes on with its next call."""
import array
import fcntl
import json
import os
import pathlib
import resource
import signal
import tempfile
import termios
import unittest

import harness
from paging_case import GUARDED, PROGRAM, SWAP, PagingCase


def limit_file_sizes(pid, size):
    """No file that the process writes grows beyond `size`, as on a disk that is full."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class SlowDisk:
    """A server whose disk reads and writes a piece when it is allowed to."""

    def __init__(self, installation):
        self._folder = tempfile.TemporaryDirectory()
        self._root = pathlib.Path(self._folder.name)
        swap = self._root / "swap"
        swap.mkdir()
        prefix = ["env", "LD_PRELOAD=%s" % (harness.RUNFILES / "tests/chaos/libslow_disk.so"),
                  "DISK_FOLDER=%s" % swap]
        prefix += ["DISK_%s=%s" % (which.upper(), self._root / which) for which in ("reads", "writes")]
        self._pipes = {}
        self.server = harness.local_server.Server(
            installation, ["--device=" + harness.DEVICE, "--swap_host=64MiB", "--swap_dir=%s" % swap],
            prefix=prefix)

    def __enter__(self):
        self.server.__enter__()
        for which in ("reads", "writes"):
            os.mkfifo(self._root / which)
            self._pipes[which] = os.open(self._root / which, os.O_RDWR)
        return self

    def __exit__(self, *what):
        for which in self._pipes:
            self.allow(which, 1 << 12)  # It ends with what it does.
        self.server.__exit__(*what)
        for pipe in self._pipes.values():
            os.close(pipe)
        self._folder.cleanup()

    def allow(self, which, pieces):
        os.write(self._pipes[which], b"." * pieces)

    def taken(self, which):
        """Returns true once all that was allowed is done, or under way."""
        count = array.array("i", [0])
        fcntl.ioctl(self._pipes[which], termios.FIONREAD, count)
        return count[0] == 0


class SuspendTest(PagingCase):
    def started(self, server, name=PROGRAM, *arguments, **options):
        if name == PROGRAM:
            arguments += ("--words=2048",)
        return harness.start_held(self.installation, server.endpoint, name, *arguments, **options)

    def suspended(self, server):
        sessions = self.sessions(server)
        return bool(sessions) and all(session["state"] == "suspended" for session in sessions)

    def test_again_and_again_the_results_are_right(self):
        with harness.server(self.installation, SWAP, "--warm_workers=1") as server:
            program = self.started(server)
            # One that is about to call is not suspended, which is no error of the program's.
            done = 0
            while done < 10:
                status, output = self.warpline(server, "suspend")
                done += status == 0 and "suspended" in output
                if status != 0:
                    self.assertRegex(output, "gone on meanwhile|being replaced")
            self.page(server, "resume", "resumed")
            self.finish(program, server)

    def test_it_keeps_nothing_on_the_device_until_its_next_call(self):
        with harness.server(self.installation, SWAP) as server:
            program = self.started(server, PROGRAM, "--rest_ms=0")
            os.kill(program.pid, signal.SIGSTOP)
            before, = self.sessions(server)
            self.page(server, "suspend", "suspended")
            session, = self.sessions(server)
            self.assertEqual(session["state"], "suspended")
            self.assertEqual(int(session["away_bytes"]), int(before["memory_bytes"]))
            self.assertEqual(int(session.get("memory_bytes", 0)), 0)
            self.assertEqual(int(session.get("worker_pid", 0)), 0)
            self.assertFalse(pathlib.Path("/proc/%d" % int(before["worker_pid"])).exists())
            for verb, said in (("suspend", "suspended"), ("page-out", "away"), ("replace", "replaced")):
                self.page(server, verb, said)
            self.assertTrue(self.suspended(server))
            os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(lambda: self.sessions(server)[0]["state"] == "open", "it does not go on")
            self.assertEqual(int(self.sessions(server)[0]["restarts"]), 1)
            self.finish(program, server)

    def test_a_guarded_session_keeps_its_addresses(self):
        guarded = {"WARPLINE_TIER": "guarded"}
        with harness.server(self.installation, SWAP, *GUARDED) as server:
            program = harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048",
                                         "--rest_ms=0", env=guarded)
            session, = self.sessions(server)

            def restarts():
                return sum(int(one.get("restarts", 0)) for one in self.sessions(server)
                           if one["id"] == session["id"])

            for _ in range(3):
                os.kill(program.pid, signal.SIGSTOP)
                before = restarts()
                self.page(server, "suspend", "suspended", str(session["id"]))
                # Sessions that come meanwhile get other addresses.
                others = [harness.start_held(self.installation, server.endpoint, PROGRAM, "--words=2048",
                                             env=guarded) for _ in range(3)]
                os.kill(program.pid, signal.SIGCONT)
                harness.wait_until(lambda: restarts() > before, "it does not go on")
                for other in others:
                    self.finish(other, server)
            self.finish(program, server)

    def test_the_operator_has_it_go_on(self):
        with harness.server(self.installation, SWAP) as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            self.page(server, "suspend", "suspended")
            self.page(server, "page-in", "its memory is back")
            self.assertEqual(self.sessions(server)[0]["state"], "open")
            self.page(server, "suspend", "suspended", "1")
            self.page(server, "resume", "resumed", "1")
            self.assertEqual(self.sessions(server)[0]["state"], "open")
            os.kill(program.pid, signal.SIGCONT)
            self.finish(program, server)

    def test_one_whose_memory_is_away_already_is_suspended_too(self):
        with harness.server(self.installation, SWAP) as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            self.page(server, "page-out", "its memory is away")
            self.page(server, "suspend", "suspended")
            self.assertTrue(self.suspended(server))
            os.kill(program.pid, signal.SIGCONT)
            self.finish(program, server)

    def test_module_variables_and_mapped_memory_are_there_again(self):
        for name in ("variables", "mapped_memory", "pinned_memory"):
            with self.subTest(name), harness.server(self.installation, SWAP) as server:
                program = self.started(server, name)
                for _ in range(3):
                    os.kill(program.pid, signal.SIGSTOP)
                    self.page(server, "suspend", "suspended")
                    os.kill(program.pid, signal.SIGCONT)
                    harness.wait_until(lambda: self.sessions(server)[0]["state"] == "open",
                                       "it does not go on")
                self.finish(program, server, name)

    def test_a_client_that_ends_or_dies_leaves_nothing(self):
        with harness.server(self.installation, SWAP, "--resume_seconds=1") as server:
            for end in (signal.SIGKILL, signal.SIGTERM):
                program = self.started(server)
                os.kill(program.pid, signal.SIGSTOP)
                self.page(server, "suspend", "suspended")
                os.kill(program.pid, end)
                os.kill(program.pid, signal.SIGCONT)
                program.communicate()
                harness.wait_until(lambda: not self.sessions(server), "the session stays")
            self.finish(self.started(server), server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs two devices")
    def test_what_would_be_lost_is_refused_by_name(self):
        # The later flag holds.
        with harness.server(self.installation, SWAP, "--device=cpu:2") as server:
            program = self.started(server, "both_devices", env={"CUDA_VISIBLE_DEVICES": "0,1"})
            status, output = self.warpline(server, "suspend")
            self.assertEqual(status, 1, output)
            self.assertIn("several devices", output)
            self.assertEqual(self.sessions(server)[0]["state"], "open")
            self.finish(program, server, "both_devices")

    def test_sessions_are_chosen_by_tenant_and_lease(self):
        with harness.server(self.installation, SWAP) as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            for option in ("--tenant=nobody", "--lease=0123456789abcdef"):
                status, output = self.warpline(server, "suspend", option)
                self.assertEqual(status, 1, output)
                self.assertIn("no session of that", output)
            tenant = self.sessions(server)[0].get("tenant", "")
            if tenant:
                self.page(server, "suspend", "suspended", "--tenant=" + tenant)
            os.kill(program.pid, signal.SIGCONT)
            self.finish(program, server)

    def test_an_idle_session_is_suspended_by_itself(self):
        with harness.server(self.installation, SWAP, "--idle=200ms") as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            harness.wait_until(lambda: self.suspended(server), "it stays open")
            self.assertRegex(server.log(), r"suspended session=1 ")
            os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(lambda: not self.suspended(server), "it does not go on")
            self.finish(program, server)

    @unittest.skipUnless(harness.DEVICE == "cpu", "needs two devices")
    def test_of_an_idle_session_that_cannot_be_suspended_the_memory_leaves(self):
        with harness.server(self.installation, SWAP, "--idle=200ms", "--device=cpu:2") as server:
            program = self.started(server, "both_devices", env={"CUDA_VISIBLE_DEVICES": "0,1"})
            os.kill(program.pid, signal.SIGSTOP)
            harness.wait_until(lambda: int(self.sessions(server)[0].get("away_bytes", 0)) > 0,
                               "its memory stays")
            os.kill(program.pid, signal.SIGCONT)
            self.finish(program, server, "both_devices")

    def swap_used(self, server):
        return int(json.loads(self.warpline(server, "stat", "--json")[1]).get("swap_bytes", 0))

    def test_its_memory_goes_on_to_a_file_and_comes_back(self):
        with tempfile.TemporaryDirectory() as folder, harness.server(
                self.installation, "--swap_host=64MiB", "--swap_dir=" + folder) as server:
            program = self.started(server)
            for _ in range(3):
                os.kill(program.pid, signal.SIGSTOP)
                self.page(server, "suspend", "suspended")
                harness.wait_until(lambda: self.swap_used(server) == 0, "it takes host memory")
                self.assertIn("memory is in a file session=1 ", server.log())
                self.assertEqual(os.listdir(folder), [])
                os.kill(program.pid, signal.SIGCONT)
                harness.wait_until(lambda: self.sessions(server)[0]["state"] == "open",
                                   "it does not go on")
            self.finish(program, server)

    def test_a_session_that_ends_while_it_is_in_a_file_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder, harness.server(
                self.installation, "--swap_host=64MiB", "--swap_dir=" + folder,
                "--resume_seconds=1") as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            self.page(server, "suspend", "suspended")
            harness.wait_until(lambda: self.swap_used(server) == 0, "it takes host memory")
            program.kill()
            program.communicate()
            harness.wait_until(lambda: not self.sessions(server), "the session stays")
            self.finish(self.started(server), server)

    def test_where_the_disk_is_full_it_stays_in_host_memory(self):
        with tempfile.TemporaryDirectory() as folder, harness.server(
                self.installation, "--swap_host=64MiB", "--swap_dir=" + folder) as server:
            program = self.started(server)
            os.kill(program.pid, signal.SIGSTOP)
            limit_file_sizes(server.pid, 1 << 20)
            self.page(server, "suspend", "suspended")
            harness.wait_until(lambda: "memory stays in host memory session=1 " in server.log(),
                               "it is not said")
            self.assertGreater(self.swap_used(server), 0)
            limit_file_sizes(server.pid, resource.RLIM_INFINITY)  # Memory that is shared counts, too.
            os.kill(program.pid, signal.SIGCONT)
            self.finish(program, server)

    # Some twenty pieces.
    LARGE = "--words=%d" % (7 << 18)

    def stopped_and_suspended(self, server):
        program = harness.start_held(self.installation, server.endpoint, PROGRAM, self.LARGE)
        os.kill(program.pid, signal.SIGSTOP)
        self.page(server, "suspend", "suspended")
        return program

    def test_on_a_slow_disk_a_program_waits_for_one_piece_to_be_written(self):
        with SlowDisk(self.installation) as disk:
            program = self.stopped_and_suspended(disk.server)
            disk.allow("writes", 2)
            harness.wait_until(lambda: disk.taken("writes"), "nothing is written")
            os.kill(program.pid, signal.SIGCONT)
            harness.wait_until(lambda: "resumes session=1 " in disk.server.log(), "it is not wanted")
            disk.allow("writes", 2)  # Those on their way.
            self.finish(program, disk.server)
            self.assertNotIn("memory is in a file", disk.server.log())

    def test_on_a_slow_disk_a_program_waits_for_its_memory_and_others_go_on(self):
        with SlowDisk(self.installation) as disk:
            program = self.stopped_and_suspended(disk.server)
            disk.allow("writes", 100)
            harness.wait_until(lambda: self.swap_used(disk.server) == 0, "it takes host memory")
            os.kill(program.pid, signal.SIGCONT)
            disk.allow("reads", 2)
            harness.wait_until(lambda: disk.taken("reads"), "nothing is read")
            self.finish(self.started(disk.server), disk.server)
            session, = self.sessions(disk.server)
            self.assertEqual(session["state"], "suspended")
            disk.allow("reads", 100)
            self.finish(program, disk.server)

    def test_a_folder_that_takes_no_files_is_refused(self):
        for flags, said in ((("--swap_dir=/tmp",), "--swap_dir needs --swap_host"),
                            ((SWAP, "--swap_dir=/no/such/folder"), "/no/such/folder")):
            with self.assertRaises(harness.local_server.Error) as raised:
                with harness.server(self.installation, *flags):
                    pass
            self.assertIn(said, str(raised.exception))

    def test_idle_needs_memory_of_the_host(self):
        with self.assertRaises(harness.local_server.Error) as raised:
            with harness.server(self.installation, "--idle=10m"):
                pass
        self.assertIn("--idle needs --swap_host", str(raised.exception))

    def test_it_is_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            with harness.server(self.installation, SWAP, "--audit_dir=" + folder) as server:
                program = self.started(server)
                os.kill(program.pid, signal.SIGSTOP)
                self.page(server, "suspend", "suspended")
                self.page(server, "resume", "resumed")
                os.kill(program.pid, signal.SIGCONT)
                self.finish(program, server)
            recorded = "".join(path.read_text() for path in pathlib.Path(folder).glob("*"))
            for said in ('"action":"suspend"', '"action":"resume"', "worker.suspended", "worker.replaced"):
                self.assertIn(said, recorded)


if __name__ == "__main__":
    unittest.main()
