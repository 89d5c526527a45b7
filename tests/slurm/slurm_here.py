"""Starts Slurm on this machine from Debian's packages: munged, slurmctld and slurmd in a folder of their
own, with one node. An example:

    with Slurm(folder, {"Prolog": "/path/prolog.sh"}) as slurm:
        job = slurm.submit("hostname", user="nobody")
        slurm.await_state(job, "COMPLETED")

As root, jobs are of any user. An ordinary user has jobs of its own alone. Not thread-safe.
"""
import os
import pathlib
import pwd
import shutil
import socket
import subprocess

import harness
import local_server

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "squeue")
# Debian installs the daemons where ordinary users do not look.
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
# The words of slurmctld when a node has told it of itself.
REGISTERED = "_slurm_rpc_node_registration complete for"
# So often Slurm is started, with other ports each time.
TRIES = 5
# States that a job does not leave.
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY")


def why_not():
    """The reason why there can be no Slurm here, or None."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    return "there is no %s (Debian: slurmctld, slurmd, slurm-client, munge)" % ", ".join(missing) if missing else None


class Slurm:
    """A cluster of this machine alone. `node` is its name, and `folder` has what it writes."""

    def __init__(self, folder, settings):
        self.folder = pathlib.Path(folder)
        self.node = socket.gethostname().split(".")[0]
        self._processes = {}
        for name in ("munge", "controller", "node", "output"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "output").chmod(0o1777)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        user = pwd.getpwuid(os.geteuid()).pw_name
        self.conf = self.folder / "slurm.conf"
        self._wanted = {
            "ClusterName": "test", "SlurmctldHost": "%s(127.0.0.1)" % self.node,
            "SlurmUser": user, "SlurmdUser": user,
            "AuthType": "auth/munge", "AuthInfo": "socket=%s" % (self.folder / "munge/socket"),
            "CredType": "cred/munge",
            "StateSaveLocation": self.folder / "controller", "SlurmdSpoolDir": self.folder / "node",
            "SlurmctldPidFile": self.folder / "controller.pid", "SlurmdPidFile": self.folder / "node.pid",
            "SlurmctldDebug": "debug2", "MailProg": "/bin/true", "MpiDefault": "none", "SwitchType": "switch/none",
            "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none",
            "AccountingStorageType": "accounting_storage/none", "JobAcctGatherType": "jobacct_gather/none",
            "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU",
            # So many jobs at a time, whatever this machine has.
            "SlurmdParameters": "config_overrides", "ReturnToService": 2, "KillWait": 5,
            "SchedulerParameters": "sched_min_interval=0,batch_sched_delay=0", **settings}

    def _write_conf(self):
        wanted = {**self._wanted, "SlurmctldPort": local_server.free_port(), "SlurmdPort": local_server.free_port()}
        lines = ["%s=%s" % pair for pair in wanted.items()]
        lines += ["NodeName=%s NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN" % self.node,
                  "PartitionName=gpu Nodes=%s Default=YES MaxTime=INFINITE State=UP" % self.node,
                  "PartitionName=plain Nodes=%s MaxTime=INFINITE State=UP" % self.node]
        self.conf.write_text("\n".join(lines) + "\n")

    def environment(self):
        """The environment of Slurm's programs."""
        return {"PATH": PATH, "SLURM_CONF": str(self.conf), "HOME": "/", "LC_ALL": "C"}

    def __enter__(self):
        munge = self.folder / "munge"
        self._start("munged", "--foreground", "--force", "--socket=%s" % (munge / "socket"),
                    "--key-file=%s" % (munge / "key"), "--pid-file=%s" % (munge / "pid"),
                    "--log-file=%s" % (munge / "log"), "--seed-file=%s" % (munge / "seed"))
        harness.wait_until((munge / "socket").exists, lambda: "munged runs: " + self.log("munged"))
        for _ in range(TRIES):
            self._write_conf()
            self._start("slurmctld", "-D")
            harness.wait_until(lambda: self._ended("slurmctld") or self._controller_answers(),
                               lambda: "the controller is there: " + self.logs())
            if not self._ended("slurmctld") and self._try_node():
                return self
            # Another program has taken a port meanwhile.
            self._end("slurmd")
            self._end("slurmctld")
        raise AssertionError("Slurm does not start: " + self.logs())

    def _controller_answers(self):
        return subprocess.run(["scontrol", "ping"], env=self.environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    def __exit__(self, *_):
        for name in ("slurmd", "slurmctld", "munged"):
            self._end(name)

    def _start(self, name, *arguments):
        with open(self.folder / (name + ".log"), "ab") as log:
            self._processes[name] = subprocess.Popen(
                # They end with the test, however that ends.
                ["setpriv", "--pdeathsig=TERM", shutil.which(name, path=PATH), *arguments], env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)

    def _end(self, name, signal="terminate"):
        process = self._processes.pop(name, None)
        if process is not None:
            getattr(process, signal)()
            process.wait(harness.GIVE_UP_S)

    def _ended(self, name):
        return self._processes[name].poll() is not None

    def log(self, name):
        log = self.folder / (name + ".log")
        return log.read_text(errors="replace") if log.exists() else ""

    def logs(self):
        return "\n".join("%s: %s" % (name, self.log(name)[-3000:]) for name in ("slurmctld", "slurmd"))

    def start_node(self, *options):
        """Starts slurmd. It has told the controller of itself, and of its jobs, when this returns."""
        assert self._try_node(*options), "slurmd has ended: " + self.logs()

    def _try_node(self, *options):
        former = self.log("slurmctld").count(REGISTERED)
        self._start("slurmd", "-D", *options)
        harness.wait_until(lambda: self._ended("slurmd") or self.log("slurmctld").count(REGISTERED) > former,
                           lambda: "the node is there: " + self.logs())
        if self._ended("slurmd"):
            return False
        self.await_node("IDLE", "MIXED", "ALLOCATED")
        return True

    def kill_node(self):
        """Ends slurmd as a node that loses its power; jobs' processes go on."""
        self._end("slurmd", "kill")

    def run(self, *command, status=0):
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False,
                              timeout=harness.GIVE_UP_S)
        assert done.returncode == status, "%s: %s%s" % (command, done.stdout, done.stderr)
        return done.stdout

    def node_said(self):
        """name -> value of what Slurm says of the node."""
        said = subprocess.run(["scontrol", "show", "node", self.node], env=self.environment(), text=True,
                              capture_output=True, check=False).stdout
        found = dict(word.split("=", 1) for word in said.split() if "=" in word)
        found["Reason"] = said.partition("Reason=")[2].partition("\n")[0]
        return found

    def await_node(self, *states):
        harness.wait_until(lambda: self.node_said().get("State", "").split("+")[0] in states,
                           lambda: "the node is %s: %s\n%s" % (states, self.node_said(), self.logs()))

    def resume_node(self):
        self.run("scontrol", "update", "nodename=" + self.node, "state=resume")
        self.await_node("IDLE", "MIXED", "ALLOCATED")

    def submit(self, script, *options, user=None, env=None):
        """Submits a batch job. Returns its number. `user` is another user's name."""
        path = self.folder / "output/script"
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)
        command = ["sbatch", "--parsable", "--output=%s/output/%%j" % self.folder, "--chdir=/",
                   "--cpus-per-task=1", *(["--uid=" + user] if user else []), *options, str(path)]
        done = subprocess.run(command, env={**self.environment(), **(env or {})}, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job_said(self, job):
        """name -> value of what Slurm says of the job; nothing once it has forgotten it."""
        said = subprocess.run(["scontrol", "show", "job", job], env=self.environment(), text=True,
                              capture_output=True, check=False).stdout
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def state(self, job):
        return self.job_said(job).get("JobState", "")

    def await_state(self, job, *states):
        """Waits for one of the states, and fails where the job has ended in another."""
        def is_there():
            state = self.state(job)
            assert state in states or state not in ENDED, "job %s is %s: %s\n%s" % (
                job, state, self.output(job), self.logs())
            return state in states

        harness.wait_until(is_there, lambda: "job %s is %s, not %s: %s\n%s" % (
            job, self.state(job), states, self.output(job), self.logs()))

    def await_idle(self):
        """Waits until no job is on the node, and their epilogs have ended."""
        harness.wait_until(lambda: not self.run("squeue", "--noheader"), lambda: "no job is there: %s\n%s" % (
            self.run("squeue"), self.logs()))
        self.await_node("IDLE")

    def cancel(self, *jobs):
        self.run("scancel", *jobs)

    def output(self, job):
        path = self.folder / "output" / job
        return path.read_text(errors="replace") if path.exists() else ""
