"""A scheduler and a server that reports to it, what an honest tenant and an operator do with them,
and what both must be like during an attack and after it."""
import glob
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import cuts
import local_server
from pool.http2 import HEALTH_CHECK, Caller

# The peak of a process's memory during an attack, beyond what it had before.
MOST_PEAK_KIB = 128 << 10
# The silence after which a server is lost and a lease ends.
LOST_AFTER_S = 20
SERVER_NAME = "a"
SETTLE_S = 0.02


class GotThrough(Exception):
    """An attack has had its effect; the message says which."""


def environment(**more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}, **more}


def _memory_kib(pid, name):
    """0 when the process is gone."""
    try:
        status = pathlib.Path("/proc/%d/status" % pid).read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines()
                 if line.startswith(name + ":")), 0)


def _reset_peak(pid):
    try:
        pathlib.Path("/proc/%d/clear_refs" % pid).write_text("5", encoding="ascii")
    except OSError:
        pass  # Then the peak is that of the process's life.


class Pool:
    """`ports` are those that attacks name. The scheduler's operator has made a tenant and a server, so
    that everybody needs a credential. Whatever takes `give_up_s` seconds does not come."""

    def __init__(self, installation, flags, give_up_s):
        self.installation, self.flags, self.give_up_s = installation, list(flags), give_up_s
        self._root = installation.root
        names = ("scheduler_health", "scheduler_metrics", "page", "server_health", "server_metrics")
        self.ports = {name: local_server.free_port() for name in names}
        self._others, self._before, self._actions, self._tenants = [], {}, [], 0
        # gRPC's names for sockets are short.
        self._socket_folder = tempfile.TemporaryDirectory(prefix="warpline-")
        self.scheduler_socket = pathlib.Path(self._socket_folder.name) / "s"
        self.scheduler = local_server.Scheduler(installation, [
            "--listen=127.0.0.1:0,unix:%s" % self.scheduler_socket,
            "--report_interval=100ms", "--lost_after=%ds" % LOST_AFTER_S,
            "--lease_ttl=%ds" % LOST_AFTER_S, *self._listen("scheduler"),
            "--page_listen=127.0.0.1:%d" % self.ports["page"]])
        self.folder = self.scheduler.folder
        self.server = None
        try:
            self.credential = self.operate("tenant", "add", "honest").strip()
            (self.folder / "tenant").write_text(self.credential, encoding="ascii")
            (self.folder / "server").write_text(
                self.operate("servers", "add", SERVER_NAME), encoding="ascii")
            self.server = self.serve(*self.join(), *self._listen("server"))
            self.ports["scheduler"] = self.port_of(self.scheduler)
            self.ports["server"] = self.port_of(self.server)
            self.wait_until(lambda: "up server=" + SERVER_NAME in self.scheduler.log(),
                            "the server is not up")
            self.run_honest()
            self.alone_s = min(self.run_honest() for _ in range(3))
        except GotThrough as trouble:
            self.close()
            raise local_server.Error("the pool does not start: %s" % trouble) from trouble
        except BaseException:
            self.close()
            raise

    def _listen(self, name):
        return ["--admin_listen=127.0.0.1:%d" % self.ports[name + "_metrics"],
                "--health_listen=127.0.0.1:%d" % self.ports[name + "_health"],
                "--audit_dir=%s" % (self._root / ("%s-audit-%d" % (name, os.getpid())))]

    def close(self):
        """Ends everything that this process has started."""
        for other in [*self._others, self.server]:
            if other is not None:
                other.__exit__(None, None, None)
        self.scheduler.close()
        self._socket_folder.cleanup()
        for folder in self._root.glob("*-audit-%d" % os.getpid()):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()

    @staticmethod
    def port_of(server):
        return int(server.endpoint.rsplit(":", 1)[1])

    def join(self):
        """The flags of a server that reports as this pool's does."""
        return ["--scheduler=" + self.scheduler.endpoint, "--name=" + SERVER_NAME,
                "--scheduler_credential_file=%s" % (self.folder / "server")]

    def serve(self, *flags):
        """Starts a server, which end_server() ends."""
        server = local_server.Server(self.installation, [*self.flags, *flags])
        server.__enter__()
        if self.server is not None:
            self._others.append(server)
            self._watch(server.pid)
        return server

    def end_server(self, server):
        # Leaving it would end the others, too.
        os.kill(server.pid, signal.SIGTERM)
        self.wait_until(lambda: not server.running(), "a server does not end")

    def wait_until(self, condition, what):
        deadline = time.monotonic() + self.give_up_s
        while not condition():
            if time.monotonic() > deadline:
                raise GotThrough("not within %d s: %s" % (
                    self.give_up_s, what() if callable(what) else what))
            time.sleep(SETTLE_S)

    # --- What people do.

    def warpline(self, *arguments, **env):
        """What the command prints. It gives up after some seconds, which a busy machine takes by itself:
        then it is called again."""
        deadline = time.monotonic() + self.give_up_s
        while True:
            try:
                done = subprocess.run(
                    [str(self._root / "bin/warpline"), *arguments], env=environment(**env),
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                    timeout=self.give_up_s, check=False)
            except subprocess.TimeoutExpired as error:
                raise GotThrough("`warpline %s` has no end" % arguments[0]) from error
            if done.returncode == 0:
                return done.stdout
            said = done.stderr + done.stdout
            if "Deadline Exceeded" not in said or time.monotonic() > deadline:
                raise GotThrough("`warpline %s` fails: %s" % (arguments[0], said[-300:].strip()))

    def operate(self, *arguments):
        return self.warpline(
            *arguments, "--endpoint=" + self.scheduler.endpoint,
            WARPLINE_OPERATOR_CREDENTIAL_FILE=str(self.folder / "state/operator.credential"))

    def run_honest(self, endpoint=None):
        """Runs an honest program, and returns how long that took."""
        began = time.monotonic()
        self.warpline("run", "--endpoint=" + (endpoint or self.scheduler.endpoint), "--",
                      str(self._root / "bin/vector_add"),
                      WARPLINE_CREDENTIAL_FILE=str(self.folder / "tenant"))
        return time.monotonic() - began

    def act(self, tenants=1):
        """Has the operator add and remove tenants, which the audit must tell."""
        for _ in range(tenants):
            self._tenants += 1
            name = "tenant-%d" % self._tenants
            for action, done in (("add", "there is a tenant"), ("remove", "there is no tenant")):
                try:
                    self.operate("tenant", action, name)
                except GotThrough as trouble:
                    # The scheduler did it the first time, and nobody waited for the answer.
                    if done not in str(trouble):
                        raise
                self._actions.append((name, action))

    def get(self, name, path="/", **headers):
        """The status and the text that the port `name` answers over HTTP."""
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.ports[name], path),
                                         headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self.give_up_s) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")
        except OSError as error:
            raise GotThrough("no answer at the port %s: %s" % (name, error)) from error

    def see_pool(self, credential=None):
        """The page's answer to whoever shows a credential."""
        return self.get("page", "/pool.json",
                        Authorization="Bearer " + (credential or self.credential))

    # --- What holds.

    def _watch(self, pid):
        _reset_peak(pid)
        self._before[pid] = _memory_kib(pid, "VmHWM")

    def grown_kib(self):
        """By how much the process that has grown most is above what it had when it was watched first,
        or had before the attack."""
        return max(_memory_kib(pid, "VmHWM") - before for pid, before in self._before.items())

    def has_grown(self):
        return self.grown_kib() > MOST_PEAK_KIB

    def begin(self):
        """Called before an attack."""
        self._before, self._actions = {}, []
        for pid in (self.scheduler.process.pid, self.server.pid):
            self._watch(pid)
        self._log_begins = len(self.scheduler.log())
        self._cut_before = {process: self._cut_of(process) for process in ("scheduler", "server")}

    def cut(self, process):
        """How many connections the meters of a process have cut since the attack began."""
        return self._cut_of(process) - self._cut_before[process]

    def _cut_of(self, process):
        name = {"scheduler": "warpline_scheduler_connections_cut_total",
                "server": "warpline_connections_cut_total"}[process]
        return int(cuts.metrics(self.ports[process + "_metrics"])[name])

    def new_log(self):
        """What the scheduler has logged since the attack began."""
        return self.scheduler.log()[self._log_begins:]

    def check(self):
        """Everybody is served; called while an attack is under way. Returns how many times as long
        an honest program takes as alone, for people to read: nothing is judged by it."""
        took = self.run_honest()
        self.act()
        for name in ("scheduler_metrics", "server_metrics"):
            status, text = self.get(name, "/metrics")
            if status != 200 or "warpline_" not in text:
                raise GotThrough("the port %s answers with %d" % (name, status))
        for name in ("scheduler_health", "server_health"):
            self.check_health(name)
        if self.see_pool()[0] != 200:
            raise GotThrough("the page does not show the pool")
        return took / self.alone_s

    def check_health(self, name):
        try:
            with Caller(self.ports[name], timeout_s=self.give_up_s) as caller:
                answered = caller.call(HEALTH_CHECK)
        except OSError as error:
            raise GotThrough("the port %s: %s" % (name, error)) from error
        if answered is None:
            raise GotThrough("the port %s does not say how it is" % name)

    def _missing(self):
        """The operator's actions since the attack began that the audit does not tell."""
        told = set()
        for path in glob.glob(str(self._root / ("scheduler-audit-%d" % os.getpid()) / "*.jsonl")):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    # The last one may be half written.
                    if '"admin.tenant"' in line and line.endswith("\n"):
                        record = json.loads(line)
                        if record["outcome"] == "OK":
                            told.add((record["name"], record["action"]))
        return [action for action in self._actions if action not in told]

    def judge(self):
        """Called after an attack. Returns what it cost."""
        for name, alive in (("scheduler", self.scheduler.process.poll() is None),
                            ("server", self.server.running())):
            if not alive:
                raise GotThrough("the %s has ended" % name)
        grown = self.grown_kib()
        if grown > MOST_PEAK_KIB:
            raise GotThrough("%d MiB more at the peak" % (grown >> 10))
        if "lost server=" + SERVER_NAME in self.new_log():
            raise GotThrough("the server was lost")
        servers = json.loads(self.operate("servers", "--json"))["servers"]
        if [s["state"] for s in servers if s["name"] == SERVER_NAME] != ["up"]:
            raise GotThrough("the server is not up")
        # A thread of its own writes them.
        self.wait_until(lambda: not self._missing(), lambda: "%d of %d operator's actions recorded" % (
            len(self._actions) - len(self._missing()), len(self._actions)))
        return "%d MiB more at the peak, %d operator's actions recorded" % (
            grown >> 10, len(self._actions))
