"""A scheduler with its page, and servers and tenants that fill_pool makes up."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(ROOT / "deploy/local"))

import local_server  # noqa: E402  (found by the path above)

BINARIES = {"warpline-scheduler": ROOT / "scheduler/warpline-scheduler",
            "warpline": ROOT / "tools/cli/warpline", "fill_pool": ROOT / "tests/page/fill_pool"}


def wait_until(condition, what, timeout_s=240):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within %d s: %s" % (
            timeout_s, what() if callable(what) else what)
        time.sleep(0.05)


def hexed(text):
    return text.encode().hex() or "-"


class Pool:
    """Its scheduler keeps its state folder and its ports when it is started again."""

    def __init__(self, flags=(), state=None, folder=None):
        self.temporary = tempfile.TemporaryDirectory(prefix="warpline-page-")
        self.folder = folder or pathlib.Path(self.temporary.name)
        self.log_path = self.folder / "log"
        self.flags, self.state = list(flags), state
        self.address, self.page_port = "127.0.0.1:0", 0
        self.process = self.filler = None
        self.tenants = {}
        self.start()

    def start(self):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        state = ["--state=%s" % self.state, "--state_folder=%s" % (self.folder / "state")] \
            if self.state else ["--state=%s" % (self.folder / "state")]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [BINARIES["warpline-scheduler"], "--listen=" + self.address, *state,
                 "--page_listen=127.0.0.1:%d" % self.page_port, "--port_file=%s" % port_file,
                 "--report_interval=200ms", "--lost_after=8s", "--lease_ttl=60s",
                 "--tenant_calls=100000", *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(port_file.exists, self.log)
        self.address = "127.0.0.1:" + port_file.read_text().strip()
        self.page_port = int(re.findall(r"page_port=(\d+)", self.log())[-1])
        self.url = "http://127.0.0.1:%d" % self.page_port

    def log(self):
        return self.log_path.read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        for process in (self.filler, self.process):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if self.filler is not None:
            self.filler.stdin.close()
            self.filler.stdout.close()
        self.temporary.cleanup()

    @property
    def operator(self):
        return (self.folder / "state/operator.credential").read_text().strip()

    def warpline(self, *arguments):
        done = subprocess.run(
            [BINARIES["warpline"], *arguments, "--endpoint=" + self.address],
            env={**os.environ, "WARPLINE_CONNECT_TIMEOUT": "60", "WARPLINE_OPERATOR_CREDENTIAL_FILE":
                 str(self.folder / "state/operator.credential")},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def add_tenant(self, name, *flags):
        self.tenants[name] = self.warpline("tenant", "add", name, *flags)
        return self.tenants[name]

    def fill(self, *words):
        """Has fill_pool do it; returns the rest of its answer."""
        if self.filler is None:
            self.filler = subprocess.Popen(
                [BINARIES["fill_pool"], "--schedulers=" + self.address], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True)
        self.filler.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.filler.stdin.flush()
        answer = self.filler.stdout.readline().strip()
        assert answer.startswith("ok"), "%s: %s" % (words, answer)
        return answer[3:]

    def add_server(self, name, gpus=8, gib=80):
        credential = self.warpline("servers", "add", name) if self.tenants else "-"
        self.fill("server", name, gpus, gib, credential)

    def lease(self, tenant, gib, gpus=1, sessions=1, slice_name="-", program="train.py"):
        self.fill("lease", self.tenants[tenant], gib, gpus, sessions, slice_name, hexed(program))

    def wait(self, tenant, gib, gpus=1, gang="", members=0, program="train.py"):
        self.fill("wait", self.tenants[tenant], gib, gpus, hexed(gang), members, hexed(program))

    def get(self, path="/pool.json", credential=None, method="GET", **headers):
        """(status, headers, body)"""
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        if credential is not None:
            request.add_header("Authorization", "Bearer " + credential)
        try:
            with urllib.request.urlopen(request, timeout=240) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()
