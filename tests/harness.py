"""What the tests that start a server have in common.

A test runs from Bazel's runfiles, which lie as bazel-bin does. Everything runs on loopback and on
the CPU device. A test that takes its programs from installation_with() also runs on a machine
without Bazel, such as one with a GPU:

    BUNDLE=DIR PROGRAMS=DIR DEVICE=cuda tests/slices_test.py

BUNDLE is what `./dev bundle` made, and PROGRAMS a folder of the built programs that the test names.
Those that speak the protocol themselves, such as limit_storm, need gRPC's libraries there.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUNDLE = os.environ.get("BUNDLE")
DEVICE = os.environ.get("DEVICE", "cpu")
RUNFILES = ROOT if BUNDLE else pathlib.Path(
    os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "deploy/local"))

import local_server  # noqa: E402  (found by the path above)

STAT_PREFIX = "warpline stat: "
# When a test gives up. No test decides by how long something took.
GIVE_UP_S = 240
# How long a lease lasts that nobody renews: longer than a busy machine keeps its holder waiting.
LEASE_TTL_S = 8
# How long programs wait for a server that answers late, since the machine is busy.
PATIENT = {"WARPLINE_CONNECT_TIMEOUT": "60"}
os.environ.update(PATIENT)


def skip(reason):
    """Ends a test program that cannot run here; ./dev test counts it as skipped."""
    name = pathlib.Path(sys.argv[0]).stem
    print("%s is skipped: %s" % (name, reason))
    if "XML_OUTPUT_FILE" in os.environ:
        pathlib.Path(os.environ["XML_OUTPUT_FILE"]).write_text(
            '<testsuites><testsuite name="%s"><testcase name="%s"><skipped/></testcase></testsuite></testsuites>\n'
            % (name, name), encoding="ascii")
    sys.exit(0)


class Installation(local_server.Installation):
    """One whose programs wait for a busy server."""

    def client_environment(self, endpoint):
        return {**super().client_environment(endpoint), **PATIENT}


def install(programs):
    """An installation with these example programs. Close it at the end."""
    return installation_with({"bin/examples/" + name: "examples/" + name for name in programs})


def installation_with(programs):
    """An installation with these programs, path in it -> path under bazel-bin. Close it at the end."""
    if not BUNDLE:
        return Installation.from_bazel_bin(RUNFILES, programs)
    made = Installation(tempfile.mkdtemp(prefix="warpline-"), temporary=True)
    shutil.copytree(BUNDLE, made.root, symlinks=True, dirs_exist_ok=True)
    for target, source in programs.items():
        shutil.copy(pathlib.Path(os.environ["PROGRAMS"]) / pathlib.Path(source).name, made.root / target)
    return made


def server(installation, *flags):
    return local_server.Server(installation, ["--device=" + DEVICE, *flags])


def start(installation, endpoint, name, *arguments, stat=False, env=None, stdin=subprocess.DEVNULL,
          stderr=subprocess.PIPE, prefix=()):
    """Starts an example as an application that knows nothing of us; `prefix` is a command that does."""
    environment = installation.client_environment(endpoint)
    if stat:
        environment["WARPLINE_STAT"] = "1"
    environment.update(env or {})
    return subprocess.Popen([*prefix, str(installation.root / "bin/examples" / name), *arguments],
                            env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr,
                            text=True, start_new_session=True)


def start_held(installation, endpoint, name, *arguments, **options):
    """Starts a program that takes --held (examples/held.h). It is past its start when this returns,
    and goes on until finish() lets it go."""
    process = start(installation, endpoint, name, "--held", *arguments, stdin=subprocess.PIPE, **options)
    await_held(process, name)
    return process


def sessions(installation, endpoint, prefix=(), env=None):
    """The sessions of `warpline ps`; `prefix` is a command that starts it."""
    listed = subprocess.run(
        [*prefix, str(installation.root / "bin/warpline"), "ps", "--json", "--endpoint=" + endpoint],
        stdout=subprocess.PIPE, text=True, timeout=GIVE_UP_S, check=True, env={**os.environ, **(env or {})})
    return json.loads(listed.stdout).get("sessions", [])


def await_work(installation, endpoint, process, commands=50):
    """Waits until the session of a program has had so many commands, and so is amid its work."""
    wait_until(lambda: any(one["client_pid"] == process.pid and int(one["commands"]) >= commands
                           for one in sessions(installation, endpoint)),
               "the program is at work")


def await_held(process, name):
    line = process.stdout.readline()
    if line != name + ": goes on\n":
        process.kill()
        raise AssertionError("it does not go on: %s%s\n%s" % (line, *process.communicate()))


def finish(process, timeout_s=GIVE_UP_S):
    """Lets the program go if it is held. Returns (exit status, stdout, stderr)."""
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError("no end after %d s\n%s\n%s" % (timeout_s, stdout, stderr))
    return process.returncode, stdout, stderr


def run(installation, endpoint, name, *arguments, **options):
    """Runs an example to its end and checks that it says ok itself. Returns stdout and stderr."""
    status, stdout, stderr = finish(start(installation, endpoint, name, *arguments, **options))
    last = stdout.strip().splitlines()[-1:]
    assert status == 0 and last and last[0].startswith(name + ": ok"), (
        "%s: status %d\n%s\n%s" % (name, status, stdout, stderr))
    return stdout, stderr


def counters(stderr):
    """The session's counters: {"launches": 10000, ...}; the first number of each line."""
    found = {}
    for line in stderr.splitlines():
        match = re.match(re.escape(STAT_PREFIX) + r"([^:]+): (\d+)", line)
        if match:
            found[match[1].strip()] = int(match[2])
    return found


def children(pid, name):
    """Ids of the running processes called `name` that `pid` started."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        command, rest = fields[fields.index("(") + 1:].rsplit(")", 1)
        state, parent = rest.split()[:2]
        if int(parent) == pid and name.startswith(command) and state != "Z":
            found.append(int(entry))
    return found


def server_processes(pid, name):
    """Ids of the running processes called `name` that the server `pid` had its supervisor start."""
    return [process for supervisor in children(pid, "warpline-supervisor")
            for process in children(supervisor, name)]


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def resident_mib(pid):
    text = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1024


def wait_until(condition, what, timeout_s=GIVE_UP_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within %d s: %s" % (
            timeout_s, what() if callable(what) else what)
        time.sleep(0.02)


class Scheduler(local_server.Scheduler):
    """A scheduler that loses a server only when it is gone, however busy the machine is."""

    def __init__(self, installation, *flags):
        super().__init__(installation, ["--report_interval=100ms", "--lost_after=8s",
                                        "--lease_ttl=%ds" % LEASE_TTL_S, *flags])

    def set_flag(self, flag):
        """When it is started again it has this flag, too, in place of one of the same name."""
        self._flags.append(flag)
