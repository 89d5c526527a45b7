"""A Warpline installation on this machine, and a server and a scheduler started from it.

Installation: the folder layout that programs are run from, either a bundle or links to what Bazel
built. Server: a context manager around a warpline-server process on loopback; leaving it ends the
server and everything that this process started. Scheduler: a warpline-scheduler on loopback. Not
thread-safe.
"""
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# Path in the installation -> path under bazel-bin.
CLIENT_LIBRARIES = {
    "lib/libcuda.so.1": "client_stub/shim/libcuda.so.1",
    "lib/libnvidia-ml.so.1": "client_stub/nvml/libnvidia-ml.so.1",
    "lib/libwarpline_core.so": "client_stub/libwarpline_core.so",
    "lib/libwarpline_ucx.so": "transport/ucx/libwarpline_ucx.so",
    "lib/guarded/libcublas.so.13": "client_stub/libraries/libcublas.so.13",
    "lib/guarded/libcublasLt.so.13": "client_stub/libraries/libcublasLt.so.13",
    # NVIDIA's libraries find it in a shared worker.
    "lib/driver/libcuda.so.1": "server/device/cuda/libraries/libcuda.so.1",
}
BINARIES = {
    "bin/warpline": "tools/cli/warpline",
    "bin/warpline-server": "server/gpu_server/warpline-server",
    "bin/warpline-supervisor": "server/supervisor/warpline-supervisor",
    "bin/warpline-worker": "server/worker/warpline-worker",
    "bin/warpline-keeper": "server/keeper/warpline-keeper",
    "bin/warpline-relay": "server/relay/warpline-relay",
    "bin/warpline-compiler": "server/compiler/warpline-compiler",
    "bin/warpline-mps": "server/mps/warpline-mps",
    "bin/warpline-scheduler": "scheduler/warpline-scheduler",
    "bin/warpline-ptxas": "tools/ptxas/warpline-ptxas",
}
READY_TIMEOUT_S = 240
STOP_TIMEOUT_S = 60

# Sockets that keep ports from others until this process ends.
_kept_ports = []

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


class Error(Exception):
    """Something that the person who runs this can act on; the message says what."""


def _place(source, target):
    """A second name for the file where the file system allows it: a program must find its
    neighbours in the installation, which a symbolic link to elsewhere would not let it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Installation:
    """A folder with lib/ and bin/. `root` is its path; close() removes it if it was made here."""

    def __init__(self, root, temporary=False):
        self.root = pathlib.Path(root).resolve()
        self._temporary = temporary

    @classmethod
    def from_bundle(cls, folder):
        found = cls(folder)
        found.check([*CLIENT_LIBRARIES, *BINARIES])
        return found

    @classmethod
    def from_bazel_bin(cls, bazel_bin, programs):
        """programs: further files to place, installation path -> path under bazel_bin."""
        bazel_bin = pathlib.Path(bazel_bin).resolve()
        wanted = {**CLIENT_LIBRARIES, **BINARIES, **programs}
        missing = [path for path in wanted.values() if not (bazel_bin / path).is_file()]
        if missing:
            raise Error("not built: %s (looked in %s)" % (", ".join(missing), bazel_bin))
        # Beside the build where possible: links need the same file system.
        parent = bazel_bin.parent if os.access(bazel_bin.parent, os.W_OK) else None
        made = cls(tempfile.mkdtemp(prefix="warpline-", dir=parent), temporary=True)
        for target, source in wanted.items():
            _place((bazel_bin / source).resolve(), made.root / target)
        return made

    def check(self, paths):
        missing = [path for path in paths if not (self.root / path).is_file()]
        if missing:
            raise Error("%s lacks %s" % (self.root, ", ".join(missing)))

    def close(self):
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    def client_environment(self, endpoint):
        """The environment of an application: this one, with our library folder as the only one."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
            env.pop(name, None)
        env["LD_LIBRARY_PATH"] = str(self.root / "lib")
        env["WARPLINE_ENDPOINT"] = endpoint
        return env


def _end_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port(host="127.0.0.1"):
    """A port of `host` that nobody has, for one program that listens there with SO_REUSEADDR, as ours and
    etcd do. Nobody else is given it while this process lives."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, 0))
    _kept_ports.append(kept)
    return kept.getsockname()[1]


def children(pid):
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as ids:
                found += [int(child) for child in ids.read().split()]
    except OSError:
        pass  # It ended meanwhile, or this kernel does not list children.
    return found


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def stop_on_signals():
    """Makes the first SIGINT or SIGTERM a KeyboardInterrupt and ignores further ones, so that what
    ends the server is not itself interrupted."""
    def stop(*_):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def run_group(command, env, timeout_s):
    """Runs a program with what it starts, as one process group that a timeout ends as a whole.
    Returns (exit status or None for a timeout, stdout, stderr)."""
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        output, errors = process.communicate(timeout=timeout_s)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        return None, output, errors
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _end_descendants():
    """Kills whatever this process still has below it, such as workers that the server left."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return


class Server:
    """A warpline-server that listens on a free port of 127.0.0.1. `endpoint` is HOST:PORT. `prefix`
    is a command that starts it, for which other users may write where the server's files lie."""

    def __init__(self, installation, flags, prefix=()):
        self._prefix = list(prefix)
        self._installation = installation
        self._flags = flags
        self._process = None
        self._folder = None
        self.endpoint = None

    def __enter__(self):
        # Workers of a server that dies become children of this process, which then ends them.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-server-"))
        if self._prefix:
            self._folder.chmod(0o777)
        port_file = self._folder / "port"
        command = [*self._prefix, str(self._installation.root / "bin/warpline-server"), "--listen=127.0.0.1:0",
                   "--port_file=%s" % port_file, "--module_cache_dir=%s" % (self._folder / "modules"),
                   *self._flags]
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        with open(self._folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                start_new_session=True, preexec_fn=_end_with_parent)
        try:
            self.endpoint = "127.0.0.1:%d" % self._wait_until_ready(port_file)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    @property
    def pid(self):
        return self._process.pid

    @property
    def log_path(self):
        return self._folder / "log"

    def running(self):
        return self._process.poll() is None

    def log(self):
        """All that the server and its processes have logged."""
        try:
            return (self._folder / "log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def log_tail(self, lines=40):
        return "\n".join(self.log().splitlines()[-lines:])

    def _try(self, port):
        """OSError where nobody answers."""
        socket.create_connection(("127.0.0.1", port), timeout=1).close()

    def _wait_until_ready(self, port_file):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if not self.running():
                raise Error("warpline-server ended with status %d at its start:\n%s"
                            % (self._process.returncode, self.log_tail()))
            try:
                port = int(port_file.read_text(encoding="ascii"))
                self._try(port)
                return port
            except (OSError, ValueError):
                time.sleep(0.02)
        raise Error("warpline-server was not ready after %d s:\n%s"
                    % (READY_TIMEOUT_S, self.log_tail()))

    def _stop(self):
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        _end_descendants()
        shutil.rmtree(self._folder, ignore_errors=True)


class Scheduler:
    """A warpline-scheduler whose folder and port stay when it is started again. `endpoint` is
    HOST:PORT, and `process` what runs now."""

    def __init__(self, installation, flags):
        self._flags = list(flags)
        self._binary = str(installation.root / "bin/warpline-scheduler")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-scheduler-"))
        self.endpoint = "127.0.0.1:0"
        self.process = None
        self.start()

    def start(self):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self._binary, "--listen=" + self.endpoint, "--port_file=%s" % port_file,
                 "--state=%s" % (self.folder / "state"), *self._flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Error("warpline-scheduler does not serve:\n" + self.log())
            time.sleep(0.02)
        self.endpoint = "127.0.0.1:" + port_file.read_text(encoding="ascii").strip()

    def log(self):
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            if self.process.wait(READY_TIMEOUT_S) != 0:
                raise Error("warpline-scheduler ended badly:\n" + self.log())
        shutil.rmtree(self.folder)
