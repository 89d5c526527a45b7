#!/usr/bin/env python3
"""What one client did to end a server, or to leave no room in it, for as many rounds as are given.

A neighbour checks its results all the while. WARPLINE_HOSTILE_ROUNDS=1000 plays more of them.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

import harness
import local_server

ROUNDS = int(os.environ.get("WARPLINE_HOSTILE_ROUNDS", "32"))
# Of the user as whom a server runs that is to feel a limit: root feels none.
NOBODY = "65534"
TASKS = 500


class Neighbour:
    """Runs a program again and again until stop() gives how often it was right, and what was not."""

    def __init__(self, run):
        self._stop = threading.Event()
        self._runs, self._failures = 0, []
        self._thread = threading.Thread(target=self._go, args=(run,))
        self._thread.start()

    def _go(self, run):
        while not self._stop.is_set() and not self._failures:
            try:
                run()
                self._runs += 1
            except AssertionError as error:
                self._failures.append(str(error))

    def stop(self):
        self._stop.set()
        self._thread.join()
        return self._runs, self._failures


class SequencesTest(unittest.TestCase):
    def check(self, server, neighbour, sequences):
        """Plays with the command `sequences` beside the neighbour."""
        try:
            played = subprocess.run(sequences["command"], env=sequences.get("env"), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600)
        finally:
            runs, failures = neighbour.stop()
        print(played.stdout[-2000:], "neighbour's runs: %d" % runs, flush=True)
        self.assertTrue(server.running(), server.log_tail())
        self.assertEqual(played.returncode, 0, server.log_tail())
        self.assertEqual(failures, [])
        self.assertGreater(runs, 0)

    def test_memory_that_comes_while_a_lost_session_is_read_back(self):
        installation = harness.install(["vector_add"])
        self.addCleanup(installation.close)
        with harness.server(installation, "--session_memory=2GiB") as server:
            self.check(server, Neighbour(
                lambda: harness.run(installation, server.endpoint, "vector_add")),
                {"command": [str(harness.RUNFILES / "tests/hostile/sequences"),
                             "--endpoint=" + server.endpoint, "--sequence=read_back_race",
                             "--rounds=%d" % ROUNDS]})

    @unittest.skipIf(os.geteuid() != 0, "only root starts a server as a user of its own")
    def test_streams_leave_the_server_its_threads(self):
        built = harness.install(["vector_add"])
        self.addCleanup(built.close)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-sequences-"))
        self.addCleanup(shutil.rmtree, folder)
        root = shutil.copytree(built.root, folder / "warpline")
        folder.chmod(0o755)
        root.chmod(0o755)
        installation = local_server.Installation(root)
        scheduler = harness.Scheduler(installation)
        self.addCleanup(scheduler.close)
        environment = dict(os.environ, WARPLINE_OPERATOR_CREDENTIAL_FILE=str(
            scheduler.folder / "state/operator.credential"))
        environment.pop("WARPLINE_ENDPOINT", None)
        warpline = str(root / "bin/warpline")
        credential = folder / "credential"
        credential.write_text(subprocess.run(
            [warpline, "servers", "add", "--endpoint=" + scheduler.endpoint, "a"], env=environment,
            stdout=subprocess.PIPE, text=True, check=True).stdout)
        os.chown(credential, int(NOBODY), int(NOBODY))
        credential.chmod(0o600)
        prefix = ["setpriv", "--reuid=" + NOBODY, "--regid=" + NOBODY, "--clear-groups", "prlimit",
                  "--nproc=%d" % TASKS]
        # Two devices: one for the neighbour's lease.
        with local_server.Server(
                installation, ["--device=cpu:2", "--max_sessions=4", "--session_memory=1GiB",
                               "--scheduler=" + scheduler.endpoint, "--name=a",
                               "--scheduler_credential_file=%s" % credential], prefix) as server:
            harness.wait_until(lambda: "up server=a" in scheduler.log(), "the server is up")
            run = [warpline, "run", "--endpoint=" + scheduler.endpoint, "--memory=1GiB",
                   "--"]

            def neighbour():
                done = subprocess.run([*run, str(root / "bin/examples/vector_add")],
                                      env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=harness.GIVE_UP_S)
                assert done.returncode == 0 and "vector_add: ok" in done.stdout, done.stdout

            self.check(server, Neighbour(neighbour), {
                "command": [*run, str(harness.RUNFILES / "tests/hostile/sequences"),
                            "--sequence=many_streams", "--rounds=%d" % ROUNDS],
                "env": environment})


if __name__ == "__main__":
    unittest.main()
