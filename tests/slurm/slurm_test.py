#!/usr/bin/python3
"""Leases of Slurm's jobs, by the scripts of deploy/slurm: a scheduler, a server with the CPU device, and a
cluster of one node. Skips itself where Slurm is not installed, or other users are not to be had."""
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402  (found by the path above)
import slurm_here  # noqa: E402

SCRIPTS = harness.RUNFILES / "deploy/slurm"
# Users that each Debian has. Root submits their jobs, and acts as them.
ALICE, BOB = "nobody", "games"
WAIT = 'touch "%(folder)s/$SLURM_JOB_ID.there"; while [ ! -e "%(folder)s/$SLURM_JOB_ID.go" ]; do sleep 0.1; done\n'


def may_be_others():
    """Whether this process may act as other users."""
    done = subprocess.run(["setpriv", "--reuid=" + BOB, "--regid=60", "--clear-groups", "true"],
                          capture_output=True, check=False)
    return done.returncode == 0


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="warpline-slurm-", dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        cls.install()
        cls.start_pool()
        cls.install_scripts()
        (cls.folder / "slurm").mkdir(mode=0o755)
        hooks = cls.folder / "etc"
        cls.slurm = slurm_here.Slurm(cls.folder / "slurm", {
            "Prolog": hooks / "prolog.sh", "Epilog": hooks / "epilog.sh", "TaskProlog": hooks / "task_prolog.sh",
            "PrologFlags": "Alloc", "HealthCheckProgram": hooks / "health_check.sh", "HealthCheckInterval": 1})
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    @classmethod
    def install(cls):
        """An installation where other users find it."""
        made = harness.installation_with({"bin/examples/vector_add": "examples/vector_add"})
        cls.addClassCleanup(made.close)
        shutil.copytree(made.root, cls.folder / "warpline")
        for path in [cls.folder / "warpline", *(cls.folder / "warpline").rglob("*")]:
            path.chmod(0o755)
        cls.installation = harness.Installation(cls.folder / "warpline")

    @classmethod
    def start_pool(cls):
        cls.scheduler = harness.Scheduler(cls.installation)
        cls.addClassCleanup(cls.scheduler.close)
        credentials = cls.folder / "credentials"
        (credentials / "users").mkdir(parents=True)
        credentials.chmod(0o700)
        for user, tenant in ((ALICE, "team-a"), (BOB, "team-b")):
            path = credentials / "users" / user
            path.write_text(cls.warpline("tenant", "add", tenant, "--memory=8GiB"))
            path.chmod(0o600)
        server = cls.folder / "server.credential"
        server.write_text(cls.warpline("servers", "add", "a"))
        made = harness.server(cls.installation, "--scheduler=" + cls.scheduler.endpoint, "--name=a",
                              "--scheduler_credential_file=%s" % server)
        made.__enter__()
        cls.addClassCleanup(made.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=a" in cls.scheduler.log(), "the server is up")

    @classmethod
    def install_scripts(cls, **changes):
        """Installs deploy/slurm as an operator does, with these settings."""
        target = cls.folder / "etc"
        target.mkdir(mode=0o755, exist_ok=True)
        for path in SCRIPTS.glob("*.sh"):
            (target / path.name).unlink(missing_ok=True)
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(0o755)
        cls.state = cls.folder / "state"
        settings = {"warpline": cls.installation.root / "bin/warpline", "endpoint": cls.scheduler.endpoint,
                    "credentials": cls.folder / "credentials", "state": cls.state,
                    "squeue": shutil.which("squeue", path=slurm_here.PATH), "wait": "1h", "no_lease": "fail",
                    **changes}
        text = (target / "settings.sh").read_text()
        for name, value in settings.items():
            assert "\n%s=" % name in text, name
            text += "%s=%s\n" % (name, value)
        text += "export SLURM_CONF=%s\n" % (cls.folder / "slurm/slurm.conf")
        (target / "settings.sh").write_text(
            text + "environment=(WARPLINE_CONNECT_TIMEOUT=%s)\n" % harness.PATIENT["WARPLINE_CONNECT_TIMEOUT"])

    @classmethod
    def warpline(cls, *arguments):
        """What the pool's operator is told."""
        env = cls.installation.client_environment(cls.scheduler.endpoint)
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(cls.scheduler.folder / "state/operator.credential")
        done = subprocess.run([str(cls.installation.root / "bin/warpline"), *arguments], env=env, text=True,
                              capture_output=True, check=False, timeout=harness.GIVE_UP_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leases(self):
        """Lease -> tenant."""
        listed = json.loads(self.warpline("lease", "list", "--json"))["leases"]
        return {one["id"]: one["tenant"] for one in listed if one["state"] == "active"}

    def tearDown(self):
        self.slurm.run("scancel", "--user=" + ALICE)
        self.slurm.run("scancel", "--user=" + BOB)
        self.nothing_is_left()

    def nothing_is_left(self):
        """Waits until no job is there, no lease, no folder, and no holder."""
        self.slurm.await_idle()
        # The epilog of a job that Slurm gave up runs beside what comes next.
        harness.wait_until(lambda: not self.leases() and not (self.state.exists() and list(self.state.iterdir())),
                           lambda: "nothing is left: %s\n%s" % (self.leases(), self.slurm.logs()))
        done = subprocess.run(["pgrep", "-f", "--", "hold --folder=%s" % self.state], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout, "")

    def compute(self):
        """Commands of a job that uses its lease."""
        return "%s/bin/warpline run -- %s/bin/examples/vector_add\n" % (
            self.installation.root, self.installation.root)

    def wait(self):
        """Commands of a job that waits to be let go."""
        return WAIT % {"folder": self.slurm.folder / "output"}

    def await_there(self, *jobs):
        for job in jobs:
            self.slurm.await_state(job, "RUNNING")
            path = self.slurm.folder / "output" / (job + ".there")
            harness.wait_until(path.exists, lambda job=job: "job %s goes on: %s\n%s" % (
                job, self.slurm.output(job), self.slurm.logs()))

    def let_go(self, *jobs):
        for job in jobs:
            (self.slurm.folder / "output" / (job + ".go")).touch()
            self.slurm.await_state(job, "COMPLETED")

    def start_waiting(self, *options, user=ALICE, before="", **more):
        job = self.slurm.submit(before + self.wait(), "--comment=warpline:memory=1GiB", *options, user=user, **more)
        self.await_there(job)
        return job

    def as_user(self, user, *command):
        """(exit status, what it said) of a command of another user."""
        group = subprocess.run(["id", "-g", user], capture_output=True, text=True, check=True).stdout.strip()
        done = subprocess.run(["setpriv", "--reuid=" + user, "--regid=" + group, "--clear-groups", *command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def holder(self, job):
        return int((self.state / job / "holder").read_text().split()[0])

    def leave_it_to_the_epilog(self):
        """Has the health check do nothing during this test: it would give leases back as well."""
        self.addCleanup(self.install_scripts)
        script = self.folder / "etc/health_check.sh"
        script.unlink()
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)

    def test_two_jobs_are_two_leases_and_the_epilog_gives_them_back(self):
        self.leave_it_to_the_epilog()
        jobs = [self.slurm.submit(self.compute() + self.compute() + self.wait(), "--comment=warpline:memory=2GiB",
                                  user=user) for user in (ALICE, BOB)]
        self.await_there(*jobs)
        self.assertEqual(sorted(self.leases().values()), ["team-a", "team-b"])
        for job in jobs:
            # Both programs were of the lease that the prolog had got.
            self.assertEqual(self.slurm.output(job).count("vector_add: ok"), 2, self.slurm.output(job))
        again = self.slurm.submit(self.compute() + self.wait(), "--comment=for me; warpline:memory=2GiB", user=ALICE)
        self.await_there(again)
        self.assertEqual(sorted(self.leases().values()), ["team-a", "team-a", "team-b"])
        self.let_go(jobs[0])
        harness.wait_until(lambda: sorted(self.leases().values()) == ["team-a", "team-b"],
                           "the first job's lease is given back, and the others stay")
        self.assertIn("vector_add: ok", self.slurm.output(again))
        self.let_go(jobs[1], again)

    def test_a_step_has_the_lease_too(self):
        job = self.slurm.submit("srun --ntasks=1 " + self.compute(), "--comment=warpline", user=ALICE,
                                env={"SLURM_CONF": str(self.slurm.conf)})
        self.slurm.await_state(job, "COMPLETED")
        self.assertIn("vector_add: ok", self.slurm.output(job))

    def test_a_job_that_does_not_ask_has_no_lease(self):
        job = self.slurm.submit("env; ls %s\n" % self.state, "--comment=not for a warplinefan", user=ALICE)
        self.slurm.await_state(job, "COMPLETED", "FAILED")
        self.assertNotIn("WARPLINE", self.slurm.output(job))
        self.assertFalse((self.state / job).exists())

    def test_all_jobs_of_a_partition_can_have_one(self):
        self.install_scripts(partitions='"other gpu"')
        self.addCleanup(self.install_scripts)
        job = self.slurm.submit(self.compute(), user=ALICE)
        self.slurm.await_state(job, "COMPLETED")
        self.assertIn("vector_add: ok", self.slurm.output(job))
        job = self.slurm.submit("env\n", "--partition=plain", user=ALICE)
        self.slurm.await_state(job, "COMPLETED")
        self.assertNotIn("WARPLINE", self.slurm.output(job))

    def test_a_cancelled_job_leaves_nothing(self):
        self.leave_it_to_the_epilog()
        job = self.start_waiting(before=self.compute())
        program = self.slurm.submit(self.wait(), "--comment=warpline", user=BOB)
        self.await_there(program)
        self.assertEqual(len(self.leases()), 2)
        self.slurm.cancel(job, program)
        self.nothing_is_left()

    def test_a_job_that_is_cancelled_while_it_waits_for_its_lease_leaves_nothing(self):
        self.leave_it_to_the_epilog()
        first = self.start_waiting("--comment=warpline:memory=8GiB")
        job = self.slurm.submit(self.compute(), "--comment=warpline:memory=8GiB", user=ALICE)
        harness.wait_until(lambda: (self.state / job / "log").exists()
                           and "waiting:" in (self.state / job / "log").read_text(), "the prolog waits")
        self.slurm.cancel(job)
        self.let_go(first)

    def test_a_lease_from_the_submitting_shell_is_not_the_jobs(self):
        job = self.slurm.submit(self.compute(), "--comment=warpline", user=ALICE, env={
            "WARPLINE_ENDPOINT": "127.0.0.1:9", "WARPLINE_TOKEN_FILE": "/nowhere", "WARPLINE_LEASE_KEY": "00"})
        self.slurm.await_state(job, "COMPLETED")
        self.assertIn("vector_add: ok", self.slurm.output(job))

    def fails(self, comment, why, user=ALICE):
        """A job with this comment fails, its output says why, and the node goes on."""
        job = self.slurm.submit(self.compute(), "--comment=" + comment, user=user)
        self.slurm.await_state(job, "FAILED")
        self.assertIn("warpline: no lease for this job: ", self.slurm.output(job), self.slurm.logs())
        self.assertRegex(self.slurm.output(job), why)
        self.assertNotIn("vector_add", self.slurm.output(job))
        self.slurm.await_node("IDLE", "MIXED")

    def test_a_job_that_asks_for_what_it_cannot_have_fails_and_says_why(self):
        self.fails("warpline:slice=huge", "huge")
        self.fails("warpline:gpus=0", "--gpus=0: expected 1 to")
        self.fails("warpline:memory=lots", "'memory=lots': expected memory=4GiB")

    def test_a_comment_brings_no_options_of_its_own(self):
        marker = self.folder / "marker"
        for comment in ("warpline:memory=1GiB,endpoint=127.0.0.1:9", "warpline:--endpoint=127.0.0.1:9",
                        "warpline:memory=1GiB;touch${IFS}%s" % marker, "warpline:slice=$(touch${IFS}%s)" % marker,
                        "warpline:slice=../x", "warpline:memory=1GiB,--share_token"):
            self.fails(comment, "expected memory=4GiB")
        self.assertFalse(marker.exists())

    def test_a_user_without_a_tenant_fails_and_the_node_goes_on(self):
        self.fails("warpline", "no tenant for the user daemon", user="daemon")

    def test_a_scheduler_that_is_down_fails_the_job(self):
        self.install_scripts(wait="0s")
        self.addCleanup(self.install_scripts)
        self.scheduler.kill()
        try:
            self.fails("warpline", "no lease within 0: no scheduler or server answers at " + self.scheduler.endpoint)
        finally:
            self.scheduler.start()
        self.await_scheduler()

    def await_scheduler(self):
        """A scheduler that was started again serves once its server has reported."""
        harness.wait_until(lambda: " up" in self.warpline("servers"), "the server has joined")

    def test_a_scheduler_that_is_down_drains_the_node_and_the_job_runs_later(self):
        self.install_scripts(wait="0s", no_lease="drain")
        self.addCleanup(self.install_scripts)
        self.scheduler.kill()
        try:
            job = self.slurm.submit(self.compute(), "--comment=warpline", "--requeue", user=ALICE)
            harness.wait_until(lambda: "DRAIN" in self.slurm.node_said()["State"], lambda: "the node is drained: %s\n%s"
                               % (self.slurm.node_said(), self.slurm.logs()))
            self.assertIn("Prolog error", self.slurm.node_said()["Reason"])
            self.slurm.await_state(job, "PENDING")
            harness.wait_until(lambda: not list(self.state.iterdir()), "the job has no folder")
        finally:
            self.scheduler.start()
        self.await_scheduler()
        self.install_scripts()
        self.slurm.resume_node()
        self.slurm.run("scontrol", "release", job)
        # Slurm lets two minutes pass before a requeued job starts again.
        self.slurm.run("scontrol", "update", "jobid=" + job, "starttime=now")
        self.slurm.await_state(job, "COMPLETED")
        self.assertIn("vector_add: ok", self.slurm.output(job))

    def test_a_job_without_room_does_not_drain_the_node(self):
        self.install_scripts(wait="0s", no_lease="drain")
        self.addCleanup(self.install_scripts)
        self.fails("warpline:memory=999GiB", "no lease within 0: ")
        self.assertNotIn("DRAIN", self.slurm.node_said()["State"])

    def test_a_lease_that_is_revoked_says_so_to_the_job(self):
        job = self.start_waiting()
        (lease,) = self.leases()
        self.warpline("lease", "revoke", lease, "--reason=maintenance")
        harness.wait_until(lambda: not (self.state / job / "token").exists(), "the holder has ended")
        self.assertIn("maintenance", (self.state / job / "log").read_text())
        self.let_go(job)

    def test_a_node_that_is_restarted_leaves_nothing(self):
        job = self.start_waiting("--no-requeue")
        # All processes of a machine end at once.
        self.slurm.kill_node()
        os.kill(self.holder(job), signal.SIGKILL)
        subprocess.run(["pkill", "-KILL", "-f", "slurmstepd: \\[%s" % job], check=False)
        subprocess.run(["pkill", "-KILL", "-u", ALICE], check=False)
        harness.wait_until(lambda: self.leases() == {}, "a lease that nobody renews ends")

        def is_given_up():
            self.slurm.start_node("-b")  # It says that the machine was restarted.
            if self.slurm.state(job) != "RUNNING":
                return True
            # Slurm forgives a node what it does not know of a job of the last seconds.
            self.slurm.kill_node()
            return False

        harness.wait_until(is_given_up, lambda: "Slurm gives the job up: " + self.slurm.logs())
        self.slurm.await_state(job, "NODE_FAIL")

    def test_a_node_that_slurm_has_lost_gives_the_lease_back_when_it_is_there_again(self):
        self.leave_it_to_the_epilog()
        job = self.start_waiting("--no-requeue")
        holder = self.holder(job)
        self.slurm.kill_node()
        self.slurm.run("scontrol", "update", "nodename=" + self.slurm.node, "state=down", "reason=lost")
        self.slurm.await_state(job, "NODE_FAIL")
        # The job goes on there, for all that Slurm knows, and so does its lease.
        self.assertEqual(len(self.leases()), 1)
        os.kill(holder, 0)
        self.slurm.run("scontrol", "update", "nodename=" + self.slurm.node, "state=resume")
        self.slurm.start_node()
        harness.wait_until(lambda: self.leases() == {}, lambda: "it is given back\n" + self.slurm.logs())

    def test_a_lease_without_a_job_is_given_back(self):
        """The node was away when Slurm gave the job up, and nothing of the job was left there."""
        job = self.start_waiting()
        (lease,) = self.leases()
        self.script("prolog.sh", SLURM_JOB_ID="999999", SLURM_JOB_UID=str(pwd.getpwnam(BOB).pw_uid),
                    SLURM_JOB_USER=BOB, SLURM_JOB_COMMENT="warpline")
        harness.wait_until(lambda: not (self.state / "999999").exists(), lambda: "it is given back\n" + self.slurm.logs())
        # That of the job stays.
        self.assertEqual(list(self.leases()), [lease])
        self.let_go(job)

    def script(self, name, status=0, **env):
        """Runs a script as Slurm does. Returns what it said on stderr."""
        done = subprocess.run([str(self.folder / "etc" / name)], env=env, capture_output=True, text=True, check=False,
                              timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_a_slurmd_that_is_restarted_leaves_the_lease_to_the_job(self):
        job = self.start_waiting()
        lease = self.leases()
        self.slurm.kill_node()
        self.slurm.start_node()
        self.slurm.await_state(job, "RUNNING")
        self.assertEqual(self.leases(), lease)
        self.let_go(job)

    def test_other_users_of_the_node_do_not_get_the_token(self):
        job = self.start_waiting()
        folder = self.state / job
        token = (folder / "token").read_text().strip()
        self.assertNotEqual(token, "")
        # The job's user reads it, and no other user.
        self.assertEqual(self.as_user(ALICE, "cat", str(folder / "token")), (0, token + "\n"))
        self.assertEqual((folder / "token").stat().st_uid, 0)
        for command in (["chmod", "644"], ["tee", "-a"], ["rm"]):
            self.assertNotEqual(self.as_user(ALICE, *command, str(folder / "token"))[0], 0)
        status, said = self.as_user(BOB, "cat", str(folder / "token"))
        self.assertEqual((status, "Permission denied" in said), (1, True), said)
        # Another user's job is another user.
        thief = self.slurm.submit("cat %s/token; WARPLINE_LEASE_FOLDER=%s %s" % (folder, folder, self.compute()),
                                  user=BOB)
        self.slurm.await_state(thief, "FAILED")
        self.assertIn("Permission denied", self.slurm.output(thief))
        self.assertNotIn("vector_add: ok", self.slurm.output(thief))
        self.holder_gives_nothing_away(job, token)
        self.folder_is_roots(job)
        # No log and no variable has it.
        shown = self.slurm.log("slurmd") + self.slurm.log("slurmctld") + str(self.slurm.job_said(job))
        self.assertNotIn(token, shown)

    def holder_gives_nothing_away(self, job, token):
        holder = self.holder(job)
        process = pathlib.Path("/proc/%d" % holder)
        credential = (self.folder / "credentials/users" / ALICE).read_text().strip()
        for name in ("cmdline", "environ"):
            text = (process / name).read_bytes().decode()
            self.assertNotIn(token, text)
            self.assertNotIn(credential, text)
        for user in (ALICE, BOB):
            for name in ("environ", "mem", "maps"):
                self.assertEqual(self.as_user(user, "cat", str(process / name))[0], 1, name)
            self.assertNotEqual(self.as_user(user, "kill", "-9", str(holder))[0], 0)
            status, said = self.as_user(user, "cat", str(self.folder / "credentials/users" / ALICE))
            self.assertEqual(status, 1, said)
            self.assertEqual(self.as_user(user, "cat", str(self.state / job / "log"))[0], 1)
        # It has given up root's rights.
        status = (process / "status").read_text()
        self.assertRegex(status, r"CapEff:\s*0*\n")
        self.assertRegex(status, r"NoNewPrivs:\s*1\n")
        # It has none of slurmd's files.
        opened = {os.readlink(path) for path in (process / "fd").iterdir()}
        self.assertEqual({one for one in opened if str(self.slurm.folder) in one}, set())

    def folder_is_roots(self, job):
        """Nobody but root puts files there, where root's process writes."""
        folder = self.state / job
        for user in (ALICE, BOB):
            for command in (["ln", "-sf", "/etc/passwd", str(folder / "token.part")],
                            ["mv", str(folder), str(folder) + ".away"], ["rm", "-f", str(folder / "token")],
                            ["mkdir", str(self.state / "77")], ["chmod", "777", str(folder)]):
                self.assertNotEqual(self.as_user(user, *command)[0], 0, command)

    def test_a_token_that_was_kept_is_worth_nothing_after_the_job(self):
        kept = self.slurm.folder / "output/kept"
        job = self.slurm.submit("cp -r $WARPLINE_LEASE_FOLDER/{token,endpoint} %s\n" % self.slurm.folder.joinpath("output")
                                + self.wait(), "--comment=warpline", user=ALICE)
        self.await_there(job)
        kept.mkdir()
        self.addCleanup(shutil.rmtree, kept)
        for name in ("token", "endpoint"):
            (self.slurm.folder / "output" / name).rename(kept / name)
        program = ["env", "WARPLINE_LEASE_FOLDER=%s" % kept, *self.compute().split()]
        kept.chmod(0o755)
        status, said = self.as_user(ALICE, *program)
        self.assertIn("vector_add: ok", said)
        self.let_go(job)
        self.slurm.await_idle()
        status, said = self.as_user(ALICE, *program)
        self.assertNotEqual(status, 0)
        self.assertNotIn("vector_add: ok", said)

    def test_settings_that_others_may_change_are_not_read(self):
        settings = self.folder / "etc/settings.sh"
        self.addCleanup(self.install_scripts)
        for change in (lambda: settings.chmod(0o757), lambda: os.chown(settings, 65534, 0)):
            self.install_scripts()
            change()
            for script in ("prolog.sh", "epilog.sh", "health_check.sh"):
                said = self.script(script, status=1, SLURM_JOB_ID="1", SLURM_JOB_UID="0", SLURM_JOB_COMMENT="warpline")
                self.assertRegex(said, "others may write to|belongs to another user")
        self.assertFalse((self.state / "1").exists())


if __name__ == "__main__":
    REASON = slurm_here.why_not()
    if REASON is None and not may_be_others():
        REASON = "this user may not act as others"
    if REASON is not None:
        harness.skip(REASON)
    unittest.main()
