"""A scheduler and a server of its own, for benchmarks with several tenants."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time


class Pool:
    """A scheduler with tenants, each with these flags of `warpline tenant add`, and one server. They
    are called tenant0, tenant1 and so on. `slices` are flags of `warpline slice add` by the slices'
    names. A context manager."""

    def __init__(self, local_server, installation, tenants, server_flags, slices=None):
        self._local_server = local_server
        self._bin = pathlib.Path(installation.root) / "bin"
        self._installation = installation
        self._tenants = tenants
        self._slices = slices or {}
        self._server_flags = server_flags
        self._stack = contextlib.ExitStack()
        self._credentials = []
        self._folder = None
        self._scheduler = None
        self.server = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pool-")))
            self._start_scheduler(stack)
            for name, flags in self._slices.items():
                self.warpline("slice", "add", name, *flags)
            for i, flags in enumerate(self._tenants):
                self._credentials.append(self.warpline("tenant", "add", "tenant%d" % i, *flags).strip())
            credential = self._folder / "server.credential"
            credential.write_text(self.warpline("servers", "add", "one"), encoding="ascii")
            flags = ["--scheduler=" + self._endpoint, "--name=one",
                     "--scheduler_credential_file=%s" % credential, *self._server_flags]
            self.server = stack.enter_context(self._local_server.Server(self._installation, flags))
            self._wait(lambda: "up server=one" in self._log(), "the server is known")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _log(self):
        return (self._folder / "log").read_text(encoding="utf-8")

    @staticmethod
    def _wait(condition, what):
        deadline = time.monotonic() + 240
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError("waited in vain until " + what)
            time.sleep(0.02)

    def _start_scheduler(self, stack):
        port = self._folder / "port"
        log = stack.enter_context(open(self._folder / "log", "wb"))
        self._scheduler = subprocess.Popen(
            [str(self._bin / "warpline-scheduler"), "--listen=127.0.0.1:0", "--port_file=%s" % port,
             "--state=%s" % (self._folder / "state"), "--report_interval=200ms", "--lost_after=10s"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(self._end_scheduler)
        self._wait(port.exists, "the scheduler serves")
        self._endpoint = "127.0.0.1:" + port.read_text(encoding="ascii").strip()

    def _end_scheduler(self):
        self._scheduler.terminate()
        self._scheduler.wait(240)

    def _environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        # A busy machine may take long to answer.
        env["WARPLINE_CONNECT_TIMEOUT"] = "60"
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(self._folder / "state/operator.credential")
        env.update(more)
        return env

    def warpline(self, *arguments, endpoint=None):
        done = subprocess.run([str(self._bin / "warpline"), *arguments, "--endpoint=" + (endpoint or self._endpoint)],
                              env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=240, check=False)
        if done.returncode != 0:
            raise RuntimeError("warpline %s: %s" % (" ".join(arguments), done.stderr))
        return done.stdout

    @contextlib.contextmanager
    def traced(self, path, seconds):
        """Around what is to be traced: writes so many seconds of the server's dispatch to a file."""
        thread = threading.Thread(target=self.warpline, kwargs={"endpoint": self.server.endpoint}, args=(
            "trace", "--seconds=%d" % seconds, "-o", str(path)))
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def command(self, tier, *command):
        """For a tenant's environment()."""
        return [str(self._bin / "warpline"), "run", "--endpoint=" + self._endpoint, "--tier=" + tier, "--", *command]

    def environment(self, tenant, **more):
        return self._environment(WARPLINE_CREDENTIAL=self._credentials[tenant], **more)

    def start(self, tenant, tier, *command, **more):
        """`more` is for Popen."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(self.command(tier, *command), env=self.environment(tenant), text=True, **options)

    def engine_times(self):
        """Microseconds of compute by tenant, as the server's books have them."""
        stat = json.loads(self.warpline("stat", "--json", endpoint=self.server.endpoint))
        times = {}
        for session in stat["sessions"]:
            usage = {row["name"]: int(row.get("value", 0)) for row in session["usage"]}
            times[session.get("tenant", "")] = times.get(session.get("tenant", ""), 0) + usage.get("compute_us", 0)
        return times
