#!/usr/bin/env python3
"""What befalls the lease of a job: its folder is taken away, its entry point gives up root, its
launcher returns before its daemon, its credential comes from an editor, its bundle lies anywhere."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
HERE = RUNFILES / "tests/uses"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

NOBODY = 65534
ONE = "import gpu_task; assert gpu_task.check(5)[0]; print('right')"
# What follows is the first process of a PID namespace.
NEW_PID_NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
# Becomes another user, keeps no descriptor, and goes on as the program of its arguments.
STEP_DOWN = """
import os, sys
os.setgroups([]); os.setgid(%d); os.setuid(%d)
os.closerange(3, 4096)
os.execv(sys.argv[1], sys.argv[1:])
""" % (NOBODY, NOBODY)
# Leaves a daemon behind, which waits for a file and then starts two programs, one after the other.
LAUNCHER = """
import os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
if os.fork() != 0: os._exit(7)
os.setsid()
if os.fork() != 0: os._exit(0)
os.closerange(0, 4096)
for _ in range(3): os.open(os.devnull, os.O_RDWR)
(folder / "pid").write_text(str(os.getpid()))
while not (folder / "go").exists(): time.sleep(0.05)
done = [subprocess.run([sys.executable, "-c", sys.argv[2]], capture_output=True, text=True)
        for _ in range(2)]
(folder / "part").write_text("".join(one.stdout + one.stderr for one in done))
(folder / "part").rename(folder / "said")
"""


def may_be_nobody():
    """Whether this process may become another user: root in a sandbox may not."""
    try:
        subprocess.run(["true"], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
        return True
    except (OSError, subprocess.SubprocessError):
        return False


def mark_of(text):
    """How a key names an endpoint or a file (common/lease/lease_key.cc)."""
    return hashlib.sha256(str(text).encode()).hexdigest()[:16]


def may_make_a_pid_namespace():
    done = subprocess.run([*NEW_PID_NAMESPACE, "true"], check=False, capture_output=True)
    return done.returncode == 0


def has_ended(pid):
    """Also where nobody has asked how it ended."""
    try:
        return re.search(r"^State:\tZ", pathlib.Path("/proc/%d/status" % pid).read_text(), re.M) is not None
    except (FileNotFoundError, ProcessLookupError):
        return True


class LeaseUsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Where other users can read it.
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-lease-uses-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.installation = harness.install([])
        cls.addClassCleanup(cls.installation.close)
        cls.bundle = cls.folder / "bundle"
        shutil.copytree(cls.installation.root, cls.bundle)
        shutil.copy(HERE / "gpu_task.py", cls.folder)
        for path in (cls.folder, *cls.folder.rglob("*")):
            path.chmod(0o755)
        cls.python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

    def setUp(self):
        self.scheduler = harness.Scheduler(self.installation)
        self.addCleanup(self.scheduler.close)
        self.serve("a")
        own = tempfile.TemporaryDirectory(prefix="warpline-lease-use-", dir="/tmp")
        self.addCleanup(own.cleanup)
        self.own = pathlib.Path(own.name)
        (self.own / "runtime").mkdir()

    def serve(self, name, *flags):
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint,
                                "--name=" + name, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=" + name in self.scheduler.log(), "server is up")

    def environment(self, **more):
        env = self.installation.client_environment("")
        del env["WARPLINE_ENDPOINT"], env["LD_LIBRARY_PATH"]
        env.update({"XDG_RUNTIME_DIR": str(self.own / "runtime"), "PYTHONPATH": str(self.folder),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "WARPLINE_OPERATOR_CREDENTIAL_FILE": str(
                        self.scheduler.folder / "state/operator.credential")})
        env.update(more)
        return env

    def warpline(self, *arguments, bundle=None, **more):
        """Returns (exit status, stdout, stderr)."""
        done = subprocess.run([str((bundle or self.bundle) / "bin/warpline"), *arguments],
                              env=self.environment(**more), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=harness.GIVE_UP_S)
        return done.returncode, done.stdout, done.stderr

    def run_under_lease(self, *command, **more):
        return self.warpline("run", "--endpoint=" + self.scheduler.endpoint, "--memory=1GiB", "--",
                             *command, **more)

    def start_under_lease(self, *command):
        process = subprocess.Popen(
            [str(self.bundle / "bin/warpline"), "run", "--endpoint=" + self.scheduler.endpoint,
             "--memory=1GiB", "--", *command], env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def leases(self):
        status, out, err = self.warpline("lease", "list", "--json",
                                         "--endpoint=" + self.scheduler.endpoint)
        self.assertEqual(0, status, err)
        return [lease for lease in json.loads(out)["leases"] if lease["state"] == "active"]

    def credential_of(self, thing, name):
        status, out, err = self.warpline(thing, "add", name,
                                         "--endpoint=" + self.scheduler.endpoint)
        self.assertEqual(0, status, err)
        return out.strip().encode()

    def end_at_last(self, pid):
        def end():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.addCleanup(end)

    def left_behind(self, said):
        """The id of the one process that `warpline run` says was left."""
        found = re.search(r"has ended and left processes running \(\S+ (\d+)\): ", said)
        self.assertTrue(found, said)
        self.end_at_last(int(found[1]))
        self.assertIn("`warpline hold`", said)
        return int(found[1])

    # --- Where the token is.

    def test_a_folder_that_is_taken_away_takes_no_lease_away(self):
        # The token that was there at the start has run out by then.
        job = ('test -e "$WARPLINE_TOKEN_FILE" && rm -r "$XDG_RUNTIME_DIR" && sleep %d && '
               'exec "$0" -c "$1"' % (harness.LEASE_TTL_S + 1))
        status, out, err = self.run_under_lease("sh", "-c", job, self.python, ONE)
        self.assertEqual((0, "right\n"), (status, out), err)

    def test_what_asks_for_devices_needs_no_folder_either(self):
        job = 'rm -r "$XDG_RUNTIME_DIR" && exec "$0" devices'
        status, out, err = self.run_under_lease("sh", "-c", job, str(self.bundle / "bin/warpline"))
        self.assertEqual(0, status, err)
        self.assertIn("\nuuid GPU-", out)

    def test_a_run_inside_of_a_run_needs_no_folder_either(self):
        job = 'rm -r "$XDG_RUNTIME_DIR" && exec "$0" run -- "$1" -c "$2"'
        status, out, err = self.run_under_lease("sh", "-c", job, str(self.bundle / "bin/warpline"),
                                                self.python, ONE)
        self.assertEqual((0, "right\n"), (status, out), err)
        self.assertEqual(1, self.scheduler.log().count("granted lease"))

    def test_programs_that_close_all_descriptors(self):
        job = ("import os, sys; os.closerange(3, 4096); "
               "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])")
        status, out, err = self.run_under_lease(self.python, "-c", job, ONE)
        self.assertEqual((0, "right\n"), (status, out), err)

    @unittest.skipUnless(may_be_nobody(), "needs the right to become another user")
    def test_an_entry_point_that_gives_up_root(self):
        status, out, err = self.run_under_lease(self.python, "-c", STEP_DOWN, self.python, "-c", ONE)
        self.assertEqual((0, "right\n"), (status, out), err)

    @unittest.skipUnless(may_be_nobody(), "needs the right to become another user")
    def test_another_user_learns_no_key(self):
        process = self.start_under_lease("sh", "-c", "echo $WARPLINE_LEASE_KEY; exec sleep 600")
        self.assertRegex(process.stdout.readline(), "^[0-9a-f]{96}\n$")
        for pid in (process.pid, *harness.children(process.pid, "sleep")):
            done = subprocess.run(["cat", "/proc/%d/environ" % pid], user=NOBODY, group=NOBODY,
                                  extra_groups=[], capture_output=True, check=False)
            self.assertEqual((1, b""), (done.returncode, done.stdout))
        process.terminate()
        harness.finish(process)

    def test_without_a_lease_the_error_says_what_to_do(self):
        done = subprocess.run(
            [self.python, "-c", ONE], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=harness.GIVE_UP_S, env=self.environment(
                LD_LIBRARY_PATH=str(self.bundle / "lib"), WARPLINE_ENDPOINT="127.0.0.1:1",
                WARPLINE_TOKEN_FILE=str(self.own / "token"),
                WARPLINE_LEASE_KEY=64 * "0" + mark_of("127.0.0.1:1") + mark_of(self.own / "token")))
        self.assertNotEqual(0, done.returncode)
        for part in ("`warpline run`", "has ended", str(self.own / "token"), "`warpline hold`"):
            self.assertIn(part, done.stderr)

    def test_a_program_that_names_another_endpoint_sends_it_no_token(self):
        # It dials the scheduler itself, which gives it a lease of its own.
        status, out, err = self.run_under_lease(
            "env", "WARPLINE_ENDPOINT=" + self.scheduler.endpoint, self.python, "-c", ONE)
        self.assertEqual((0, "right\n"), (status, out), err)
        self.assertEqual(2, self.scheduler.log().count("granted lease"))

    def test_a_token_file_that_a_program_names_itself_counts(self):
        status, _, err = self.run_under_lease(
            "env", "WARPLINE_TOKEN_FILE=/nonexistent/token", self.python, "-c", ONE)
        self.assertNotEqual(0, status)
        self.assertIn("/nonexistent/token", err)

    def test_variables_that_are_empty_name_no_lease(self):
        done = self.warpline("run", "--", "true", WARPLINE_ENDPOINT=self.scheduler.endpoint,
                             WARPLINE_LEASE_KEY="", WARPLINE_TOKEN_FILE="")
        self.assertEqual((0, "", ""), done)
        self.assertIn("granted lease", self.scheduler.log())

    def test_a_server_that_does_not_answer_is_told_of_before_a_token(self):
        status, _, err = self.warpline("stat", "--endpoint=127.0.0.1:1",
                                       WARPLINE_TOKEN_FILE="/nonexistent/token")
        self.assertEqual(1, status)
        self.assertIn("no answer from 127.0.0.1:1", err)

    # --- What a command leaves running.

    def test_a_launcher_that_returns_leaves_its_daemon_the_lease(self):
        status, _, err = self.run_under_lease(self.python, "-c", LAUNCHER, str(self.own), ONE)
        self.assertEqual(7, status, err)
        daemon = self.left_behind(err)
        self.assertEqual(str(daemon), (self.own / "pid").read_text())
        # The tokens that `warpline run` had have run out by then.
        time.sleep(harness.LEASE_TTL_S + 1)
        self.assertEqual(1, len(self.leases()))
        (self.own / "go").touch()
        harness.wait_until((self.own / "said").exists, "the daemon's programs end", timeout_s=120)
        self.assertEqual("right\nright\n", (self.own / "said").read_text())
        harness.wait_until(lambda: not self.leases(), "the lease is given back")
        harness.wait_until(lambda: not list((self.own / "runtime").iterdir()), "its folder is gone")

    def test_what_keeps_a_lease_gives_it_back_when_it_is_told_to(self):
        status, _, err = self.run_under_lease("sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 3")
        self.assertEqual(3, status, err)
        self.left_behind(err)
        self.assertEqual(1, len(self.leases()))
        os.kill(int(re.search(r"`kill (\d+)`", err)[1]), signal.SIGTERM)
        harness.wait_until(lambda: not self.leases(), "the lease is given back")

    def test_a_lease_that_is_revoked_ends_what_keeps_it(self):
        _, _, err = self.run_under_lease("sh", "-c", "sleep 600 >/dev/null 2>&1 &")
        self.left_behind(err)
        keeper = int(re.search(r"`kill (\d+)`", err)[1])
        status, _, err = self.warpline("lease", "revoke", self.leases()[0]["id"],
                                       "--endpoint=" + self.scheduler.endpoint)
        self.assertEqual(0, status, err)
        harness.wait_until(lambda: has_ended(keeper), "it ends")

    def test_a_command_that_is_told_to_end_ends_the_lease(self):
        process = self.start_under_lease(
            "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo up; wait")
        self.assertEqual("up\n", process.stdout.readline())
        process.terminate()
        status, _, err = harness.finish(process)
        self.assertEqual(128 + signal.SIGTERM, status, err)
        self.left_behind(err)
        self.assertIn("their lease ends", err)
        self.assertEqual([], self.leases())

    def test_a_command_that_goes_on_after_an_interrupt_leaves_its_daemon_the_lease(self):
        process = self.start_under_lease(
            "sh", "-c", "trap 'sleep 600 >/dev/null 2>&1 & exit 0' INT; echo up; "
            "while :; do sleep 0.1; done")
        self.assertEqual("up\n", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        status, _, err = harness.finish(process)
        self.assertEqual(0, status, err)
        self.left_behind(err)
        self.assertIn("keeps their lease", err)
        self.assertEqual(1, len(self.leases()))

    def test_children_from_before_are_not_the_commands(self):
        job = 'sleep 600 >/dev/null 2>&1 & echo $!; exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", job, "sh", str(self.bundle / "bin/warpline"), "run",
             "--endpoint=" + self.scheduler.endpoint, "--memory=1GiB", "--", "true"],
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        status, out, err = harness.finish(process)
        self.end_at_last(int(out))
        self.assertEqual((0, ""), (status, err))
        self.assertEqual([], self.leases())

    @unittest.skipUnless(may_make_a_pid_namespace(), "needs the right to make a PID namespace")
    def test_the_first_process_of_a_namespace_leaves_no_lease(self):
        done = subprocess.run(
            [*NEW_PID_NAMESPACE, str(self.bundle / "bin/warpline"), "run",
             "--endpoint=" + self.scheduler.endpoint, "--memory=1GiB", "--", "sh", "-c",
             "sleep 600 >/dev/null 2>&1 & exit 3"], env=self.environment(), check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.GIVE_UP_S)
        self.assertEqual(3, done.returncode, done.stderr)
        self.assertIn("first process of its PID namespace", done.stderr)
        self.assertEqual([], self.leases())

    def test_a_command_that_leaves_nothing_is_not_talked_about(self):
        # Orphans that have ended are no matter either.
        job = "(sh -c 'exit 0' &) ; sleep 0.5; exit 5"
        self.assertEqual((5, "", ""), self.run_under_lease("sh", "-c", job))
        self.assertEqual([], self.leases())

    # --- Credentials.

    def test_a_credential_is_the_same_however_its_file_was_written(self):
        credential = self.credential_of("tenant", "team")
        path = self.own / "credential"
        path.write_bytes(b"\xef\xbb\xbf" + self.credential_of("servers", "c") + b"\r\n")
        self.serve("c", "--scheduler_credential_file=%s" % path)
        ways = {"a line end": credential + b"\n", "no line end": credential,
                "CRLF": credential + b"\r\n", "BOM": b"\xef\xbb\xbf" + credential + b"\r\n",
                "an empty line": b"\n" + credential + b"\n\n"}
        for way, text in ways.items():
            with self.subTest(way):
                path.write_bytes(text)
                done = self.run_under_lease("true", WARPLINE_CREDENTIAL_FILE=str(path))
                self.assertEqual((0, "", ""), done)
        text = credential.decode() + "\r\n"
        self.assertEqual((0, "", ""), self.run_under_lease("true", WARPLINE_CREDENTIAL=text))
        refused = {"two words": (credential + b" x\n", "more than one word"),
                   "UTF-16": (credential.decode().encode("utf-16"), "UTF-16"),
                   "nothing": (b"\r\n", "it is empty")}
        for way, (text, why) in refused.items():
            with self.subTest(way):
                path.write_bytes(text)
                status, _, err = self.run_under_lease("true", WARPLINE_CREDENTIAL_FILE=str(path))
                self.assertEqual(1, status)
                self.assertIn("cannot read %s: " % path, err)
                self.assertIn(why, err)
                # And a program that dials the scheduler itself.
                done = subprocess.run(
                    [self.python, "-c", ONE], capture_output=True, text=True, check=False,
                    timeout=harness.GIVE_UP_S, env=self.environment(
                        LD_LIBRARY_PATH=str(self.bundle / "lib"),
                        WARPLINE_ENDPOINT=self.scheduler.endpoint,
                        WARPLINE_CREDENTIAL_FILE=str(path)))
                self.assertIn(why, done.stderr)

    # --- Where the bundle lies.

    def client_in(self, folder):
        (folder / "bin").mkdir(parents=True)
        shutil.copy(self.bundle / "bin/warpline", folder / "bin")
        shutil.copytree(self.bundle / "lib", folder / "lib")
        return folder

    def test_a_bundle_in_a_folder_with_odd_characters(self):
        for name in ("a b", "a%$b", "[a]*'"):
            with self.subTest(name):
                bundle = self.client_in(self.own / name)
                status, out, err = self.run_under_lease(self.python, "-c", ONE, bundle=bundle)
                self.assertEqual((0, "right\n"), (status, out), err)

    def test_a_bundle_that_the_linker_cannot_be_told_of_is_refused(self):
        for name in ("a:b", "a;b", "$ORIGIN", "${LIB}"):
            with self.subTest(name):
                bundle = self.client_in(self.own / name)
                status, _, err = self.run_under_lease(self.python, "-c", ONE, bundle=bundle)
                self.assertEqual(1, status)
                self.assertIn(str(bundle / "lib"), err)
                self.assertIn("LD_LIBRARY_PATH", err)
                self.assertIn("Move Warpline", err)
        self.assertNotIn("granted lease", self.scheduler.log())


if __name__ == "__main__":
    unittest.main()
